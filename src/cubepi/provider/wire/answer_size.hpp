#pragma once

#include <cstddef>

#include <cubepi/core/message.hpp>

// The memory of an answer, and the shortening of one that is too large (StreamOptions::max_answer_bytes).

namespace cubepi::detail {

/// Bytes counted for a block in addition to its content.
inline constexpr std::size_t block_overhead = 256;
/// Bytes counted for a piece of text in addition to its own.
inline constexpr std::size_t piece_overhead = 32;
/// Bytes that remain in the history of an answer that was too large: a request with them must still fit the context
/// window.
inline constexpr std::size_t retained_answer_size = std::size_t{64} << 10U;

/// Estimates the memory of a block without `block_overhead`.
std::size_t block_memory(const AssistantContent& block);

/// Shortens a message to its first `size` bytes of content: blocks in order, text at a character boundary, other
/// blocks only as a whole. Drops vendor details of the message, which may refer to dropped blocks.
void shorten(AssistantMessage& message, std::size_t size);

}  // namespace cubepi::detail
