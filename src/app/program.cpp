#include "program.hpp"

#include <algorithm>
#include <csignal>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include <bub/framework.hpp>
#include <bub/turn_error.hpp>
#include <cubepi/core/run.hpp>

#include "config/model_sources.hpp"
#include "config/store_locations.hpp"
#include "failure.hpp"
#include "process.hpp"
#include "project/git.hpp"
#include "shell_quoting.hpp"
#include "terminal/terminal_stream.hpp"

// `cubepi hooks`: what each plugin implements, in the order in which a turn asks, and which are broken and why (B16).

namespace cubepi::app {

namespace {

/// Commands work on the current directory.
void check_directory(Verb verb) {
    std::error_code failed;
    (void)std::filesystem::current_path(failed);
    if (!failed || verb == Verb::completion || verb == Verb::man_page) return;
    throw Error(ErrorCode::not_found, "cannot use the current directory: " + failed.message() +
                                          ". Change to an existing directory: cd");
}

int dispatch(const CommandLine& line) {
    check_directory(line.verb);
    set_up_log(line.log, line.verb == Verb::chat);
    set_tape_database(line.database);
    switch (line.verb) {
        case Verb::run: return run_command(line);
        case Verb::chat: return chat_command(line);
        case Verb::demo: return demo_command(line);
        case Verb::demo_step: return demo_step_command(line);
        case Verb::onboard: return onboard_command(line);
        case Verb::models: return models_command(line);
        case Verb::doctor: return doctor_command(line);
        case Verb::hooks: return hooks_command(line);
        case Verb::sessions: return sessions_command(line);
        case Verb::inbox: return inbox_command(line);
        case Verb::tape: return tape_command(line);
        case Verb::trace: return trace_command(line);
        case Verb::db: return db_command(line);
        case Verb::mcp: return mcp_command(line);
        case Verb::acp: return acp_command(line);
        case Verb::trust: return trust_command(line);
        case Verb::permissions: return permissions_command(line);
        case Verb::gateway: return gateway_command(line);
        case Verb::schedule: return schedule_command(line);
        case Verb::web: return web_command(line);
        case Verb::completion: return completion_command(line);
        case Verb::man_page: return man_page_command();
        case Verb::complete:
        case Verb::plugin:
        case Verb::none: break;
    }
    return exit_usage;
}

int run_plugin_command(const CommandLine& line, const std::vector<bub::CliCommand>& commands) {
    for (const bub::CliCommand& command : commands) {
        if (command.name == line.plugin_command) return run(command.run(line.words));
    }
    return exit_usage;
}

Failure failure_of(const std::exception_ptr& thrown) {
    Failure failure = explain(thrown);
    try {
        std::rethrow_exception(thrown);
    } catch (const NoModelError&) {
        failure.exit_code = exit_no_model;
    } catch (const Error& error) {
        const bool of_store = dynamic_cast<const CheckpointerError*>(&error) != nullptr;
        // An argument names a file or a session that does not exist.
        const bool is_missing = error.code() == ErrorCode::not_found && !of_store;
        if (error.code() == ErrorCode::invalid_argument || is_missing) {
            failure.exit_code = exit_usage;
        } else if (of_store && failure.exit_code == exit_failed) {
            failure.exit_code = exit_storage;
        }
    } catch (...) {
    }
    return failure;
}

/// The framework of the commands of plugins; created only if plugins are added.
struct PluginHost {
    explicit PluginHost(const AddPlugins& plugins) {
        if (!plugins) return;
        framework.emplace();
        load_plugins(*framework, plugins);
        found = plugin_commands(*framework);
    }
    std::optional<bub::Framework> framework;
    PluginCommands found;
};

/// Opens the work tree of -w. Returns its directory.
std::string work_tree_of_user(std::string name) {
    const auto opening = [](std::string wanted) -> Task<WorkTree> {
        std::filesystem::path here = std::filesystem::current_path();
        Task<WorkTree> work = open_work_tree(std::move(here), std::move(wanted), {});
        co_return co_await until_signal(std::move(work));
    };
    const WorkTree tree = run(opening(std::move(name)));
    const std::string directory = tree.directory.string();
    if (tree.is_new)
        err() << "cubepi: created the work tree " << for_terminal(visible(directory))
              << " on the branch " << for_terminal(tree.branch)
              << ".\n  To remove it: git worktree remove " << for_terminal(shell_word(directory))
              << "\n";
    return directory;
}

PluginCommands sort_commands(std::vector<bub::CliCommand> commands) {
    PluginCommands sorted;
    const std::vector<std::string> own = own_command_names();
    for (bub::CliCommand& command : commands) {
        const std::string who = "command '" + command.name + "' of plugin " + command.plugin;
        const auto same = [&command](const bub::CliCommand& other) {
            return other.name == command.name;
        };
        const auto known = std::find_if(sorted.commands.begin(), sorted.commands.end(), same);
        if (std::find(own.begin(), own.end(), command.name) != own.end()) {
            sorted.problems.push_back(who + ": a built-in command has this name and is used");
        } else if (known != sorted.commands.end()) {
            sorted.problems.push_back(who + ": the command of plugin " + known->plugin +
                                      " has this name and is used");
        } else if (command.name.empty() || command.name.front() == '-' || !command.run) {
            sorted.problems.push_back(who + ": it has no name, or nothing to run");
        } else {
            sorted.commands.push_back(std::move(command));
        }
    }
    return sorted;
}

void print_plugins(const bub::Framework& framework) {
    out() << "plugins, in order of registration:\n";
    for (const bub::PluginStatus& plugin : framework.plugin_status()) {
        out() << "  " << for_terminal(plugin.name) << ": ";
        if (!plugin.ok) {
            out() << "broken: " << for_terminal(plugin.reason) << "\n";
            continue;
        }
        out() << plugin.hooks.size()
              << (plugin.hooks.size() == 1 ? TerminalView(" hook\n") : TerminalView(" hooks\n"));
    }
}

void print_hooks(const bub::Framework& framework) {
    out() << "\nhooks, with their plugins in calling order:\n";
    for (const bub::HookUse& use : framework.hook_report()) {
        out() << "  " << for_terminal(use.hook) << ":";
        for (std::size_t i = 0; i < use.plugins.size(); ++i) {
            out() << (i == 0 ? TerminalView(" ") : TerminalView(", "))
                  << for_terminal(use.plugins[i]);
        }
        out() << "\n";
    }
}

void print_commands(const PluginCommands& found) {
    if (found.commands.empty() && found.problems.empty()) return;
    out() << "\ncommands of plugins:\n";
    for (const bub::CliCommand& command : found.commands) {
        out() << "  cubepi " << for_terminal(command.name) << ": " << for_terminal(command.plugin);
        if (!command.description.empty()) out() << ", " << for_terminal(command.description);
        out() << "\n";
    }
    for (const std::string& problem : found.problems)
        out() << "  not used: " << for_terminal(problem) << "\n";
}

}  // namespace

void enter_directory(CommandLine& line) {
    const auto refuse = [](const std::string& path, const std::error_code& reason) {
        throw Error(ErrorCode::invalid_argument,
                    "cannot work in " + visible(path) + ": " + reason.message());
    };
    // Relative to the directory of the user.
    for (const std::string& more : line.conversation.more_directories) {
        std::error_code reason;
        const bool is_directory = std::filesystem::is_directory(more, reason);
        if (!is_directory)
            refuse(more, reason ? reason : std::make_error_code(std::errc::not_a_directory));
    }
    std::string& directory = line.conversation.directory;
    std::string work_tree = std::exchange(line.conversation.work_tree, {});
    if (directory.empty() && work_tree.empty()) return;
    std::error_code failed;
    const auto absolute = [&failed](std::string& path) {
        if (!path.empty()) path = std::filesystem::absolute(path, failed).string();
    };
    for (std::string* path : {&line.conversation.model.script, &line.run.answer_file,
                              &line.run.schema_file, &directory})
        absolute(*path);
    for (std::string& image : line.run.images) absolute(image);
    for (std::string& more : line.conversation.more_directories) absolute(more);
    if (!directory.empty()) std::filesystem::current_path(directory, failed);
    if (failed) refuse(directory, failed);
    if (!work_tree.empty()) {
        directory = work_tree_of_user(std::move(work_tree));
        std::filesystem::current_path(directory, failed);
        if (failed) refuse(directory, failed);
    }
}

PluginCommands plugin_commands(bub::Framework& framework) {
    try {
        return sort_commands(run(framework.cli_commands()));
    } catch (...) {
        PluginCommands none;
        none.problems.push_back("cannot load the commands of plugins: " +
                                bub::describe(std::current_exception()));
        return none;
    }
}

void add_plugins(bub::Framework& framework, const AddPlugins& plugins) {
    if (!plugins) return;
    try {
        plugins(framework);
    } catch (...) {
        framework.note_broken("(plugins of this program)", bub::describe(std::current_exception()));
    }
}

void load_plugins(bub::Framework& framework, const AddPlugins& plugins,
                  bub::BuiltinOptions options) {
    framework.load("builtin", [&options](bub::Framework& owner) {
        return bub::builtin_plugin(owner, std::move(options));
    });
    add_plugins(framework, plugins);
}

int run_program(int argc, char** argv, AddPlugins plugins) {
    PluginHost host(plugins);
    CommandLine line = parse_command_line(argc, argv, host.found.commands);
    if (line.exit_code) return *line.exit_code;
    if (line.verb == Verb::complete) return complete_command(line, host.found.commands);
    line.plugins = std::move(plugins);
    if (line.verb != Verb::hooks) {  // which lists them
        for (const std::string& problem : host.found.problems)
            err() << "cubepi: " << for_terminal(problem) << "\n";
    }
    std::exception_ptr thrown;
    try {
        enter_directory(line);
        if (line.verb == Verb::plugin) return run_plugin_command(line, host.found.commands);
        return dispatch(line);
    } catch (const EndedBySignal& end) {
        if (end.signal() != SIGPIPE) err() << "cubepi: stopped.\n";
        return 128 + end.signal();
    } catch (...) {
        thrown = std::current_exception();
    }
    const Failure failure = failure_of(thrown);
    err() << "cubepi: " << for_terminal(failure.text) << "\n";
    return failure.exit_code;
}

int hooks_command(const CommandLine& line) {
    bub::Framework framework;
    load_plugins(framework, line.plugins);
    print_plugins(framework);
    print_hooks(framework);
    print_commands(plugin_commands(framework));
    for (const bub::PluginStatus& plugin : framework.plugin_status()) {
        if (!plugin.ok) return exit_failed;
    }
    return exit_ok;
}

}  // namespace cubepi::app
