#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <cubepi/workspace/tool_rules.hpp>

namespace cubepi::app {

/// Returns the tools of the program, including those that only commands of operators use. MCP servers and plugins add others.
const std::vector<std::string>& known_tools();

/// Throws Error(invalid_argument) for another name of a tool of the program, such as that of Bub ("bash") or one with capitals: a rule
/// with it would restrict nothing.
void require_our_name(std::string_view tool);

/// Reads a rule that asks or denies. Throws Error(invalid_argument).
ApprovalRule parse_restriction(std::string_view text, RuleEffect effect);

}  // namespace cubepi::app
