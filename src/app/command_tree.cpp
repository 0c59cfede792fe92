#include "command_tree.hpp"

#include <CLI/CLI.hpp>

#include "command_tree/add_commands.hpp"
#include "version.hpp"

namespace cubepi::app {

namespace {

constexpr const char* examples = R"(Examples:
  cubepi                                      chat about the files of this directory
  cubepi "explain this project"               the same, with the first prompt
  cubepi demo                                 a guided tour, offline, no key needed
  cubepi onboard                              choose a provider and a model, step by step
  cubepi run "what does this project do?"     one answer, then exit
  cat build.log | cubepi run "what failed?"   standard input is added to the prompt
  cubepi run --json "hi" | jq .type           the events, one JSON object per line
  cubepi chat --session plan                  start or resume a session by name
  cubepi chat --continue                      resume the last session of this directory
  cubepi models --provider anthropic          the models of a provider
  cubepi tape search "migration"              search the last session of this directory
  cubepi doctor                               what is configured, what is reachable

Without a command, cubepi starts a chat; without a terminal it answers one prompt, as 'cubepi run' does.

Models: --model (also provider/model), --provider and --base-url, or OPENAI_API_KEY, ANTHROPIC_API_KEY,
OPENROUTER_API_KEY, or ~/.config/cubepi/config.yaml (written by cubepi onboard), or a server on this machine (Ollama,
llama.cpp, vLLM, LM Studio). --offline uses a scripted model that needs none of them.

Exit status: 0 success, 1 failure, 2 usage error, 3 no model, 4 session storage error, 5 limit reached,
6 incomplete or empty answer, 7 waiting for an answer, 130 aborted, 141 output pipe closed.
Options of a command: cubepi help COMMAND. Manual: man cubepi)";

void add_plugin_commands(CLI::App& app, CommandLine& line,
                         const std::vector<bub::CliCommand>& commands) {
    for (const bub::CliCommand& command : commands) {
        CLI::App* added = app.add_subcommand(command.name, command.description);
        added->set_help_flag();  // --help and other options go to the plugin
        added->prefix_command();
        added->group("Commands of plugins");
        added->callback([&line, added] {
            line.verb = Verb::plugin;
            line.plugin_command = added->get_name();
            line.words = added->remaining();
        });
    }
}

}  // namespace

void add_commands(CLI::App& app, CommandLine& line, const std::vector<bub::CliCommand>& more) {
    app.set_version_flag("-V,--version", version_text(), "Print the version and exit");
    app.require_subcommand(0, 1);
    add_talking_commands(app, line);
    add_set_up_commands(app, line);
    add_session_commands(app, line);
    add_inbox_commands(app, line);
    add_tape_commands(app, line);
    add_trace_commands(app, line);
    add_db_commands(app, line);
    add_gateway_commands(app, line);
    add_help_commands(app, line);
    add_internal_commands(app, line);
    app.footer(examples);  // after the commands, which would inherit it
    add_plugin_commands(app, line, more);
}

}  // namespace cubepi::app
