#include "project.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include <bub/builtin/project_files.hpp>
#include <bub/tape/support/encoding.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/workspace/local_workspace.hpp>

#include "../config/config_file.hpp"
#include "../config/paths.hpp"
#include "../config/tool_names.hpp"
#include "git.hpp"
#include "trust.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t max_file_bytes = 64 * 1024;
constexpr std::size_t max_prompts = 200;
constexpr std::string_view prompt_suffix = ".md";
constexpr std::string_view trust_key = "trust";

/// Reads the files of a project that are trusted by their content.
class BoundFileReader {
public:
    explicit BoundFileReader(const std::filesystem::path& root)
        : place_(root, WorkspacePolicy().read_only().without_links()) {}

    void read_all() {
        for (const std::string_view name : {project_config_file, project_mcp_file})
            read(std::string(name));
        read_prompts();
        std::sort(files.begin(), files.end(), [](const BoundFile& left, const BoundFile& right) {
            return left.name < right.name;
        });
    }

    std::vector<BoundFile> files = {};
    std::vector<std::string> problems = {};
    bool has_unread_rules = false;

private:
    void read(const std::string& name) {
        try {
            BoundFile file;
            file.name = name;
            file.text = place_.read(name, max_file_bytes);
            if (!is_utf8(file.text)) throw Error(ErrorCode::parse, "it is not UTF-8.");
            file.digest = cubepi::detail::sha256_hex(file.text);
            files.push_back(std::move(file));
        } catch (const Error& error) {
            if (error.code() == ErrorCode::not_found) return;
            problems.push_back(name + " is not loaded: " + error.what());
            has_unread_rules = has_unread_rules || name == project_config_file;
        }
    }

    void read_prompts() {
        std::vector<DirectoryEntry> entries;
        const std::string directory(project_prompts);
        try {
            entries = place_.list(directory);
        } catch (const Error& error) {
            if (error.code() != ErrorCode::not_found)
                problems.push_back(directory + " is not loaded: " + error.what());
        }
        std::size_t count = 0;
        for (const DirectoryEntry& entry : entries) {
            const bool is_prompt = entry.name.size() > prompt_suffix.size() &&
                                   entry.name.ends_with(prompt_suffix) &&
                                   entry.info.kind != FileKind::directory;
            if (!is_prompt) continue;
            if (++count > max_prompts) {
                problems.push_back("Only the first " + std::to_string(max_prompts) + " files of " +
                                   directory + " are loaded.");
                return;
            }
            read(directory + "/" + entry.name);
        }
    }

    LocalWorkspace place_;
};

/// Compares whole components: /a/bc is not below /a/b.
bool is_below(const std::filesystem::path& path, const std::filesystem::path& directory) {
    return std::mismatch(directory.begin(), directory.end(), path.begin(), path.end()).first ==
           directory.end();
}

bool is_in_settings(const std::filesystem::path& directory, const TrustSettings& settings) {
    if (settings.this_run || settings.of_run) return true;
    if (settings.paths.empty()) return false;
    std::error_code failed;
    const std::filesystem::path canonical = std::filesystem::canonical(directory, failed);
    if (failed) return false;
    return std::any_of(settings.paths.begin(), settings.paths.end(), [&](const auto& path) {
        std::error_code unknown;
        const std::filesystem::path trusted =
            std::filesystem::canonical(expand_home(path), unknown);
        return !unknown && is_below(canonical, trusted);
    });
}

/// The records that hold for a project: its own, and for a linked work tree that of its repository (D244).
struct ProjectRecords {
    explicit ProjectRecords(const std::filesystem::path& root) {
        for (const std::filesystem::path& place : {root, main_tree_of(root)}) {
            if (place.empty()) continue;
            places.push_back(place);
            if (std::optional<TrustRecord> record = find_trust(place))
                records.push_back(std::move(*record));
        }
    }
    bool trust_directory(const TrustSettings& settings) const {
        return !records.empty() || std::any_of(places.begin(), places.end(), [&](const auto& one) {
            return is_in_settings(one, settings);
        });
    }
    bool have(const BoundFile& file) const {
        return std::any_of(records.begin(), records.end(), [&](const TrustRecord& record) {
            const auto found = record.files.find(file.name);
            return found != record.files.end() && found->second == file.digest;
        });
    }

    std::vector<std::filesystem::path> places = {};
    std::vector<TrustRecord> records = {};
};

bool has(const std::optional<TrustedFiles>& files, const BoundFile& file) {
    if (!files) return false;
    const auto found = files->find(file.name);
    return found != files->end() && found->second == file.digest;
}

