#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/core/message_list.hpp>
#include <cubepi/provider/provider.hpp>

namespace cubepi::detail {

/// The key of cache markers, which are not a part of the prompt.
inline constexpr std::string_view cache_marker = "cache_control";

/// A digest of a prompt as the model reads it, in this order: tools, system prompt, messages.
struct PromptDigest {
    std::uint64_t model = 0;              ///< its fingerprint
    std::vector<std::string> tools = {};  ///< one fingerprint per tool
    std::string system_prompt = {};
    std::size_t message_count = 0;
    std::string messages = {};
};

/// Returns a fingerprint of a model and its provider, the same in every process.
std::uint64_t model_fingerprint(const Model& model);

PromptDigest digest_of(std::uint64_t model, const ToolDefinitions* tools,
                       std::string_view system_prompt, const MessageList& messages);
std::string fingerprint_of(const ToolDefinition& tool);
std::string fingerprint_of(std::string_view text);
/// Returns the fingerprint of the first `count` messages.
std::string fingerprint_of(const MessageList& messages, std::size_t count);

JsonObject to_json(const PromptDigest& digest);
/// Returns nothing if `json` is not a digest.
std::optional<PromptDigest> prompt_digest_from_json(const Json& json);

}  // namespace cubepi::detail
