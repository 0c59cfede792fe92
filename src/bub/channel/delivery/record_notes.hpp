#pragma once

#include <bub/channel/delivery_log.hpp>
#include <cubepi/checkpoint/store_report.hpp>

// The parts of a check of a delivery log that are the same for files and tables.

namespace bub::detail {

/// Counts an unfinished message, and notes that a turn has begun on it.
void note_inbound(const StoredInbound& inbound, cubepi::StoreReport& report);
/// Counts and notes an unsettled answer.
void note_answer(const Delivery& delivery, cubepi::StoreReport& report);

}  // namespace bub::detail
