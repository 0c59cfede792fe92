#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "../terminal/terminal_text.hpp"

namespace cubepi::app {

/// Treatment of tool calls that no rule allows (D131).
enum class ApprovalMode : std::uint8_t {
    ask,           ///< the user is asked
    accept_edits,  ///< write and edit run, the user is asked about the others
    plan,          ///< calls above read_only are refused, whatever the rules allow
    all,           ///< all run
};

/// The modes in the order in which Shift-Tab goes through them.
inline constexpr std::array approval_modes{ApprovalMode::ask, ApprovalMode::accept_edits,
                                           ApprovalMode::plan, ApprovalMode::all};

/// The mode of a conversation. It belongs to the process and is never stored: a run that another process continues asks.
/// All approvals of the conversation share it, also those of sub-agents (D114). Used on one executor.
using SharedMode = std::shared_ptr<ApprovalMode>;

/// "ask", "accept edits", "plan", "all".
TerminalView name_of(ApprovalMode mode);
/// Returns what the mode does, in one line.
TerminalView effect_of(ApprovalMode mode);
/// Returns the mode with this name, in which a hyphen may stand for the blank; empty: there is none.
std::optional<ApprovalMode> mode_named(std::string_view name);
ApprovalMode mode_after(ApprovalMode mode);

}  // namespace cubepi::app
