#pragma once

#include <optional>
#include <string>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/core/message.hpp>

namespace cubepi {

/// What a tool gives back. The user-declared constructors make it safe inside awaited expressions with
/// g++ 12 (see docs/guides/coroutines.md).
struct AgentToolResult {
    AgentToolResult() = default;
    AgentToolResult(std::string text) { content.emplace_back(TextContent{std::move(text)}); }
    AgentToolResult(const char* text) : AgentToolResult(std::string(text)) {}
    AgentToolResult(Content block) { content.push_back(std::move(block)); }
    AgentToolResult(ContentList<Content> blocks) : content(std::move(blocks)) {}
    /// A result that tells the model that the call failed.
    static AgentToolResult error(std::string text);

    ContentList<Content> content = {};  ///< for the model
    Json details = {};                  ///< for the host; stored, never sent to the model
    std::optional<bool> is_error = {};
    std::optional<bool> terminate =
        {};  ///< true: end the run when every result of the batch says so

    std::string text() const;
};

JsonObject to_json(const AgentToolResult& result);

}  // namespace cubepi
