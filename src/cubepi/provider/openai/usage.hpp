#pragma once

#include <optional>
#include <string_view>

#include <cubepi/core/usage.hpp>
#include <cubepi/schema/json/simdjson_walk.hpp>

namespace cubepi::detail {

/// The names of the numbers in `usage` in one of OpenAI's protocols.
struct OpenAIUsageNames {
    std::string_view input;           ///< cached tokens among them
    std::string_view output;          ///< reasoning tokens among them
    std::string_view input_details;   ///< an object with `cached_tokens`
    std::string_view output_details;  ///< an object with `reasoning_tokens`
    std::string_view cached;  ///< the place outside of the details at some compatible servers
};

/// Absent if it has no usable number (D12).
std::optional<Usage> read_openai_usage(od::object object, const OpenAIUsageNames& names);

}  // namespace cubepi::detail
