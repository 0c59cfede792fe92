#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/task.hpp>
#include <cubepi/mcp/client.hpp>

#include "mcp_hub.hpp"

namespace cubepi::app {

/// An input of the user that names a prompt of an MCP server: "/git:review monday".
struct McpPromptInput {
    std::string server = {};
    std::string prompt = {};
    std::string arguments = {};
};

/// Returns nothing for any other text.
std::optional<McpPromptInput> mcp_prompt_input(std::string_view text);

/// A prompt of a server, as the user may enter it.
struct McpPromptName {
    std::string server = {};
    std::string text = {};  ///< "/git:review"
    std::string help = {};  ///< of the server, one line
    bool takes_arguments = false;
    bool needs_arguments = false;
};

/// Returns the prompts of the servers that answer within `limit`, in the order of the configuration.
Task<std::vector<McpPromptName>> list_mcp_prompts(std::shared_ptr<McpHub> servers,
                                                  std::chrono::nanoseconds limit);

/// Returns the message for the model: the text of the prompt, which names the server that has written it. The words of `arguments` are
/// the values of the prompt's arguments, in their order; the last argument takes the rest. Throws Error that states what is wrong.
Task<std::string> fill_in_mcp_prompt(std::shared_ptr<McpHub> servers, McpPromptInput input);

/// Throws Error(invalid_argument) that names a missing argument, or states that there are too many words.
std::map<std::string, std::string> mcp_prompt_arguments(const McpPrompt& prompt,
                                                        std::string_view words);

}  // namespace cubepi::app
