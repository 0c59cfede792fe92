#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <bub/builtin/command_hooks.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/workspace/tool_rules.hpp>

#include "../mcp/mcp_settings.hpp"

// The files of a directory that act on a conversation, and whether the user trusts them (D155). Instructions and skills are trusted
// with their directory. The other files decide which programs and calls run, and are trusted by their content: a digest of each is
// recorded, and what is loaded is the text that was digested.

namespace cubepi::app {

/// The digests of the trusted files that decide about calls (`.cubepi/config.yaml`, `.mcp.json`), by name.
using TrustedFiles = std::map<std::string, std::string>;

/// The ways in which a directory is trusted without a record.
struct TrustSettings {
    /// `trust` of the configuration: instructions and skills of these directories and of what is below.
    std::vector<std::string> paths = {};
    bool this_run = false;  ///< --trust: all files as they are now
    /// The directory and these files were trusted by a run that continues. Absent: there is none, or it trusted nothing.
    std::optional<TrustedFiles> of_run = {};
};

/// A file that is trusted by its content: `.cubepi/config.yaml`, `.cubepi/prompts/NAME.md` or `.mcp.json`.
struct BoundFile {
    std::string name = {};  ///< relative to the root of the project
    std::string text = {};
    std::string digest = {};  ///< SHA-256 of the text
};

inline constexpr std::string_view project_config_file = ".cubepi/config.yaml";
inline constexpr std::string_view project_mcp_file = ".mcp.json";
inline constexpr std::string_view project_prompts = ".cubepi/prompts";

/// The project of a directory.
struct Project {
    std::filesystem::path root = {};        ///< bub::project_root()
    bool is_trusted = false;                ///< its instructions and skills may be loaded
    std::vector<BoundFile> trusted = {};    ///< by name
    std::vector<BoundFile> untrusted = {};  ///< new, changed, or of a directory that is not trusted
    std::vector<std::string> problems = {};  ///< files that cannot be loaded; with untrusted names
    bool has_unread_rules = false;           ///< one of them is .cubepi/config.yaml

    /// Returns the file among `trusted`; null: there is none.
    const BoundFile* find(std::string_view name) const;
    /// Returns the text of `untrusted` for the user: ".mcp.json, 2 prompts"; empty: there are none.
    std::string untrusted_text() const;
    /// Trusts the directory and all files, as they were read.
    void trust();
};

/// Reads the project of a directory. Links are not followed, and files of more than 64 KiB are not loaded. Blocks.
Project find_project(const std::filesystem::path& directory, const TrustSettings& settings);
/// Returns true if the instructions and skills of a directory may be loaded. Blocks.
bool is_trusted(const std::filesystem::path& directory, const TrustSettings& settings);
/// Records the trust in the project as it was read. Throws Error: storage, io.
void record_trust(const Project& project);

/// A prompt template of a project.
struct ProjectPrompt {
    std::string name = {};  ///< of the file, without ".md"
    std::string text = {};
};

/// The settings of a project.
struct ProjectSettings {
    std::string source = {};  ///< the path of .cubepi/config.yaml
    std::vector<std::string> allow = {};
    std::vector<std::string> ask = {};
    std::vector<std::string> deny = {};
    std::vector<bub::CommandHook> hooks = {};
    std::vector<McpServerSettings> servers = {};
    std::vector<ProjectPrompt> prompts = {};
    std::vector<std::string> problems = {};    ///< what is invalid in the files
    std::optional<TrustedFiles> trusted = {};  ///< absent: the directory is not trusted
    /// There may be rules that ask or deny and cannot be read. add_restrictions() then asks about every call.
    bool has_unread_rules = false;
};

/// Returns the settings of the trusted files. Rules that only narrow (`ask`, `deny`) are those of an untrusted file, too.
ProjectSettings settings_of(const Project& project);
/// Adds the trusted files to the flags that are stored with a suspended run, for TrustSettings::of_run.
void store_trust(JsonObject& flags, const ProjectSettings& settings);
/// Returns those of the run; absent: it trusted nothing.
std::optional<TrustedFiles> stored_trust(const JsonObject& flags);
/// Checks that the files of a suspended run bind its remaining calls: each is as it was, or the user has trusted what it contains now.
/// Throws Error(permission_denied).
void require_files_of_run(const TrustedFiles& of_run, const ProjectSettings& settings);

/// Returns what the untrusted files would do, a line each, for the question to the user.
std::vector<std::string> effects_of_untrusted(const Project& project);

}  // namespace cubepi::app
