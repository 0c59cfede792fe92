#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include <bub/builtin/builtin.hpp>
#include <cubepi/core/task.hpp>

#include "command_line.hpp"

namespace cubepi::app {

/// The whole program: main() of `cubepi` is this call. Other programs pass plugins to add; their commands become
/// commands of the program. Reports errors on stderr; returns the exit status.
int run_program(int argc, char** argv, AddPlugins plugins = {});

/// The commands of plugins; `problems` has those that are not available: their name is used by the program or by an
/// earlier plugin, or is empty.
struct PluginCommands {
    std::vector<bub::CliCommand> commands = {};
    std::vector<std::string> problems = {};
};
/// Collects the commands of the plugins of `framework`; an exception becomes a problem.
PluginCommands plugin_commands(bub::Framework& framework);

/// Registers those of `plugins`; an exception only marks them as failed (B16).
void add_plugins(bub::Framework& framework, const AddPlugins& plugins);
/// Registers the builtin plugin and those of `plugins`; a plugin that fails does not affect the others (B16).
void load_plugins(bub::Framework& framework, const AddPlugins& plugins,
                  bub::BuiltinOptions options = {});

/// Changes to the directory of -C and then to the work tree of -w, if they were named. The files of other options are relative to the
/// directory before. Throws Error(invalid_argument) if that is not possible, and the errors of open_work_tree().
void enter_directory(CommandLine& line);

// One function per command; each returns the exit status. They throw exceptions that the command could not handle.

int run_command(const CommandLine& line);
int chat_command(const CommandLine& line);
int demo_command(const CommandLine& line);
int demo_step_command(const CommandLine& line);
int onboard_command(const CommandLine& line);
int models_command(const CommandLine& line);
int doctor_command(const CommandLine& line);
int hooks_command(const CommandLine& line);
int sessions_command(const CommandLine& line);
int inbox_command(const CommandLine& line);
int tape_command(const CommandLine& line);
int trace_command(const CommandLine& line);
int db_command(const CommandLine& line);
int mcp_command(const CommandLine& line);
int acp_command(const CommandLine& line);
int permissions_command(const CommandLine& line);
int trust_command(const CommandLine& line);
int gateway_command(const CommandLine& line);
int schedule_command(const CommandLine& line);
int web_command(const CommandLine& line);
/// `inbox` with --gateway.
int gateway_inbox(const CommandLine& line);
int completion_command(const CommandLine& line);
/// The request of a completion script; `commands` are those of plugins.
int complete_command(const CommandLine& line, const std::vector<bub::CliCommand>& commands);
/// Prints why another command cannot begin, and asks at the terminal whether to set up a model now. Returns exit_ok if it was set up.
int offer_onboarding(const CommandLine& line, const std::string& reason);
/// Prints cubepi.1.
int man_page_command();

/// Shows or changes the tables of a database. Returns the exit status. Throws Error for wrong arguments, CheckpointerError for a
/// database that cannot be used.
int use_database(const DatabaseArguments& arguments, std::ostream& out, std::ostream& err);

/// Lists, checks, calls or is an MCP server, or logs in at one. Returns the exit status. Throws Error for wrong arguments.
int use_mcp(const McpArguments& arguments, std::ostream& out, std::ostream& err);

/// Shows the contents of tapes; never changes them. Returns the exit status.
int show_tapes(const TapeArguments& arguments, std::ostream& out, std::ostream& err);

/// Runs one turn as `run` does, on a prompt or on an answer of the operator to a question, and returns the exit status.
Task<int> run_message(CommandLine line, std::string text, std::optional<bub::Answer> answer);

}  // namespace cubepi::app
