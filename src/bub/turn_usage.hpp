#pragma once

#include <string_view>

namespace bub {

/// The key of Envelope::rest of a message whose last output shall have the tokens of the turn, under the same key: `{input, cached, output,
/// reasoning}`, whole numbers; `cached` is a part of `input`, and `reasoning` of `output`. Sub-agents are not included.
inline constexpr std::string_view usage_key = "usage";

/// The key of Envelope::rest with a digest of the request that a message came with. The tape records it, so that a request with the id
/// of an earlier one and other contents does not get the answer to that one.
inline constexpr std::string_view request_digest_key = "request_digest";

}  // namespace bub
