#pragma once

#include <optional>
#include <string>

#include <cubepi/agent/tool.hpp>
#include <cubepi/workspace/tool_rules.hpp>

namespace cubepi::app {

/// Returns the rule that allows further calls of a tool of an MCP server as long as its server does not change it (D148):
/// "mcp__git__log: sha256:1f0c...", with a digest of its description, schema and risk, and of `server`, which tells apart servers of one
/// name (McpServerSettings::identity()). Nothing for other tools.
std::optional<ApprovalRule> mcp_tool_rule(const AgentTool& tool, const std::string& server);

}  // namespace cubepi::app
