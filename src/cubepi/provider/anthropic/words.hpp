#pragma once

// The keys under which what the Messages API says beyond CubePi's blocks is stored (D13). Stored threads have them: they
// never change.

namespace cubepi::detail {

/// Of a thinking block: what proves to the endpoint that the thinking is its own.
inline constexpr const char* signature_key = "signature";
/// Of a thinking block without text: the encrypted thinking.
inline constexpr const char* redacted_key = "redacted_data";
/// Of a text block: where it comes from.
inline constexpr const char* citations_key = "citations";
/// Of a message: blocks that CubePi has no word for (a server's own tools), [{"before": n, "block": {...}}], each in
/// front of the message's block n.
inline constexpr const char* foreign_blocks_key = "anthropic_blocks";

}  // namespace cubepi::detail
