#include <bub/builtin/project_files.hpp>

#include <locale.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wctype.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include <bub/tape/file_tape_store.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/workspace/local_workspace.hpp>

namespace bub {

namespace {

/// Of a file that becomes part of the system prompt, not more than this is read.
constexpr std::size_t max_project_file = 64 * 1024;
constexpr std::size_t max_instructions = 128 * 1024;  ///< bytes of all files

/// A file that becomes part of the system prompt: AGENTS.md, a skill.
struct ProjectFile {
    std::string text = {};   ///< valid UTF-8, without blanks at the end
    std::uint64_t size = 0;  ///< bytes of the whole file

    bool is_cut() const noexcept { return size > max_project_file; }
    /// Tells the model that it has the beginning only. `name` of the file.
    std::string cut_note(std::string_view name) const;
};

/// "2.1 KB"
std::string size_text(std::uint64_t bytes) {
    if (bytes < 1000) return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
    constexpr std::array units = {" KB", " MB", " GB", " TB", " PB", " EB"};
    std::uint64_t tenths = bytes / 100;
    std::size_t unit = 0;
    for (; tenths >= 10'000 && unit + 1 < units.size(); ++unit) tenths /= 1000;
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + units[unit];
}

std::string ProjectFile::cut_note(std::string_view name) const {
    return "[" + std::string(name) + " has " + size_text(size) +
           ". Only its first 64 KiB are above; read the file for the rest.]";
}

/// Reads the first 64 KiB. Blocks. Throws Error: what Workspace::open() throws.
ProjectFile read_project_file(cubepi::Workspace& place, const std::string& path) {
    const auto file = place.open(path);
    std::string bytes(max_project_file + 1, '\0');
    std::size_t filled = 0;
    while (filled < bytes.size()) {
        const std::size_t got = file->read(bytes.data() + filled, bytes.size() - filled);
        if (got == 0) break;
        filled += got;
    }
    ProjectFile read;
    read.size =
        filled > max_project_file ? std::max<std::uint64_t>(file->info().size, filled) : filled;
    bytes.resize(std::min(filled, max_project_file));
    if (read.is_cut()) bytes.resize(cubepi::complete_utf8_prefix(bytes));
    read.text = cubepi::replace_broken_utf8(bytes);
    read.text.erase(read.text.find_last_not_of(" \n") + 1);
    return read;
}

}  // namespace

namespace {

/// Directories above a workspace that are looked at.
constexpr int max_parents = 32;

/// Returns true if only this user, a group that is the own one, and the administrator can put a file into the directory.
bool is_own_directory(const std::filesystem::path& directory) {
    struct stat info = {};
    return ::stat(directory.c_str(), &info) == 0 &&
           (info.st_uid == ::geteuid() || info.st_uid == 0) && (info.st_mode & S_IWOTH) == 0 &&
           ((info.st_mode & S_IWGRP) == 0 || info.st_gid == ::getegid());
}

/// A directory whose instructions are read, and the beginning of the names of its files as they are shown.
struct InstructionDirectory {
    std::filesystem::path path;
    std::string prefix = {};
};

/// The directories above the workspace up to the root of its project, the root first.
std::vector<InstructionDirectory> parents_of(const std::filesystem::path& workspace) {
    std::vector<InstructionDirectory> parents;
    std::error_code failed;
    const std::filesystem::path root = project_root(workspace);
    InstructionDirectory at{std::filesystem::canonical(workspace, failed)};
    while (!failed && at.path != root && at.path != at.path.parent_path()) {
        at = InstructionDirectory{at.path.parent_path(), "../" + at.prefix};
        parents.push_back(at);
    }
    std::reverse(parents.begin(), parents.end());
    return parents;
}

/// Leaves out the files that are farthest from the workspace if all have more than the limit.
void limit_total(Instructions& all, std::vector<std::string>& texts) {
    std::size_t total = 0;
    std::size_t first = texts.size();
    while (first > 0 && total + texts[first - 1].size() <= max_instructions)
        total += texts[--first].size();
    for (std::size_t i = 0; i < first; ++i)
        all.problems.push_back(all.files[i].name +
                               " is not loaded: the instructions exceed 128 KiB in total.");
    const auto count = static_cast<std::ptrdiff_t>(first);
    texts.erase(texts.begin(), texts.begin() + count);
    all.files.erase(all.files.begin(), all.files.begin() + count);
}

/// Appends the first of the files that the directory has.
void read_first(Instructions& all, std::vector<std::string>& texts,
                const InstructionDirectory& directory, const std::vector<const char*>& names) {
    for (const char* name : names) {
        const std::string shown = directory.prefix + name;
        try {
            cubepi::LocalWorkspace place(directory.path,
                                         cubepi::WorkspacePolicy().read_only().without_links());
            ProjectFile file = read_project_file(place, name);
            if (file.is_cut()) {
                file.text += "\n\n" + file.cut_note(shown);
                all.problems.push_back(shown + " has " + size_text(file.size) +
                                       "; only its first 64 KiB are loaded.");
            }
            if (file.text.empty()) return;
            all.files.push_back({shown, file.size});
            texts.push_back(std::move(file.text));
            return;
        } catch (const cubepi::Error& error) {
            if (error.code() == cubepi::ErrorCode::not_found) continue;
            all.problems.push_back(shown + " is not loaded: " + error.what());
            return;
        }
    }
}

}  // namespace

InstructionScope without_workspace(InstructionScope scope) noexcept {
    return scope == InstructionScope::user || scope == InstructionScope::home
               ? InstructionScope::home
               : InstructionScope::none;
}

Instructions read_instructions(const std::filesystem::path& workspace, InstructionScope scope) {
    Instructions all;
    std::vector<std::string> texts;
    if (scope == InstructionScope::none) return all;
    std::vector<const char*> names = {"AGENTS.md"};
    if (scope != InstructionScope::workspace) {
        names = {"AGENTS.override.md", "AGENTS.md", "CLAUDE.md"};
        read_first(all, texts, {home_directory() / ".agents", "~/.agents/"}, names);
    }
    if (scope == InstructionScope::user) {
        for (const InstructionDirectory& parent : parents_of(workspace))
            read_first(all, texts, parent, names);
    }
    if (scope != InstructionScope::home) read_first(all, texts, {workspace}, names);
    limit_total(all, texts);
    const bool is_alone = texts.size() == 1 && all.files[0].name == "AGENTS.md";
    for (std::size_t i = 0; i < texts.size(); ++i) {
        if (i > 0) all.text += "\n\n";
        if (!is_alone) all.text += "Instructions of " + all.files[i].name + ":\n\n";
        all.text += texts[i];
    }
    return all;
}

// Skills.

namespace {

constexpr std::size_t max_skills = 200;  ///< of one directory
constexpr std::size_t max_compatibility = 500;

/// The letters of all languages, also in a process whose own locale is that of C. Null if the system has no UTF-8.
locale_t letters() {
    static const locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
    return locale;
}

/// The code point at the beginning of valid UTF-8.
wint_t code_point(std::string_view text, std::size_t length) {
    const auto first = static_cast<unsigned char>(text.front());
    wint_t code = length == 1 ? first : first & (0x7FU >> length);
    for (std::size_t i = 1; i < length; ++i)
        code = (code << 6U) | (static_cast<unsigned char>(text[i]) & 0x3FU);
    return code;
}

bool is_lower_letter_or_digit(std::string_view text, std::size_t length) {
    const char c = text.front();
    if (length == 1) return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    const wint_t code = code_point(text, length);
    const locale_t locale = letters();
    return locale && iswalnum_l(code, locale) != 0 && towlower_l(code, locale) == code;
}

/// Checks for lower-case letters and digits of any language, words joined by single hyphens, 64 characters at most.
bool is_skill_name(std::string_view name) {
    if (name.empty() || name.front() == '-' || name.back() == '-') return false;
    if (!cubepi::is_utf8(name)) return false;
    char before = 0;
    std::size_t count = 0;
    while (!name.empty()) {
        std::size_t length = 1;
        while (length < name.size() && (static_cast<unsigned char>(name[length]) & 0xC0U) == 0x80)
            ++length;
        const char c = name.front();
        const bool word = is_lower_letter_or_digit(name, length);
        if (!word && (c != '-' || before == '-')) return false;
        before = c;
        name.remove_prefix(length);
        if (++count > 64) return false;
    }
    return true;
}

std::size_t characters(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    }));
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

/// Parses the text of a SKILL.md. Returns nothing, and sets `problem`, if it is not a valid skill of the directory `name`.
std::optional<Skill> parse_skill(const std::string& text, const std::string& name,
                                 std::string& problem) {
    const std::optional<Parts> parts = split(text);
    problem = "it does not begin with a block of YAML between lines of three hyphens";
    if (!parts) return std::nullopt;
    Skill skill;
    try {
        const YAML::Node front = YAML::Load(parts->front);
        if (!front.IsMap()) return std::nullopt;
        std::set<std::string> keys;
        for (const auto& member : front) {
            const std::string key = cubepi::detail::lower_case(member.first.as<std::string>());
            if (!keys.insert(key).second) {
                problem = "its first block has `" + key + "` twice";
                return std::nullopt;
            }
            // An empty value would be the text "null".
            if (member.second.IsNull()) continue;
            if (key == "compatibility" &&
                characters(member.second.as<std::string>()) > max_compatibility) {
                problem = "its `compatibility` has more than 500 characters";
                return std::nullopt;
            }
            if (key == "name")
                skill.name = cubepi::detail::trimmed(member.second.as<std::string>());
            if (key == "description")
                skill.description = cubepi::detail::trimmed(member.second.as<std::string>());
        }
    } catch (const YAML::Exception& error) {
        problem = std::string("its first block is not valid YAML: ") + error.what();
        return std::nullopt;
    }
    problem = "its `name` is not that of its directory, in lower-case words joined by hyphens";
    if (!is_skill_name(skill.name) || skill.name != name) return std::nullopt;
    const std::size_t length = characters(skill.description);
    problem =
        "its `description` has " + std::to_string(length) + " characters, 1 to 1,024 are allowed";
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
    /// Returns nothing if there is no such file, or if it cannot be read.
    std::optional<ProjectFile> read_file(const std::string& place, const std::string& skill,
                                         const char* name) {
        try {
            return read_project_file(place_, place + "/" + name);
        } catch (const cubepi::Error& error) {
            if (error.code() != cubepi::ErrorCode::not_found) {
                problems_.push_back("The skill " + (directory_ / skill).string() +
                                    " is not loaded: " + error.what());
            }
        }
        return std::nullopt;
    }
    void read_one(const std::string& name) {
        const std::string place = below_.empty() ? name : below_ + "/" + name;
        const char* file_name = "SKILL.md";
        std::optional<ProjectFile> found = read_file(place, name, file_name);
        if (!found) found = read_file(place, name, file_name = "skill.md");
        if (!found) return;
        const ProjectFile file = std::move(*found);
        std::string problem;
        std::optional<Skill> skill = parse_skill(file.text, name, problem);
        if (!skill) {
            problems_.push_back("The skill " + (directory_ / name).string() +
                                " is not loaded: " + problem + ".");
            return;
        }
        skill->location = directory_ / name / file_name;
        const std::string directory = (directory_ / name).string();
        replace_all(skill->body, "${SKILL_DIR}", directory);
        replace_all(skill->body, "$SKILL_DIR", directory);
        if (file.is_cut()) {
            skill->body += "\n\n" + file.cut_note(file_name);
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
            // The letters of other languages, too.
            if (c < 0x80 && !std::isalnum(c) && c != '_' && c != '.' && c != '-') break;
            ++end;
        }
        std::string_view name = text.substr(at + 1, end - at - 1);
        while (!name.empty() && (name.back() == '.' || name.back() == '-')) name.remove_suffix(1);
        if (!name.empty()) hints.emplace(name);
        // Some languages have no blanks, and their marks end a name, too.
        name = name.substr(
            0, static_cast<std::size_t>(
                   std::find_if(name.begin(), name.end(),
                                [](char c) { return static_cast<unsigned char>(c) >= 0x80; }) -
                   name.begin()));
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

std::vector<SkillDirectory> skill_directories(const std::filesystem::path& workspace,
                                              bool with_user_skills,
                                              const std::vector<std::filesystem::path>& more) {
    std::vector<SkillDirectory> directories;
    if (!workspace.empty())
        directories = {{workspace, ".agents/skills"}, {workspace, ".agent/skills"}};
    if (with_user_skills) directories.push_back({home_directory() / ".agents" / "skills"});
    for (const auto& directory : more) directories.push_back({directory});
    return directories;
}

std::filesystem::path project_root(const std::filesystem::path& workspace) {
    std::error_code failed;
    std::filesystem::path canonical = std::filesystem::canonical(workspace, failed);
    if (failed) return std::filesystem::absolute(workspace, failed).lexically_normal();
    const std::filesystem::path home = std::filesystem::weakly_canonical(home_directory(), failed);
    std::filesystem::path at = canonical;
    for (int i = 0; i <= max_parents && is_own_directory(at); ++i) {
        if (at != canonical && (at == home || at == at.root_path())) break;
        if (std::filesystem::exists(std::filesystem::symlink_status(at / ".git", failed)))
            return at;
        if (at == at.parent_path()) break;
        at = at.parent_path();
    }
    return canonical;
}

namespace {

/// "AGENTS.md (2.1 KB), 3 skills"
std::string list_of(const std::vector<Instructions::File>& files, std::size_t skills) {
    std::string text;
    for (const Instructions::File& file : files)
        text += (text.empty() ? "" : ", ") + file.name + " (" + size_text(file.size) + ")";
    if (skills > 0)
        text += (text.empty() ? "" : ", ") + std::to_string(skills) +
                (skills == 1 ? " skill" : " skills");
    return text;
}

}  // namespace

LoadedFiles look_at_project_files(const std::filesystem::path& workspace, bool with_user_skills,
                                  const std::vector<std::filesystem::path>& more,
                                  InstructionScope scope, bool is_trusted) {
    LoadedFiles loaded;
    if (!is_trusted) {
        Instructions refused = read_instructions(workspace, scope);
        std::erase_if(refused.files, [](const auto& file) { return file.name.starts_with("~/"); });
        const FoundSkills skills = find_skills(skill_directories(workspace, false, {}));
        loaded.untrusted = list_of(refused.files, skills.skills.size());
        scope = without_workspace(scope);
    }
    const Instructions instructions = read_instructions(workspace, scope);
    const FoundSkills skills = find_skills(skill_directories(
        is_trusted ? workspace : std::filesystem::path(), with_user_skills, more));
    loaded.summary = list_of(instructions.files, skills.skills.size());
    if (!loaded.summary.empty()) loaded.summary.insert(0, "Loaded ");
    loaded.problems = instructions.problems;
    loaded.problems.insert(loaded.problems.end(), skills.problems.begin(), skills.problems.end());
    return loaded;
}

}  // namespace bub
