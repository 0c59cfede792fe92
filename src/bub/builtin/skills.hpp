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

/// Reads one directory. Returns nothing if it is not a valid skill: no SKILL.md, no front matter, a name that differs
/// from the directory's or does not consist of lower-case words joined by hyphens (64 at most), no description (1,024
/// at most).
std::optional<Skill> read_skill(const std::filesystem::path& folder);

/// Returns the skills of the directories, sorted by name. If a name occurs twice, the earlier directory wins. Blocks.
std::vector<Skill> find_skills(const std::vector<std::filesystem::path>& folders);

/// Returns the names that follow a `$` in the text, without trailing punctuation.
std::set<std::string> skill_hints(std::string_view text);

/// Returns the skills block of the system prompt: one line for each skill, with location and text for those in `hints`.
/// Empty if there are no skills.
std::string skills_block(const std::vector<Skill>& skills, const std::set<std::string>& hints);

}  // namespace bub
