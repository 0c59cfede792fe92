#pragma once

#include <functional>
#include <memory>
#include <string>

#include <bub/tape/tape_store.hpp>
#include <cubepi/checkpoint/server/store.hpp>

namespace bub::detail {

/// Visits the matching entries, page by page. They are those of one moment, that of the first page: later appends are left out.
/// If the tape is reset in between, calls `restart`, which returns true if the entries so far are forgotten, and begins again;
/// or throws CheckpointerError(storage).
Task<void> visit_pages(std::shared_ptr<cubepi::detail::SqlStore> store, std::string tape,
                       TapeQuery query, std::function<bool(const TapeEntry&)> visit,
                       std::function<bool()> restart);

}  // namespace bub::detail
