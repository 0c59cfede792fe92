#include <bub/builtin/skills.hpp>

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <map>
#include <sstream>

namespace bub {

namespace {

constexpr std::size_t max_skill_bytes = 1024 * 1024;

std::string trimmed(std::string_view text) {
    const auto space = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
    while (!text.empty() && space(text.front())) text.remove_prefix(1);
    while (!text.empty() && space(text.back())) text.remove_suffix(1);
    return std::string(text);
}

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
    if (!std::getline(lines, line) || trimmed(line) != "---") return std::nullopt;
    Parts parts;
    bool closed = false;
    while (std::getline(lines, line)) {
        if (!closed && trimmed(line) == "---") {
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

}  // namespace

std::optional<Skill> read_skill(const std::filesystem::path& folder) {
    const std::filesystem::path file = folder / "SKILL.md";
    std::error_code error;
    const auto size = std::filesystem::file_size(file, error);
    if (error || size > max_skill_bytes) return std::nullopt;
    std::ifstream in(file, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    const std::optional<Parts> parts = split(text.str());
    if (!parts) return std::nullopt;
    Skill skill;
    try {
        const YAML::Node front = YAML::Load(parts->front);
        if (!front.IsMap()) return std::nullopt;
        for (const auto& member : front) {
            const std::string key = lower(member.first.as<std::string>());
            if (key == "name") skill.name = trimmed(member.second.as<std::string>());
            if (key == "description") skill.description = trimmed(member.second.as<std::string>());
        }
    } catch (const YAML::Exception&) {
        return std::nullopt;
    }
    const std::size_t length = characters(skill.description);
    if (!is_skill_name(skill.name) || skill.name != folder.filename().string()) return std::nullopt;
    if (length == 0 || length > 1024) return std::nullopt;
    skill.location = file;
    skill.body = trimmed(parts->body);
    replace_all(skill.body, "${SKILL_DIR}", folder.string());
    replace_all(skill.body, "$SKILL_DIR", folder.string());
    return skill;
}

std::vector<Skill> find_skills(const std::vector<std::filesystem::path>& folders) {
    std::map<std::string, Skill> found;
    for (const std::filesystem::path& root : folders) {
        std::error_code error;
        for (const auto& entry : std::filesystem::directory_iterator(root, error)) {
            if (!entry.is_directory(error)) continue;
            std::optional<Skill> skill = read_skill(entry.path());
            if (!skill) continue;
            std::string name = skill->name;
            found.emplace(std::move(name), std::move(*skill));
        }
    }
    std::vector<Skill> list;
    for (auto& [name, skill] : found) list.push_back(std::move(skill));
    return list;
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
