#pragma once

#include <string>
#include <string_view>

#include <cubepi/core/json.hpp>

namespace cubepi::detail {

/// The stored text of a thread's extra with `changes` merged in at the top level: null removes its key, and a value
/// that did not change keeps its text, so that what we cannot read exactly (NaN, lone surrogates, integers beyond
/// 64 bits) is not written back as something else. Throws Error (parse) if `stored` is not a JSON object.
std::string merge_extra_text(std::string_view stored, const JsonObject& changes);

}  // namespace cubepi::detail
