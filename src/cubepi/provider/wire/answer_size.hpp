#pragma once

#include <cstddef>

#include <cubepi/core/json.hpp>
#include <cubepi/core/message.hpp>

// What an answer takes in memory, and what is kept of one that takes too much (StreamOptions::max_answer_bytes).

namespace cubepi::detail {

/// What a block counts besides its content.
inline constexpr std::size_t block_overhead = 256;
/// What a piece of text counts besides its bytes.
inline constexpr std::size_t piece_overhead = 32;
/// What stays in the history of an answer that was too large: a request with it must still fit a model's window.
inline constexpr std::size_t kept_of_large_answer = std::size_t{64} << 10U;

/// Memory of a JSON value, nearly enough for a limit.
std::size_t json_memory(const Json& value);
std::size_t json_memory(const JsonObject& object);

/// Memory of a block, besides `block_overhead`.
std::size_t block_memory(const AssistantContent& block);

/// Cuts a message to its first `size` bytes of content: blocks in their order, a text at a character, anything else only
/// as a whole. Vendor details of the message are dropped, since they may refer to blocks that are.
void shorten(AssistantMessage& message, std::size_t size);

}  // namespace cubepi::detail
