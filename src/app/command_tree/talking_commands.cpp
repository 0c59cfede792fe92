#include "add_commands.hpp"

#include <CLI/CLI.hpp>

#include "shared_options.hpp"

namespace cubepi::app {

namespace {

constexpr const char* run_examples = R"(Examples:
  cubepi run "what does this project do?"
  cubepi run --yes "run the tests and fix what fails"    tools act without asking
  cat build.log | cubepi run "what failed?"              standard input is added to the prompt
  cubepi run --json "hi" | jq -r .type                   events (format: man cubepi)
  cubepi run --session plan "and after that?"            in a saved session)";

constexpr const char* chat_examples = R"(Examples:
  cubepi chat
  cubepi chat "explain this project"   with the first prompt
  cubepi chat --session plan           start or resume a session by name
  cubepi chat --continue               resume the last session of this directory
  cubepi chat --no-save                do not save the session
  cubepi chat --base-url http://localhost:11434/v1 --model llama3.2
  cubepi chat --offline                try it out: no network, no key

A chat is saved under a name made from its first prompt; 'cubepi sessions list' shows the names.)";

void add_conversation_flags(CLI::App& command, ConversationFlags& flags) {
    add_model_flags(command, flags.model);
    add_session_option(command, flags.session, "Save the session under this name, or resume it");
    command.add_flag("-c,--continue", flags.continue_last,
                     "Resume the last session of this directory");
    command.add_flag("-y,--yes", flags.yes,
                     "Let tools write, run commands and use the network without asking");
    command.add_flag("--no-tools", flags.no_tools, "Give the model no tools");
    command.add_option("--system", flags.system_prompt, "Replace the system prompt")
        ->type_name("TEXT");
    command.add_option("--max-turns", flags.max_turns, "Maximum number of model calls per prompt")
        ->type_name("NUMBER")
        ->check(positive_number());
}

}  // namespace

void add_talking_commands(CLI::App& app, CommandLine& line) {
    CLI::App* run = app.add_subcommand("run", "Answer one prompt and exit");
    add_conversation_flags(*run, line.conversation);
    add_log_flags(*run, line.log);
    add_db_option(*run, line.database);
    run->add_flag("--json", line.conversation.json, "Print the events, one JSON object per line");
    run->add_flag("--no-save", line.conversation.no_save,
                  "Without a terminal, refuse calls that need approval instead of saving the run");
    run->add_option("--max-input", line.input_limit, "Maximum size of standard input in MiB")
        ->type_name("MIB")
        ->check(positive_number())
        ->capture_default_str();
    run->add_option("prompt", line.words, "The prompt; standard input is added if it is a pipe")
        ->type_name("");
    run->footer(run_examples);
    run->callback([&line] { line.verb = Verb::run; });

    CLI::App* chat = app.add_subcommand(
        "chat", "Chat with an agent that has tools for the files of this directory");
    add_conversation_flags(*chat, line.conversation);
    add_log_flags(*chat, line.log);
    add_db_option(*chat, line.database);
    chat->add_flag("--no-save", line.conversation.no_save,
                   "Do not save the session; it ends with the program");
    chat->add_option("prompt", line.words, "The first prompt")->type_name("");
    chat->footer(chat_examples);
    chat->callback([&line] { line.verb = Verb::chat; });

    CLI::App* demo = app.add_subcommand("demo", "A guided tour of about a minute, offline");
    demo->add_flag("--fast", line.fast, "Without pauses");
    demo->callback([&line] { line.verb = Verb::demo; });
}

}  // namespace cubepi::app
