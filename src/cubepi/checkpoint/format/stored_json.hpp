#pragma once

#include <string>
#include <vector>

#include <cubepi/core/json.hpp>

namespace cubepi::detail {

/// Throws CheckpointerError(invalid_argument) for JSON that could not be read again; `what` names it in the message.
void refuse_too_deep(const std::string& thread_id, const char* what, const Json& json);
void refuse_too_deep(const std::string& thread_id, const char* what, const JsonObject& json);

/// The difference that a call of save_extra() makes.
struct ExtraChange {
    std::vector<std::string> removed = {};
    JsonObject changed = {};
    JsonObject merged = {};  ///< the extra with both
    bool empty() const noexcept { return removed.empty() && changed.empty(); }
};

/// Merges `changes` into a thread's extra at the top level; a null removes its key (D19). An unchanged value is not part of
/// the difference, so that a stored value that was read only approximately is not written back.
ExtraChange change_extra(JsonObject stored, const JsonObject& changes);

}  // namespace cubepi::detail
