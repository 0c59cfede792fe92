#include "mcp_tool_rule.hpp"

#include <cstddef>
#include <string>
#include <utility>

#include <cubepi/core/support/digest.hpp>
#include <cubepi/mcp/protocol.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi::app {

std::optional<ApprovalRule> mcp_tool_rule(const AgentTool& tool, const std::string& server) {
    constexpr std::size_t digits = 32;
    if (!tool.name.str().starts_with("mcp__")) return std::nullopt;
    JsonArray definition;
    definition.emplace_back(server);
    definition.emplace_back(tool.name.str());
    definition.emplace_back(tool.label);
    definition.emplace_back(tool.description.str());
    definition.push_back(tool.parameters.source());
    definition.emplace_back(to_string(tool.risk_level));
    const std::string digest = detail::sha256_hex(json_text(Json(std::move(definition))));
    return ApprovalRule{tool.name.str(), "sha256:" + digest.substr(0, digits)};
}

}  // namespace cubepi::app
