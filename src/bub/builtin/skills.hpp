#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace bub {

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

/// Returns the names that follow a `$` in the text, without trailing punctuation.
std::set<std::string> skill_hints(std::string_view text);

/// Returns the skills block of the system prompt: one line for each skill, with location and text for those in `hints`.
/// Empty if there are no skills.
std::string skills_block(const std::vector<Skill>& skills, const std::set<std::string>& hints);

}  // namespace bub
