#include <bub/builtin/skills.hpp>

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>
#include <utility>

#include <bub/builtin/plugin/project_file.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/workspace/local_workspace.hpp>

namespace bub {

namespace {

constexpr std::size_t max_skills = 200;  ///< of one directory

/// Checks for lower-case letters and digits, words joined by single hyphens.
bool is_skill_name(std::string_view name) {
    if (name.empty() || name.size() > 64 || name.front() == '-' || name.back() == '-') return false;
    char before = 0;
    for (const char c : name) {
        const bool word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!word && (c != '-' || before == '-')) return false;
        before = c;
    }
    return true;
}

std::size_t characters(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    }));
}

std::string lower(std::string text) {
    for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
}

struct Parts {
    std::string front;
    std::string body;
};

std::optional<Parts> split(const std::string& text) {
    std::istringstream lines(text);
    std::string line;
    if (!std::getline(lines, line) || cubepi::detail::trimmed(line) != "---") return std::nullopt;
    Parts parts;
    bool closed = false;
    while (std::getline(lines, line)) {
        if (!closed && cubepi::detail::trimmed(line) == "---") {
            closed = true;
        } else {
            (closed ? parts.body : parts.front) += line + "\n";
        }
    }
    if (!closed) return std::nullopt;
    return parts;
}

void replace_all(std::string& text, std::string_view from, const std::string& to) {
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
        text.replace(at, from.size(), to);
        at += to.size();
    }
}

/// Parses the text of a SKILL.md; returns nothing if it is not a valid skill of the directory `name`.
std::optional<Skill> parse_skill(const std::string& text, const std::string& name) {
    const std::optional<Parts> parts = split(text);
    if (!parts) return std::nullopt;
    Skill skill;
    try {
        const YAML::Node front = YAML::Load(parts->front);
        if (!front.IsMap()) return std::nullopt;
        for (const auto& member : front) {
            const std::string key = lower(member.first.as<std::string>());
            if (key == "name")
                skill.name = cubepi::detail::trimmed(member.second.as<std::string>());
            if (key == "description")
                skill.description = cubepi::detail::trimmed(member.second.as<std::string>());
        }
    } catch (const YAML::Exception&) {
        return std::nullopt;
    }
    const std::size_t length = characters(skill.description);
    if (!is_skill_name(skill.name) || skill.name != name) return std::nullopt;
    if (length == 0 || length > 1024) return std::nullopt;
    skill.body = cubepi::detail::trimmed(parts->body);
    return skill;
}

/// Reads the skills below one root.
class SkillReader {
public:
    SkillReader(const SkillDirectory& directory, std::map<std::string, Skill>& found,
                std::vector<std::string>& problems)
        : place_(directory.root, cubepi::WorkspacePolicy().read_only().without_links()),
          below_(directory.below),
          directory_(directory.root / directory.below),
          found_(found),
          problems_(problems) {}

    void read_all() {
        std::size_t count = 0;
        for (const cubepi::DirectoryEntry& entry : place_.list(below_)) {
            if (entry.info.kind == cubepi::FileKind::symlink) {
                problems_.push_back("The skill " + (directory_ / entry.name).string() +
                                    " is not loaded: it is a symbolic link.");
            }
            if (entry.info.kind != cubepi::FileKind::directory) continue;
            if (++count > max_skills) {
                problems_.push_back("Only the first " + std::to_string(max_skills) + " skills of " +
                                    directory_.string() + " are loaded.");
                return;
            }
            read_one(entry.name);
        }
    }

private:
    void read_one(const std::string& name) {
        const std::string path = (below_.empty() ? name : below_ + "/" + name) + "/SKILL.md";
        detail::ProjectFile file;
        try {
            file = detail::read_project_file(place_, path);
        } catch (const cubepi::Error& error) {
            if (error.code() != cubepi::ErrorCode::not_found) {
                problems_.push_back("The skill " + (directory_ / name).string() +
                                    " is not loaded: " + error.what());
            }
            return;
        }
        std::optional<Skill> skill = parse_skill(file.text, name);
        if (!skill) return;
        skill->location = directory_ / name / "SKILL.md";
        const std::string directory = (directory_ / name).string();
        replace_all(skill->body, "${SKILL_DIR}", directory);
        replace_all(skill->body, "$SKILL_DIR", directory);
        if (file.is_cut()) {
            skill->body += "\n\n" + file.cut_note("SKILL.md");
            problems_.push_back("Of the skill " + directory + " only the first 64 KiB are loaded.");
        }
        found_.emplace(name, std::move(*skill));
    }

    cubepi::LocalWorkspace place_;
    const std::string below_;
    const std::filesystem::path directory_;
    std::map<std::string, Skill>& found_;
    std::vector<std::string>& problems_;
};

}  // namespace

FoundSkills find_skills(const std::vector<SkillDirectory>& directories) {
    FoundSkills all;
    std::map<std::string, Skill> found;
    for (const SkillDirectory& directory : directories) {
        try {
            SkillReader(directory, found, all.problems).read_all();
        } catch (const cubepi::Error& error) {
            // Most of the directories do not exist, which is not an error.
            if (error.code() == cubepi::ErrorCode::not_found) continue;
            all.problems.push_back("The skills of " + (directory.root / directory.below).string() +
                                   " are not loaded: " + error.what());
        }
    }
    for (auto& [name, skill] : found) all.skills.push_back(std::move(skill));
    return all;
}

std::set<std::string> skill_hints(std::string_view text) {
    std::set<std::string> hints;
    for (std::size_t at = text.find('$'); at != std::string_view::npos;
         at = text.find('$', at + 1)) {
        std::size_t end = at + 1;
        while (end < text.size()) {
            const auto c = static_cast<unsigned char>(text[end]);
            if (!std::isalnum(c) && c != '_' && c != '.' && c != '-') break;
            ++end;
        }
        std::string_view name = text.substr(at + 1, end - at - 1);
        while (!name.empty() && (name.back() == '.' || name.back() == '-')) name.remove_suffix(1);
        if (!name.empty()) hints.emplace(name);
    }
    return hints;
}

std::string skills_block(const std::vector<Skill>& skills, const std::set<std::string>& hints) {
    if (skills.empty()) return {};
    std::string block = "<available_skills>\n";
    for (const Skill& skill : skills) {
        block += "- " + skill.name + ": " + skill.description + "\n";
        if (!hints.contains(skill.name)) continue;
        block += "Location: " + skill.location.string() + "\n" + skill.body + "\n";
    }
    return block + "</available_skills>";
}

}  // namespace bub
