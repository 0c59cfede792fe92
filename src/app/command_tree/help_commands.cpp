#include "add_commands.hpp"

#include <CLI/CLI.hpp>

namespace cubepi::app {

namespace {

constexpr const char* completion_examples = R"(Examples:
  source <(cubepi completion bash)          in ~/.bashrc; zsh: in ~/.zshrc, after compinit
  cubepi completion fish > ~/.config/fish/completions/cubepi.fish)";

}  // namespace

void add_help_commands(CLI::App& app, CommandLine& line) {
    CLI::App* completion =
        app.add_subcommand("completion", "Print a completion script for bash, zsh or fish");
    completion->add_option("shell", line.words, "bash, zsh or fish")
        ->required()
        ->type_name(value_type::shell)
        ->expected(1);
    completion->footer(completion_examples);
    completion->callback([&line] { line.verb = Verb::completion; });

    // parse_command_line() turns `help COMMAND` into `COMMAND --help`; this is its entry in the list.
    CLI::App* help = app.add_subcommand("help", "Show the help of a command");
    help->footer("");
    help->add_option("command", line.words, "The command, e.g. tape show")
        ->type_name(value_type::command);
}

void add_internal_commands(CLI::App& app, CommandLine& line) {
    CLI::App* step = app.add_subcommand("demo-step", "")->group("");
    step->add_option("--tapes", line.demo_tapes);
    step->add_option("--directory", line.demo_directory);
    step->add_flag("--fast", line.fast);
    step->add_option("step", line.words);
    step->callback([&line] { line.verb = Verb::demo_step; });

    app.add_subcommand("__man", "")->group("")->callback([&line] { line.verb = Verb::man_page; });
}

}  // namespace cubepi::app
