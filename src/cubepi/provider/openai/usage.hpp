#pragma once

#include <optional>
#include <string_view>

#include <cubepi/core/usage.hpp>
#include <cubepi/schema/json/simdjson_walk.hpp>

namespace cubepi::detail {

/// What one of OpenAI's protocols calls the numbers of its `usage`.
struct OpenAIUsageNames {
    std::string_view input;           ///< cached tokens among them
    std::string_view output;          ///< reasoning tokens among them
    std::string_view input_details;   ///< an object with `cached_tokens`
    std::string_view output_details;  ///< an object with `reasoning_tokens`
    std::string_view cached;          ///< where a compatible server has it beside the details
};

/// Absent when it says nothing of use (D12).
std::optional<Usage> read_openai_usage(od::object object, const OpenAIUsageNames& names);

}  // namespace cubepi::detail
