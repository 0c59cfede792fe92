#include "tool_names.hpp"

#include <algorithm>

#include <bub/builtin/tools/tool_names.hpp>
#include <cubepi/core/error.hpp>

namespace cubepi::app {

const std::vector<std::string>& known_tools() {
    static const std::vector<std::string> names = {
        "read",       "list",         "grep",        "write",          "edit",
        "shell",      "shell_output", "shell_kill",  "fetch",          "ask_user",
        "tape_info",  "tape_anchors", "tape_search", "tape_handoff",   "skill",
        "spill_read", "subagent",     "recall",      "subagent_tasks", "memory",
        "schedule",   "write_todos",  "tape_reset",  "model",          "reasoning_effort",
        "send_file"};
    return names;
}

void require_our_name(std::string_view tool) {
    const std::vector<std::string>& names = known_tools();
    const std::string ours = bub::detail::our_tool_name(tool);
    if (ours == tool || std::find(names.begin(), names.end(), ours) == names.end()) return;
    throw Error(ErrorCode::invalid_argument, "A rule for '" + std::string(tool) +
                                                 "' matches nothing: the name of this tool is '" +
                                                 ours + "'.");
}

ApprovalRule parse_restriction(std::string_view text, RuleEffect effect) {
    // First: a pattern of paths is invalid for a name that is not one of ours.
    if (const auto colon = text.find(':'); colon != std::string_view::npos)
        require_our_name(text.substr(0, colon));
    return ApprovalRule::parse(text, effect);
}

}  // namespace cubepi::app
