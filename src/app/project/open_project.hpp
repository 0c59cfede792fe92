#pragma once

#include <memory>
#include <string>
#include <vector>

#include <bub/builtin/project_files.hpp>
#include <cubepi/core/task.hpp>

#include "../terminal/prompter.hpp"
#include "project.hpp"

namespace cubepi::app {

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
