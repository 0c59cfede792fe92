#pragma once

#include <optional>

#include <cubepi/agent/tool.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/message.hpp>
#include <cubepi/mcp/server_features.hpp>

namespace cubepi::detail {

/// One call of a tool. Lets a McpServerTool run as the tool of an agent, under its hooks and limits, without losing the content that
/// agents do not have. Must outlive the execution of the call.
class ServerToolRun {
public:
    /// Returns the tool for this call. `tool` and `request` must outlive the call.
    AgentTool bind(const McpServerTool& tool, McpRequest& request);
    /// Returns the result for the client: that of the tool, unless a hook or a limit has changed it. Throws the McpRequestError of the tool.
    JsonObject result(const ToolResultMessage& message) const;

private:
    Task<AgentToolResult> run(const McpServerTool* tool, JsonObject arguments, ToolContext* context,
                              McpRequest* request);

    std::optional<McpToolResult> own_;
    std::optional<McpRequestError> failure_;
    ContentList<Content> converted_;
};

}  // namespace cubepi::detail
