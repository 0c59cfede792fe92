#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/workspace/tool_rules.hpp>

#include "../config/config_file.hpp"
#include "../project/project.hpp"

namespace cubepi::app {

/// A rule, and where it comes from.
struct Permission {
    RuleEffect effect = RuleEffect::allow;
    ApprovalRule rule = {};
    std::string source = {};  ///< a file; empty: this session
    bool is_of_user = false;  ///< the file is the configuration of the user

    /// "allow write: *"
    std::string text() const { return std::string(to_string(effect)) + " " + rule.text(); }
};

/// Returns the rules in effect: those that allow, then those that ask, then those that deny.
std::vector<Permission> permissions(const ToolRules& rules, const ConfigFile& config,
                                    const ProjectSettings& project);

/// Describes a list without rules.
inline constexpr std::string_view no_permission =
    "No rule allows a call; tools that write, run commands or use the network ask first.\n";

/// Returns a numbered line for each.
std::string permissions_text(const std::vector<Permission>& list);

/// Returns the one with this number, or this text ("shell: git status *", "deny shell: rm *"). Throws Error(invalid_argument) if
/// there is none; `how` names the command that lists them.
Permission permission_named(const std::vector<Permission>& list, std::string_view name,
                            std::string_view how);

/// Removes a permission from the configuration of the user. Returns false if it is not there. Throws Error: invalid_argument for one
/// of a project, whose file the user edits; what save_config() throws.
bool remove_saved(const Permission& permission);

}  // namespace cubepi::app
