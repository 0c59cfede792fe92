#pragma once

// Keys of stored data of the Messages API that has no place in CubePi's blocks (D13). Stored threads contain them:
// they never change.

namespace cubepi::detail {

/// Of a thinking block: the signature by which the endpoint recognizes its own thinking.
inline constexpr const char* signature_key = "signature";
/// Of a thinking block without text: the encrypted thinking.
inline constexpr const char* redacted_key = "redacted_data";
/// Of a text block: its sources.
inline constexpr const char* citations_key = "citations";
/// Of a message: blocks of an unknown kind (tools of the server), [{"before": n, "block": {...}}], each before block
/// n of the message.
inline constexpr const char* foreign_blocks_key = "anthropic_blocks";

}  // namespace cubepi::detail
