#pragma once

#include <string_view>

namespace bub {

/// The key of Envelope::rest of a message whose last output shall have the tokens of the turn, under the same key: `{input, cached, output,
/// reasoning}`, whole numbers; `cached` is a part of `input`, and `reasoning` of `output`. Sub-agents are not included.
inline constexpr std::string_view usage_key = "usage";

}  // namespace bub
