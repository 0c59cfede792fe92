#include <filesystem>
#include <system_error>

#include <cubepi/core/error.hpp>

#include "../command_tree.hpp"
#include "../config/config_file.hpp"
#include "../config/paths.hpp"
#include "../failure.hpp"
#include "../program.hpp"
#include "../shell_quoting.hpp"
#include "../terminal/terminal_stream.hpp"
#include "../terminal/terminal_text.hpp"
#include "open_project.hpp"
#include "project.hpp"
#include "trust_records.hpp"
#include "work_tree.hpp"

// `cubepi trust`: which projects are trusted.

namespace cubepi::app {

namespace {

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

}  // namespace

void add_trust_commands(CLI::App& app, CommandLine& line) {
    using What = TrustArguments::What;
    TrustArguments& trust = line.trust;
    CLI::App* command =
        app.add_subcommand("trust", "Trust instructions, skills and settings of directories");
    command->footer(trust_examples);
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
    command->callback([&line] { line.verb = Verb::trust; });
}

int trust_command(const CommandLine& line) {
    switch (line.trust.what) {
        case TrustArguments::What::list: return list(read_config(config_path()), line.trust.json);
        case TrustArguments::What::add: return add(line.trust);
        case TrustArguments::What::remove: return remove(line.trust);
    }
    return exit_usage;
}

}  // namespace cubepi::app
