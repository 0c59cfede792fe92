#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

// The parts of the system prompt that come from files of a project: instructions that other authors may have written. All of it is
// read without following symbolic links, and not more than 64 KiB of a file.

namespace bub {

/// Which instructions are loaded.
enum class InstructionScope : std::uint8_t {
    none,
    home,       ///< those of the user in ~/.agents
    workspace,  ///< AGENTS.md of the workspace
    /// Those of the user in ~/.agents, and then those of each directory from project_root() to the workspace. In a directory
    /// AGENTS.override.md replaces AGENTS.md, and CLAUDE.md is read if it has neither. Of more than 128 KiB the nearest are loaded.
    user,
};

/// Returns the scope without the files of the workspace: for one that is not trusted.
InstructionScope without_workspace(InstructionScope scope) noexcept;

struct Instructions {
    struct File {
        std::string name = {};   ///< relative to the workspace, or "~/.agents/AGENTS.md"
        std::uint64_t size = 0;  ///< bytes
    };
    std::string text =
        {};  ///< as the model gets it, the nearest last, with a note if a file was cut; empty: none
    std::vector<File> files = {};
    std::vector<std::string> problems = {};  ///< what was not loaded, or only in part
};

/// Blocks. Throws nothing that the files could cause.
Instructions read_instructions(const std::filesystem::path& workspace,
                               InstructionScope scope = InstructionScope::workspace);

/// A directory with a SKILL.md (agentskills.io): instructions that a model reads when it needs them.
struct Skill {
    std::string name = {};         ///< same as the directory's name
    std::string description = {};  ///< when to use it
    std::string body = {};         ///< the text after the front matter
    std::filesystem::path location = {};
};

/// Where skills are looked for. What is below `root` is read without following symbolic links.
struct SkillDirectory {
    std::filesystem::path root;
    std::string below = {};  ///< path of the directory below the root; empty: the root itself
};

struct FoundSkills {
    std::vector<Skill> skills = {};  ///< by name
    /// What was not loaded although it looks like a skill, or only in part: a sentence each. The names in it are
    /// untrusted file names.
    std::vector<std::string> problems = {};
};

/// The skills of the directories. The first directory that has a name wins. Invalid skills are skipped: no SKILL.md, no
/// front matter, a name that is not the directory's or not lower-case words joined by hyphens (64 at most), no
/// description (1,024 characters at most). Of a SKILL.md the first 64 KiB are read, and of one directory 200 skills. Blocks.
FoundSkills find_skills(const std::vector<SkillDirectory>& directories);

/// The directories of a workspace's skills (none if `workspace` is empty), of ~/.agents/skills (unless `with_user_skills` is false),
/// and `more`.
std::vector<SkillDirectory> skill_directories(const std::filesystem::path& workspace,
                                              bool with_user_skills,
                                              const std::vector<std::filesystem::path>& more);

/// Returns the names that follow a `$` in the text, without trailing punctuation.
std::set<std::string> skill_hints(std::string_view text);

/// Returns the skills block of the system prompt: one line for each skill, with location and text for those in `hints`.
/// Empty if there are no skills.
std::string skills_block(const std::vector<Skill>& skills, const std::set<std::string>& hints);

/// Returns the root of the git repository of `workspace`, or `workspace` itself if there is none, as a canonical path. A repository
/// does not extend over a directory to which another user can write, nor over the whole home directory from below it. Blocks.
std::filesystem::path project_root(const std::filesystem::path& workspace);

/// The loaded files, for the user.
struct LoadedFiles {
    std::string summary = {};  ///< "Loaded AGENTS.md (2.1 KB), 3 skills"; empty: nothing
    /// The files of a workspace that is not trusted, which are not loaded: "AGENTS.md (2.1 KB), 3 skills"; empty: none.
    std::string untrusted = {};
    std::vector<std::string> problems = {};  ///< may contain untrusted names
    friend bool operator==(const LoadedFiles&, const LoadedFiles&) = default;
};

/// Reads what a turn in `workspace` would load: of a workspace that is not trusted, only files of the user. Blocks.
LoadedFiles look_at_project_files(const std::filesystem::path& workspace,
                                  bool with_user_skills = true,
                                  const std::vector<std::filesystem::path>& more = {},
                                  InstructionScope scope = InstructionScope::workspace,
                                  bool is_trusted = true);

}  // namespace bub
