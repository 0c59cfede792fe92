#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include <cubepi/provider/prefix/prompt_digest.hpp>

namespace cubepi::detail {

/// Where two requests part: a tool, the system prompt, a block of a message, or somewhere in the messages.
struct PromptBreak {
    enum class Part : std::uint8_t { tools, system_prompt, messages, all_messages };
    Part part = Part::messages;
    std::size_t index = 0;  ///< of the tool or the message
    std::size_t block = 0;
    bool removed = false;
};

/// Compares the prompt of an earlier request with `now`. Returns nothing if `now` begins with it.
std::optional<PromptBreak> find_break(const std::shared_ptr<const ToolDefinitions>& tools,
                                      const SharedString& system_prompt,
                                      const MessageList& messages, const ModelRequest& now);
std::optional<PromptBreak> find_break(const PromptDigest& was, const ModelRequest& now);

}  // namespace cubepi::detail
