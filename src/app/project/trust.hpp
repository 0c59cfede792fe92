#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <bub/builtin/project_files.hpp>
#include <cubepi/core/task.hpp>

#include "../terminal/prompter.hpp"
#include "project.hpp"

namespace cubepi::app {

/// The decision of the user to trust a project (D155).
struct TrustRecord {
    std::filesystem::path directory = {};  ///< the canonical root of the project
    /// The digests (SHA-256) of the files that are bound by their content, by name relative to the root.
    std::map<std::string, std::string> files = {};
    std::chrono::system_clock::time_point made = {};
};

// The records are files of mode 0600, one per project, so that processes which write at once do not overwrite each other's. All
// functions block.

/// Returns the record of a root; nothing if there is none, or if another user could have written it.
std::optional<TrustRecord> find_trust(const std::filesystem::path& root);
/// Creates or replaces the record of a root atomically. Throws Error: storage, io.
void save_trust(const TrustRecord& record);
/// Returns false if there is no record of this root. Throws Error(io).
bool remove_trust(const std::filesystem::path& root);
/// Returns all records, by directory.
std::vector<TrustRecord> trust_records();

/// The project of a conversation, after the user was asked about what was not trusted.
struct OpenedProject {
    Project project = {};
    bub::LoadedFiles files = {};  ///< instructions and skills
    std::vector<std::string> notes =
        {};  ///< what is loaded, and what is not because it is not trusted
    std::vector<std::string> warnings = {};
};

/// Reads the project of the current directory. If something in it is not trusted, asks the user with `prompter`; null: such files
/// are not loaded, and a note says so.
Task<OpenedProject> open_project(TrustSettings settings, std::shared_ptr<Prompter> prompter);

/// Returns the line about the files of a project that are not loaded; empty: there are none.
std::string untrusted_note(const Project& project, const bub::LoadedFiles& files);

}  // namespace cubepi::app