bool is_prompt(const BoundFile& file) {
    return file.name.starts_with(std::string(project_prompts) + "/");
}

std::string prompt_name(const BoundFile& file) {
    const std::string name = file.name.substr(project_prompts.size() + 1);
    return name.substr(0, name.size() - prompt_suffix.size());
}

const BoundFile* find_in(const std::vector<BoundFile>& files, std::string_view name) {
    const auto found = std::find_if(files.begin(), files.end(),
                                    [&](const BoundFile& file) { return file.name == name; });
    return found == files.end() ? nullptr : &*found;
}

/// Removes the rules that are invalid, and reports them.
void keep_valid(std::vector<std::string>& rules, RuleEffect effect, ProjectSettings& settings) {
    std::erase_if(rules, [&](const std::string& rule) {
        try {
            if (effect == RuleEffect::allow) {
                (void)ApprovalRule::parse(rule);
            } else {
                (void)parse_restriction(rule, effect);
            }
        } catch (const Error& error) {
            if (effect != RuleEffect::allow) settings.has_unread_rules = true;
            settings.problems.push_back("'" + std::string(to_string(effect)) + "' in " +
                                        settings.source + ": " + error.what());
            return true;
        }
        return false;
    });
}

/// Reads the rules and hooks of a file; nothing: they are invalid, and a problem is added.
std::optional<ProjectConfig> config_of(const Project& project, const BoundFile& file,
                                       std::vector<std::string>& problems) {
    try {
        return read_project_config(project.root / file.name, file.text);
    } catch (const Error& error) {
        problems.emplace_back(error.what());
    }
    return std::nullopt;
}

std::vector<BoundFile> read_files(Project& project) {
    std::error_code unknown;
    // A directory that is not yet made has no files; one that cannot be read may have some.
    if (!std::filesystem::exists(project.root, unknown) && !unknown) return {};
    try {
        BoundFileReader reader(project.root);
        reader.read_all();
        project.problems = std::move(reader.problems);
        project.has_unread_rules = reader.has_unread_rules;
        return std::move(reader.files);
    } catch (const Error& error) {
        project.problems.push_back("The files of " + project.root.string() +
                                   " are not loaded: " + error.what());
        project.has_unread_rules = true;
        return {};
    }
}

}  // namespace

const BoundFile* Project::find(std::string_view name) const { return find_in(trusted, name); }

void store_trust(JsonObject& flags, const ProjectSettings& settings) {
    if (!settings.trusted) return;
    JsonObject files;
    for (const auto& [name, digest] : *settings.trusted) files[name] = digest;
    flags[trust_key] = std::move(files);
}

std::optional<TrustedFiles> stored_trust(const JsonObject& flags) {
    const JsonObject* const stored = cubepi::detail::object_member(flags, trust_key);
    if (!stored) return std::nullopt;
    TrustedFiles files;
    for (const auto& file : *stored) {
        if (file.value().is_string()) files.emplace(file.key(), file.value().get_string());
    }
    return files;
}

void require_files_of_run(const TrustedFiles& of_run, const ProjectSettings& settings) {
    for (const auto& [name, digest] : of_run) {
        if (settings.trusted && settings.trusted->contains(name)) continue;
        throw Error(ErrorCode::permission_denied,
                    "the run that waits is bound by the rules and hooks of '" + name +
                        "' in this directory, which was removed, has changed or is not trusted "
                        "any more. Restore the file, or trust what it contains now: cubepi trust "
                        "add. To withdraw the question: cubepi inbox cancel");
    }
}

std::string Project::untrusted_text() const {
    std::string text;
    std::size_t prompts = 0;
    for (const BoundFile& file : untrusted) {
        if (is_prompt(file)) {
            ++prompts;
        } else {
            text += (text.empty() ? "" : ", ") + file.name;
        }
    }
    if (prompts > 0)
        text += (text.empty() ? "" : ", ") + std::to_string(prompts) +
                (prompts == 1 ? " prompt" : " prompts");
    return text;
}

void Project::trust() {
    is_trusted = true;
    for (BoundFile& file : untrusted) trusted.push_back(std::move(file));
    untrusted.clear();
    std::sort(trusted.begin(), trusted.end(),
              [](const BoundFile& left, const BoundFile& right) { return left.name < right.name; });
}

