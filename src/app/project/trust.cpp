#include "trust.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bub/tape/support/encoding.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/workspace/files/content.hpp>

#include "../command_tree.hpp"
#include "../config/config_file.hpp"
#include "../config/paths.hpp"
#include "../failure.hpp"
#include "../program.hpp"
#include "../shell_quoting.hpp"
#include "../terminal/terminal_stream.hpp"
#include "../terminal/terminal_text.hpp"
#include "../terminal/text_layout.hpp"
#include "git.hpp"
#include "project.hpp"

namespace cubepi::app {

namespace {

constexpr std::uint64_t max_record_bytes = 1'000'000;

std::filesystem::path record_path(const std::filesystem::path& root) {
    return trust_directory() / (cubepi::detail::sha256_hex(root.string()) + ".json");
}

/// Reads a file that only this user can have written.
std::optional<std::string> read_own_file(const std::filesystem::path& path) {
    const detail::UniqueFd fd = detail::open_file(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    struct stat info = {};
    if (!fd || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
    if (info.st_uid != geteuid() || (info.st_mode & 022) != 0) return std::nullopt;
    const auto size = static_cast<std::uint64_t>(info.st_size);
    if (size > max_record_bytes) return std::nullopt;
    std::string text(size, '\0');
    const std::optional<std::size_t> read = detail::read_at(fd.get(), 0, text.data(), text.size());
    if (!read) return std::nullopt;
    text.resize(*read);
    return text;
}

std::optional<TrustRecord> record_of(const std::string& text) {
    JsonTextError error;
    const Json json = parse_json(text, error);
    const JsonObject* object = error ? nullptr : json.if_object();
    const Json* directory = object ? object->if_contains("directory") : nullptr;
    const Json* files = object ? object->if_contains("files") : nullptr;
    const Json* made = object ? object->if_contains("made") : nullptr;
    if (!directory || !directory->is_string() || !files || !files->is_object()) return std::nullopt;
    TrustRecord record;
    record.directory = std::string(directory->get_string());
    for (const auto& file : files->get_object()) {
        if (!file.value().is_string()) return std::nullopt;
        record.files.emplace(file.key(), std::string(file.value().get_string()));
    }
    if (made && made->is_int64())
        record.made = std::chrono::system_clock::from_time_t(made->get_int64());
    return record;
}

/// Reads a record, which must be that of its own name.
std::optional<TrustRecord> read_record(const std::filesystem::path& path) {
    const std::optional<std::string> text = read_own_file(path);
    std::optional<TrustRecord> record = text ? record_of(*text) : std::nullopt;
    if (record && record_path(record->directory) != path) record.reset();
    return record;
}

constexpr const char* trust_examples = R"(Examples:
  cubepi trust list
  cubepi trust add              the directory in which you are, with its repository
  cubepi trust remove ~/src/app

A directory is trusted with its git repository. Files that decide which programs and calls run (.cubepi/config.yaml,
.cubepi/prompts, .mcp.json) are trusted by their content: after a change, trust them again. The key trust of the
configuration file lists directories whose instructions and skills are trusted, with those below; their files that
decide what runs need this command too.)";

std::filesystem::path directory_of(const TrustArguments& arguments) {
    return arguments.directory.empty() ? std::filesystem::current_path()
                                       : std::filesystem::path(arguments.directory);
}

std::string count_text(std::size_t count) {
    return std::to_string(count) + (count == 1 ? " file" : " files");
}

int list(const ConfigFile& config, bool as_json) {
    JsonArray listed;
    const auto add = [&](const std::string& directory, const std::string& how, std::size_t files) {
        if (as_json) {
            listed.push_back(JsonObject{{"directory", directory}, {"by", how}, {"files", files}});
        } else {
            out() << for_terminal(directory) << "  " << for_terminal(how);
            if (files > 0) out() << ", " << for_terminal(count_text(files)) << " by content";
            out() << "\n";
        }
    };
    for (const std::string& path : config.trust)
        add(expand_home(path).string(), config_path().string() + ", instructions and skills", 0);
    for (const TrustRecord& record : trust_records())
        add(record.directory.string(), "you", record.files.size());
    if (as_json) data_output(safe_json(Json(std::move(listed))) + "\n");
    return exit_ok;
}

int add(const TrustArguments& arguments) {
    const std::filesystem::path directory = directory_of(arguments);
    std::error_code failed;
    if (!std::filesystem::is_directory(directory, failed))
        throw Error(ErrorCode::invalid_argument,
                    "'" + visible(directory.string()) + "' is not a directory");
    Project project = find_project(directory, TrustSettings());
    const std::vector<std::string> effects = effects_of_untrusted(project);
    record_trust(project);
    out() << "Trusted: " << for_terminal(visible(project.root.string())) << "\n";
    for (const std::string& effect : effects)
        out() << "  " << for_terminal(visible(effect)) << "\n";
    for (const std::string& problem : project.problems)
        err() << "cubepi: " << for_terminal(visible(problem)) << "\n";
    return exit_ok;
}

int remove(const TrustArguments& arguments) {
    const std::filesystem::path directory = directory_of(arguments);
    const std::filesystem::path root = bub::project_root(directory);
    // A directory that is gone has the name under which it was recorded.
    if (!remove_trust(root) && !remove_trust(directory.lexically_normal())) {
        const std::filesystem::path repository = main_tree_of(root);
        if (!repository.empty() && find_trust(repository))
            throw Error(ErrorCode::invalid_argument,
                        "'" + visible(root.string()) +
                            "' is a work tree, and trusted with its repository; withdraw that "
                            "trust: cubepi trust remove " +
                            shell_word(repository.string()));
        throw Error(ErrorCode::invalid_argument, "'" + visible(root.string()) +
                                                     "' is not recorded as trusted; list what "
                                                     "is: cubepi trust list");
    }
    out() << "Not trusted any more: " << for_terminal(visible(root.string())) << "\n";
    return exit_ok;
}

constexpr std::size_t max_effects = 100;
constexpr std::size_t max_effect_bytes = 2000;

bub::LoadedFiles look_at(const Project& project) {
    return bub::look_at_project_files(std::filesystem::current_path(), true, {},
                                      bub::InstructionScope::user, project.is_trusted);
}

/// The files that the question is about, and what they would do.
std::string untrusted_text(const Project& project, const bub::LoadedFiles& files) {
    std::string text = project.root.string();
    if (!files.untrusted.empty()) text += "\nfor the model: " + files.untrusted;
    std::vector<std::string> effects = effects_of_untrusted(project);
    for (std::size_t i = 0; i < std::min(effects.size(), max_effects); ++i)
        text += "\n" + std::string(detail::cut_text(effects[i], max_effect_bytes));
    if (effects.size() > max_effects)
        text += "\nand " + std::to_string(effects.size() - max_effects) + " more";
    return text;
}

Choice choice(char key, TerminalView label) {
    Choice made;
    made.key = key;
    made.label = label;
    return made;
}

Choices trust_choices() {
    Choices choices;
    choices.text = TerminalView("  Trust them?");
    choices.all = {choice('y', "[y]es"), choice('o', "[o]nce"), choice('n', "[n]o")};
    choices.on_escape = 'n';
    return choices;
}

/// Returns the key of the answer. The end of the input is a refusal.
Task<char> ask(std::shared_ptr<Prompter> prompter, std::string question, bool is_change) {
    co_await prompter->prepare();
    prompter->print(is_change ? TerminalView("? These files are new or have changed since you "
                                             "trusted this directory:\n")
                              : TerminalView("? This directory has files that act on the chat:\n"));
    prompter->print(framed(question, prompter->size().columns));
    for (;;) {
        Choices choices = trust_choices();
        const std::optional<Chosen> chosen = co_await prompter->choose(std::move(choices));
        if (!chosen) co_return 'n';
        if (chosen->key != 0) co_return chosen->key;
        prompter->print(
            framed("Answer y (trust what the files contain now), o (for this chat only) or n "
                   "(do not load them); Esc is n, Ctrl-C ends the program.",
                   prompter->size().columns, Frame{"  ", "  "}));
    }
}

}  // namespace

std::optional<TrustRecord> find_trust(const std::filesystem::path& root) {
    return read_record(record_path(root));
}

void save_trust(const TrustRecord& record) {
    const std::filesystem::path path = record_path(record.directory);
    make_private_directory(path, "XDG_STATE_HOME");
    JsonObject files;
    for (const auto& [name, digest] : record.files) files[name] = digest;
    JsonObject object;
    object["directory"] = record.directory.string();
    object["files"] = std::move(files);
    object["made"] = std::chrono::system_clock::to_time_t(record.made);
    std::string fresh = path.string() + ".XXXXXX";
    detail::UniqueFd fd(mkostemp(fresh.data(), O_CLOEXEC));  // 0600
    detail::ReplacementFile file(std::move(fd), fresh);
    const bool is_saved = file && detail::write_all(file.get(), json_text(object) + "\n") &&
                          detail::sync_file(file.get()) && file.replace(path);
    if (!is_saved)
        throw Error(ErrorCode::io,
                    "cannot write " + path.string() + ": " + detail::errno_text(errno));
}

bool remove_trust(const std::filesystem::path& root) {
    const std::filesystem::path path = record_path(root);
    if (unlink(path.c_str()) == 0) return true;
    if (errno == ENOENT) return false;
    throw Error(ErrorCode::io, "cannot remove " + path.string() + ": " + detail::errno_text(errno));
}

std::vector<TrustRecord> trust_records() {
    std::vector<TrustRecord> records;
    std::error_code failed;
    for (const auto& entry : std::filesystem::directory_iterator(trust_directory(), failed)) {
        if (std::optional<TrustRecord> record = read_record(entry.path()))
            records.push_back(std::move(*record));
    }
    std::sort(records.begin(), records.end(),
              [](const TrustRecord& left, const TrustRecord& right) {
                  return left.directory < right.directory;
              });
    return records;
}

// `cubepi trust`: which projects are trusted.

void add_trust_commands(CLI::App& app, CommandLine& line) {
    using What = TrustArguments::What;
    TrustArguments& trust = line.trust;
    CLI::App* command =
        add_command(app, line, Verb::trust, "trust",
                    "Trust instructions, skills and settings of directories", trust_examples);
    command->require_subcommand(1);
    const auto add = [&](const char* name, const char* description, What what) -> CLI::App& {
        return add_action(*command, name, description, trust.what, what);
    };
    add("list", "List the trusted directories", What::list)
        .add_flag("--json", trust.json, "Print a JSON array");
    for (const auto& [name, description, what] :
         {std::tuple{"add", "Trust a directory and its repository", What::add},
          std::tuple{"remove", "Withdraw the trust", What::remove}}) {
        option(add(name, description, what), "directory", trust.directory,
               "The directory (default: the current one)", value_type::directory);
    }
}

int trust_command(const CommandLine& line) {
    switch (line.trust.what) {
        case TrustArguments::What::list: return list(read_config(config_path()), line.trust.json);
        case TrustArguments::What::add: return add(line.trust);
        case TrustArguments::What::remove: return remove(line.trust);
    }
    return exit_usage;
}

std::string untrusted_note(const Project& project, const bub::LoadedFiles& files) {
    std::string names = files.untrusted;
    const std::string bound = project.untrusted_text();
    if (!bound.empty()) names += (names.empty() ? "" : ", ") + bound;
    if (names.empty()) return names;
    return "Not loaded, because " +
           std::string(project.is_trusted ? "you have not trusted this content"
                                          : "this directory is not trusted") +
           ": " + names + ". To trust: cubepi trust add (for one run: --trust)";
}

Task<OpenedProject> open_project(TrustSettings settings, std::shared_ptr<Prompter> prompter) {
    OpenedProject opened;
    opened.project = find_project(std::filesystem::current_path(), settings);
    opened.files = look_at(opened.project);
    const bool has_more = !opened.project.untrusted.empty() || !opened.files.untrusted.empty();
    if (has_more && prompter && prompter->can_ask()) {
        std::string question = untrusted_text(opened.project, opened.files);
        const char answer =
            co_await ask(std::move(prompter), std::move(question), opened.project.is_trusted);
        if (answer == 'y') {
            try {
                record_trust(opened.project);
            } catch (const Error& error) {
                opened.warnings.push_back("The trust holds for this chat only: " +
                                          std::string(error.what()));
            }
        }
        if (answer != 'n') {
            opened.project.trust();
            opened.files = look_at(opened.project);
        }
    }
    if (!opened.files.summary.empty()) opened.notes.push_back(opened.files.summary);
    std::string note = untrusted_note(opened.project, opened.files);
    if (!note.empty()) opened.notes.push_back(std::move(note));
    for (const std::string& problem : opened.files.problems) opened.warnings.push_back(problem);
    co_return opened;
}

}  // namespace cubepi::app
