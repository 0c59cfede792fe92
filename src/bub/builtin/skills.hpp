#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace bub {

/// A folder with a SKILL.md (agentskills.io): what a model may look up when it needs it.
struct Skill {
    std::string name = {};         ///< that of the folder
    std::string description = {};  ///< when to use it
    std::string body = {};         ///< the text below the front matter
    std::filesystem::path location = {};
};

/// Reads one folder. Nothing when it is no valid skill: no SKILL.md, no front matter, a name that is not the folder's
/// or not lower-case words joined by hyphens (64 at most), no description (1,024 at most).
std::optional<Skill> read_skill(const std::filesystem::path& folder);

/// The skills of the folders, by name. The first folder that has a name wins. Blocks.
std::vector<Skill> find_skills(const std::vector<std::filesystem::path>& folders);

/// The names that follow a `$` in the text, without punctuation at the end.
std::set<std::string> skill_hints(std::string_view text);

/// The block of the system prompt: one line for each skill, with location and text for those that are hinted at. Empty
/// when there are no skills.
std::string skills_block(const std::vector<Skill>& skills, const std::set<std::string>& hints);

}  // namespace bub
