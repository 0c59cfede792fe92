#include "tool_names.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <utility>

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

namespace {

/// Names of tools in codex and Claude Code, whose hooks have the same form, and those of this program.
constexpr std::array<std::pair<std::string_view, std::string_view>, 10> names_elsewhere{{
    {"Bash", "shell"},
    {"BashOutput", "shell_output"},
    {"KillShell", "shell_kill"},
    {"MultiEdit", "edit"},
    {"apply_patch", "edit"},
    {"Glob", "list"},
    {"LS", "list"},
    {"WebFetch", "fetch"},
    {"Task", "subagent"},
    {"TodoWrite", "write_todos"},
}};

std::string list_of(const std::set<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
    return text;
}

}  // namespace

std::string hook_note(const bub::CommandHook& hook) {
    const bub::detail::CommandHookTable table(std::vector<bub::CommandHook>{hook});
    const auto runs_for = [&](std::string_view tool) {
        return table.has(hook.point, std::string(tool));
    };
    // One that matches any name is not meant for certain tools, nor is a hook of another point.
    if (runs_for("-")) return {};
    std::set<std::string> meant;
    const auto note_name = [&](std::string_view theirs, std::string_view ours) {
        if (runs_for(theirs) && !runs_for(ours)) meant.emplace(ours);
    };
    for (const auto& [theirs, ours] : names_elsewhere) note_name(theirs, ours);
    for (const bub::detail::BubTool& tool : bub::detail::bub_tools())
        note_name(tool.name, tool.ours);
    bool runs = hook.matcher.starts_with("mcp__") || runs_for("mcp__a__b");
    for (const std::string& ours : known_tools()) {
        std::string with_capital = ours;
        with_capital[0] =
            static_cast<char>(std::toupper(static_cast<unsigned char>(with_capital[0])));
        note_name(with_capital, ours);
        runs = runs || runs_for(ours);
    }
    if (!meant.empty()) return "here the names of these tools are: " + list_of(meant);
    return runs ? std::string() : "no tool of this program has such a name";
}

std::vector<std::string> hook_warnings(const std::vector<bub::CommandHook>& hooks) {
    std::vector<std::string> warnings;
    for (const bub::CommandHook& hook : hooks) {
        if (hook.note.empty()) continue;
        std::string text = "The hook " + std::string(to_string(hook.point)) + " for '" +
                           hook.matcher + "' misses calls: " + hook.note + ".";
        if (std::find(warnings.begin(), warnings.end(), text) == warnings.end())
            warnings.push_back(std::move(text));
    }
    return warnings;
}

}  // namespace cubepi::app
