#pragma once

#include <optional>
#include <string>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/core/message.hpp>

namespace cubepi {

/// The result of a tool. The user-declared constructors make it safe inside awaited expressions with g++ 12 (see
/// docs/guides/coroutines.md).
struct AgentToolResult {
    AgentToolResult() = default;
    AgentToolResult(std::string text) { content.emplace_back(TextContent{std::move(text)}); }
    AgentToolResult(const char* text) : AgentToolResult(std::string(text)) {}
    AgentToolResult(Content block) { content.push_back(std::move(block)); }
    AgentToolResult(ContentList<Content> blocks) : content(std::move(blocks)) {}
    /// Returns a result that reports a failure of the call to the model.
    static AgentToolResult error(std::string text);

    ContentList<Content> content = {};  ///< for the model
    Json details = {};                  ///< for the host; stored, never sent to the model
    std::optional<bool> is_error = {};
    std::optional<bool> terminate = {};  ///< end the run if every result of the batch has this set

    std::string text() const;
};

JsonObject to_json(const AgentToolResult& result);

}  // namespace cubepi