Project find_project(const std::filesystem::path& directory, const TrustSettings& settings) {
    Project project;
    project.root = bub::project_root(directory);
    std::vector<BoundFile> files = read_files(project);
    const ProjectRecords records(project.root);
    project.is_trusted = records.trust_directory(settings);
    for (BoundFile& file : files) {
        // A directory of the configuration has not been read by its user, as it will be: its files that run programs are not bound.
        const bool is_same = settings.this_run || has(settings.of_run, file) || records.have(file);
        (is_same ? project.trusted : project.untrusted).push_back(std::move(file));
    }
    return project;
}

bool is_trusted(const std::filesystem::path& directory, const TrustSettings& settings) {
    return ProjectRecords(bub::project_root(directory)).trust_directory(settings);
}

void record_trust(const Project& project) {
    TrustRecord record;
    record.directory = project.root;
    for (const auto* files : {&project.trusted, &project.untrusted}) {
        for (const BoundFile& file : *files) record.files[file.name] = file.digest;
    }
    record.made = std::chrono::system_clock::now();
    save_trust(record);
}

ProjectSettings settings_of(const Project& project) {
    ProjectSettings settings;
    settings.source = (project.root / project_config_file).string();
    settings.problems = project.problems;
    settings.has_unread_rules = project.has_unread_rules;
    const BoundFile* const trusted = project.find(project_config_file);
    const BoundFile* const config =
        trusted ? trusted : find_in(project.untrusted, project_config_file);
    if (config) {
        std::optional<ProjectConfig> found = config_of(project, *config, settings.problems);
        if (!found) settings.has_unread_rules = true;
        ProjectConfig read = std::move(found).value_or(ProjectConfig());
        keep_valid(read.ask, RuleEffect::ask, settings);
        keep_valid(read.deny, RuleEffect::deny, settings);
        settings.ask = std::move(read.ask);
        settings.deny = std::move(read.deny);
        if (trusted) {
            keep_valid(read.allow, RuleEffect::allow, settings);
            settings.allow = std::move(read.allow);
            settings.hooks = std::move(read.hooks);
        }
    }
    if (settings.has_unread_rules)
        settings.problems.push_back("Every tool call needs approval, because rules of " +
                                    settings.source + " that ask or deny cannot be read.");
    if (const BoundFile* file = project.find(project_mcp_file)) {
        ProjectMcpServers found = project_mcp_servers(project.root / file->name, file->text);
        settings.servers = std::move(found.servers);
        settings.problems.insert(settings.problems.end(), found.problems.begin(),
                                 found.problems.end());
    }
    if (project.is_trusted) settings.trusted.emplace();
    for (const BoundFile& file : project.trusted) {
        if (is_prompt(file)) {
            settings.prompts.push_back({prompt_name(file), file.text});
        } else if (settings.trusted) {
            settings.trusted->emplace(file.name, file.digest);
        }
    }
    return settings;
}

std::vector<std::string> effects_of_untrusted(const Project& project) {
    std::vector<std::string> effects;
    std::vector<std::string> problems;
    if (const BoundFile* file = find_in(project.untrusted, project_config_file)) {
        const ProjectConfig config = config_of(project, *file, problems).value_or(ProjectConfig());
        for (const std::string& rule : config.allow)
            effects.push_back(file->name + " allows without a question: " + rule);
        for (const bub::CommandHook& hook : config.hooks)
            effects.push_back(file->name + " runs at " + std::string(to_string(hook.point)) + ": " +
                              hook.command);
    }
    if (const BoundFile* file = find_in(project.untrusted, project_mcp_file)) {
        ProjectMcpServers found = project_mcp_servers(project.root / file->name, file->text);
        for (const McpServerSettings& server : found.servers) {
            std::string text = file->name +
                               (server.command.empty() ? " connects to: " : " runs: ") +
                               server.address();
            // As written: names of variables, not their values.
            for (const auto& [key, value] : server.env) text += "; with " + key + "=" + value;
            for (const auto& [key, value] : server.headers) text += "; sends " + key + ": " + value;
            for (const auto& [key, value] : server.oauth)
                text += "; logs in with " + key + ": " + value;
            if (server.cwd != (project.root / "").string()) text += "; in " + server.cwd;
            effects.push_back(std::move(text));
        }
        problems.insert(problems.end(), found.problems.begin(), found.problems.end());
    }
    std::string prompts;
    for (const BoundFile& file : project.untrusted) {
        if (is_prompt(file)) prompts += (prompts.empty() ? "" : ", ") + prompt_name(file);
    }
    if (!prompts.empty()) effects.push_back("prompts as commands: " + prompts);
    effects.insert(effects.end(), problems.begin(), problems.end());
    return effects;
}

}  // namespace cubepi::app
