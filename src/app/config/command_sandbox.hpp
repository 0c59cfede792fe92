#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/process/sandbox.hpp>
#include <cubepi/workspace/tool_rules.hpp>

#include "config_file.hpp"

namespace cubepi::app {

/// The source of the rules of restrict_hidden().
inline constexpr std::string_view hidden_files_source = "the sandbox";
/// Adds rules by which the file tools ask about the files in `roots` that commands do not see (D150): the directories of this program
/// and the keys of other programs. `visible` is a directory that holds none.
void restrict_hidden(ToolRules& rules, const SandboxSettings& settings,
                     const std::vector<std::filesystem::path>& roots,
                     const std::filesystem::path& visible = {});

/// Returns what a suspended run stores of its sandbox (D180).
JsonObject stored_sandbox(const SandboxSettings& settings);
/// Makes the settings at least as strict as those with which a run was suspended. Returns true if they were not.
bool restrict_sandbox(SandboxSettings& settings, const JsonObject& stored);

/// The sandbox of the model's commands (D150). Commands of the user, hooks and MCP servers are not sandboxed.
class CommandSandboxes {
public:
    /// `mode` is that of the command line; empty: that of the settings. Throws Error(unsupported) if the settings require a sandbox and
    /// the kernel cannot hold its promises.
    CommandSandboxes(SandboxSettings settings, const std::string& mode);

    /// Returns true if commands are sandboxed.
    bool is_on() const;
    /// Returns the sandbox for commands of a workspace; null: they are not sandboxed. Blocks.
    std::shared_ptr<const SandboxProfile> profile(const std::filesystem::path& workspace) const;

    /// For ToolRules.
    CommandConfinement confinement() const;

    const SandboxSettings& settings() const noexcept { return settings_; }
    /// Returns why commands are not sandboxed although the settings say so; empty if there is nothing to report.
    std::string problem() const;

private:
    SandboxSettings settings_;
};

}  // namespace cubepi::app
