#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <bub/builtin/command_hooks.hpp>
#include <cubepi/workspace/tool_rules.hpp>

namespace cubepi::app {

/// Returns the tools of the program, including those that only commands of operators use. MCP servers and plugins add others.
const std::vector<std::string>& known_tools();

/// Throws Error(invalid_argument) for another name of a tool of the program, such as that of Bub ("bash") or one with capitals: a rule
/// with it would restrict nothing.
void require_our_name(std::string_view tool);

/// Reads a rule that asks or denies. Throws Error(invalid_argument).
ApprovalRule parse_restriction(std::string_view text, RuleEffect effect);

/// Returns why a hook about calls misses tools that it seems to be meant for: its matcher has names of other programs ("Bash"), or matches
/// no tool of this one. Empty: none is known; tools of MCP servers and plugins are not.
std::string hook_note(const bub::CommandHook& hook);

/// Returns a warning about each matcher of hooks that have a note.
std::vector<std::string> hook_warnings(const std::vector<bub::CommandHook>& hooks);

}  // namespace cubepi::app
