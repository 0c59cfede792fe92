#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <bub/builtin/skills.hpp>

// The parts of the system prompt that come from files of a project: instructions that other authors may have written. All of it is
// read without following symbolic links, and not more than 64 KiB of a file.

namespace bub {

/// AGENTS.md of a workspace.
struct AgentsFile {
    std::string text = {};     ///< as the model gets it, with a note if it was cut; empty: none
    std::uint64_t size = 0;    ///< bytes of the file
    std::string problem = {};  ///< why it was not loaded, or only in part; empty: neither
};

/// Blocks. Throws nothing that the file could cause.
AgentsFile read_agents_file(const std::filesystem::path& workspace);

/// The directories of a workspace's skills, of ~/.agents/skills (unless `with_user_skills` is false), and `more`.
std::vector<SkillDirectory> skill_directories(const std::filesystem::path& workspace,
                                              bool with_user_skills,
                                              const std::vector<std::filesystem::path>& more);

/// The loaded files, for the user.
struct LoadedFiles {
    std::string summary = {};  ///< "Loaded AGENTS.md (2.1 KB), 3 skills"; empty: nothing
    std::vector<std::string> problems = {};  ///< may contain untrusted names
    friend bool operator==(const LoadedFiles&, const LoadedFiles&) = default;
};

LoadedFiles loaded_files(const AgentsFile& agents, const FoundSkills& skills);

/// Reads what a turn in `workspace` would load. Blocks.
LoadedFiles look_at_project_files(const std::filesystem::path& workspace,
                                  bool with_user_skills = true,
                                  const std::vector<std::filesystem::path>& more = {});

}  // namespace bub
