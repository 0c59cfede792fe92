#pragma once

#include <string>

#include <bub/envelope.hpp>

namespace bub {

/// Returns the id of the user message that an envelope becomes, `CHANNEL:INBOUND_ID`; repeated deliveries of one
/// inbound message have the same id (D42). Empty if the platform does not identify its messages, so that each one is
/// new.
std::string input_id_of(const Envelope& message);

}  // namespace bub
