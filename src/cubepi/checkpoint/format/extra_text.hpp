#pragma once

#include <string>
#include <string_view>

#include <cubepi/core/json.hpp>

namespace cubepi::detail {

/// Returns the stored text of a thread's extra with `changes` merged at the top level. A null removes its key. An unchanged
/// value keeps its text, so that values that cannot be read exactly (NaN, lone surrogates, integers beyond 64 bits) are
/// not altered. Throws Error (parse) if `stored` is not a JSON object.
std::string merge_extra_text(std::string_view stored, const JsonObject& changes);

}  // namespace cubepi::detail
