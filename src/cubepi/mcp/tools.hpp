#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/agent/tool.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/mcp/client.hpp>

namespace cubepi {

struct McpToolOptions {
    /// The beginning of all names: "mcp__SERVER__TOOL". A server thereby cannot take the name of another tool (D137).
    std::string prefix = "mcp__";
    /// Tools to leave out, or, if `only` has names, to offer; as the server spells them.
    std::vector<std::string> except = {};
    std::vector<std::string> only = {};
    /// The risk of all tools. A server's hint `destructiveHint` raises it to `irreversible`; no hint lowers it.
    ToolRisk risk = ToolRisk::writes;
};

/// The tools of a server for an agent.
struct McpTools {
    std::string server = {};
    std::vector<AgentTool> tools = {};
    /// For each of them, the tool of the server: its name there and its digest.
    std::vector<McpTool> origins = {};
    /// A line for each tool that was left out, with the reason.
    std::vector<std::string> problems = {};
};

/// Lists the tools of a server as tools of an agent. Each call is one `tools/call`: its progress becomes updates, an abort withdraws
/// it, questions of the server go to the channel of the agent, and failures of server and connection are error results. Calls are
/// never repeated; a run can be suspended at a question of a server (D176, D130). The tools share the client.
Task<McpTools> mcp_tools(std::shared_ptr<McpClient> client,
                         McpToolOptions options = McpToolOptions());

/// Stores data of a result that models do not take, such as a sound, and returns a sentence for the model that states where it is. Called
/// on a worker thread. What it throws leaves the data out.
using McpDataStore = std::function<std::string(
    const std::string& tool_name, const std::string& mime_type, const std::string& bytes)>;

/// Has a tool of mcp_tools() store such data (D203). Without a store it is described only. Other tools stay as they are.
void store_mcp_data(AgentTool& tool, McpDataStore store);

/// Returns the name of a tool for models: `prefix`, server and tool, where other characters than letters, digits, `_` and `-` are
/// replaced by `_`. A name that was changed, cut to 64 characters, or does not show where the server's name ends (`__` in a part)
/// ends with a part of its hash, so that different tools have different names.
std::string mcp_tool_name(std::string_view prefix, std::string_view server, std::string_view tool);

/// Returns the server of a tool that mcp_tools() has made with the default prefix; empty for other tools.
std::string mcp_server_of(const AgentTool& tool);

/// Converts the result of `tools/call`. Text, images and embedded text are content; sounds, other data and links are described in
/// text (but see store_mcp_data()); `structuredContent` is in `details`, and content if there is no other. Content beyond `max_bytes` is left out, with a
/// notice.
AgentToolResult mcp_tool_result(std::string_view server, const JsonObject& result,
                                std::size_t max_bytes);

}  // namespace cubepi
