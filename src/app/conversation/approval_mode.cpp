#include "approval_mode.hpp"

#include <algorithm>
#include <string>

namespace cubepi::app {

TerminalView name_of(ApprovalMode mode) {
    switch (mode) {
        case ApprovalMode::ask: return "ask";
        case ApprovalMode::accept_edits: return "accept edits";
        case ApprovalMode::plan: return "plan";
        case ApprovalMode::all: return "all";
    }
    return {};
}

TerminalView effect_of(ApprovalMode mode) {
    switch (mode) {
        case ApprovalMode::ask: return "tools that write, run commands or use the network ask";
        case ApprovalMode::accept_edits: return "write and edit do not ask";
        case ApprovalMode::plan: return "only tools that read run; the plan is asked about";
        case ApprovalMode::all: return "nothing asks, except writes to .git, skills, instructions";
    }
    return {};
}

std::optional<ApprovalMode> mode_named(std::string_view name) {
    std::string wanted(name);
    std::replace(wanted.begin(), wanted.end(), '-', ' ');
    const auto found =
        std::find_if(approval_modes.begin(), approval_modes.end(),
                     [&](ApprovalMode mode) { return name_of(mode).str() == wanted; });
    if (found == approval_modes.end()) return std::nullopt;
    return *found;
}

ApprovalMode mode_after(ApprovalMode mode) {
    const auto at = std::find(approval_modes.begin(), approval_modes.end(), mode);
    const auto next = at == approval_modes.end() ? at : at + 1;
    return next == approval_modes.end() ? approval_modes.front() : *next;
}

}  // namespace cubepi::app
