#pragma once

#include <optional>
#include <string_view>

#include <cubepi/core/json.hpp>
#include <cubepi/core/usage.hpp>
#include <cubepi/schema/json/simdjson_walk.hpp>

// The words of OpenAI's two protocols that have a counterpart in an answer of ours, each table with its two directions: what a
// client reads, a server writes. No I/O. docs/guides/providers/wire-formats.md has the design of the server's side.

namespace cubepi::detail {

/// The names of the numbers in `usage`.
struct OpenAIUsageNames {
    std::string_view input;           ///< cached tokens among them
    std::string_view output;          ///< reasoning tokens among them
    std::string_view input_details;   ///< an object with `cached_tokens`
    std::string_view output_details;  ///< an object with `reasoning_tokens`
    std::string_view cached;  ///< the place outside of the details at some compatible servers
};

inline constexpr OpenAIUsageNames chat_usage_names = {
    .input = "prompt_tokens",
    .output = "completion_tokens",
    .input_details = "prompt_tokens_details",
    .output_details = "completion_tokens_details",
    .cached = "prompt_cache_hit_tokens",
};
inline constexpr OpenAIUsageNames responses_usage_names = {
    .input = "input_tokens",
    .output = "output_tokens",
    .input_details = "input_tokens_details",
    .output_details = "output_tokens_details",
    .cached = {},
};

/// Absent if it has no usable number (D12).
std::optional<Usage> read_openai_usage(od::object object, const OpenAIUsageNames& names);
JsonObject openai_usage(const Usage& usage, const OpenAIUsageNames& names);

// The `finish_reason` of a chat completion; words without a counterpart are the same in both.
std::string_view stop_reason_of_finish(std::string_view finish_reason);
std::string_view finish_of_stop_reason(std::string_view stop_reason);

}  // namespace cubepi::detail
