#include "command_line.hpp"

#include <iostream>

#include <CLI/CLI.hpp>

#include "exit_code.hpp"
#include "terminal/style.hpp"
#include "version.hpp"

namespace cubepi::app {

namespace {

constexpr const char* examples = R"(Examples:
  cubepi demo                                 a guided tour, offline, no key needed
  cubepi onboard                              choose a model and say it once, step by step
  cubepi chat                                 talk about the files of this folder
  cubepi run "what does this project do?"     one answer, then exit
  cat build.log | cubepi run "what failed?"   standard input goes with the prompt
  cubepi run --json "hi" | jq .type           the events, one JSON object a line
  cubepi chat --session plan                  a conversation that is kept
  cubepi chat --continue                      the last one, again
  cubepi models --provider anthropic          what an endpoint offers
  cubepi tape search "migration"              what was said about it, in this folder's last session
  cubepi doctor                               what is configured, what is reachable

Models: --model (also provider/model), --provider and --base-url, or OPENAI_API_KEY, ANTHROPIC_API_KEY,
OPENROUTER_API_KEY, or ~/.config/cubepi/config.yaml (cubepi onboard writes it), or a server on this machine (Ollama,
llama.cpp, vLLM, LM Studio). --offline is a scripted model that needs none of them.

Exit status: 0 done, 1 failed, 2 wrong usage, 3 no model, 4 sessions unreadable,
5 limit reached, 130 aborted, 141 nobody reads the output. Flags of a command: cubepi run --help)";

constexpr const char* run_examples = R"(Examples:
  cubepi run "what does this project do?"
  cubepi run --yes "run the tests and mend what fails"   tools act without asking
  cat build.log | cubepi run "what failed?"              standard input goes with the prompt
  cubepi run --json "hi" | jq -r .type                   events (docs/schema/agent-event.schema.json)
  cubepi run --session plan "and after that?"            a conversation that is kept)";

constexpr const char* chat_examples = R"(Examples:
  cubepi chat
  cubepi chat --session plan        a conversation that is kept
  cubepi chat --continue            the last one of this folder, again
  cubepi chat --base-url http://localhost:11434/v1 --model llama3.2
  cubepi chat --offline             to look around: no network, no key)";

constexpr const char* onboard_examples = R"(Examples:
  cubepi onboard                                                         asks step by step
  cubepi onboard --provider anthropic --model claude-sonnet-4-5 --yes    the key is in ANTHROPIC_API_KEY
  cubepi onboard --base-url http://box:8000/v1 --model house --key-stdin --yes < key.txt)";

constexpr const char* models_examples = R"(Examples:
  cubepi models                                       of the provider that is configured
  cubepi models --provider anthropic opus             whose names have this word
  cubepi models --base-url http://localhost:11434/v1)";

constexpr const char* tape_examples = R"(Examples:
  cubepi tape list
  cubepi tape show -n 50 --session plan
  cubepi tape search "migration" --from 2026-03-01 --kind message
  cubepi tape export --messages             what a model would get now)";

constexpr const char* completion_examples = R"(Examples:
  source <(cubepi completion bash)          in ~/.bashrc; zsh: in ~/.zshrc, behind compinit
  cubepi completion fish > ~/.config/fish/completions/cubepi.fish)";

/// The whole number above 0 that an option wants.
CLI::Validator above_zero() {
    CLI::Validator check;
    check.name("");
    check.operation([](std::string& text) -> std::string {
        const bool number = !text.empty() && text.size() < 10 &&
                            text.find_first_not_of("0123456789") == std::string::npos &&
                            text.find_first_not_of('0') != std::string::npos;
        return number ? std::string() : "'" + text + "' is no number above 0";
    });
    return check;
}

void add_endpoint_flags(CLI::App& command, ModelFlags& flags) {
    command.add_option("--provider", flags.provider,
                       "openai, openai-responses, anthropic, openrouter, ollama, ..., or one of "
                       "the configuration");
    command.add_option("--base-url", flags.base_url,
                       "Server of the provider (OpenAI-compatible when none is named), e.g. "
                       "http://localhost:11434/v1");
}

/// An empty one is a variable of a script that is not set: without a name nothing would be kept.
std::string is_a_name(const std::string& text) {
    return text.empty() ? "a session needs a name" : std::string();
}

void add_model_flags(CLI::App& command, ModelFlags& flags) {
    command.add_option("-m,--model", flags.model,
                       "Model id, e.g. gpt-5.1 or anthropic/claude-sonnet-4-5");
    add_endpoint_flags(command, flags);
    command.add_flag("--offline", flags.offline, "Use the scripted model: no network, no key");
    command.add_option("--script", flags.script,
                       "Answers of the offline model, a JSON file (docs/cli.md)");
}

void add_conversation_flags(CLI::App& command, ConversationFlags& flags) {
    add_model_flags(command, flags.model);
    command.add_option("-s,--session", flags.session, "Keep the conversation under this name")
        ->check(is_a_name);
    command.add_flag("-c,--continue", flags.continue_last, "Go on with this folder's last session");
    command.add_flag("-y,--yes", flags.yes,
                     "Let tools write, run commands and use the network without asking");
    command.add_flag("--no-tools", flags.no_tools, "Give the model no tools");
    command.add_option("--system", flags.system_prompt, "Replace the system prompt");
    command.add_option("--max-turns", flags.max_turns, "Model calls of one prompt at most")
        ->type_name("NUMBER")
        ->check(above_zero());
}

void add_tape_choice(CLI::App& command, TapeArguments& tape) {
    command.add_option("-t,--tape", tape.tape,
                       "The tape's name, or how it begins (default: the newest of this folder)");
    command.add_option("-s,--session", tape.session, "The tape of this session of this folder");
}

void add_tape_filter(CLI::App& command, TapeArguments& tape) {
    command
        .add_option("-k,--kind", tape.kinds,
                    "Only entries of this kind (repeat it for more): message, tool_call, "
                    "tool_result, anchor, event")
        ->type_name("KIND")
        ->allow_extra_args(false);  // else it would take what stands behind it
    command.add_option("--from", tape.from, "Not before this date, e.g. 2026-03-01");
    command.add_option("--to", tape.to, "Not after this date");
}

void add_tape_output(CLI::App& command, TapeArguments& tape, bool as_lines) {
    command.add_option("-n,--limit", tape.limit, "How many at most, 0 for all")
        ->capture_default_str();
    if (as_lines) command.add_flag("--json", tape.json, "Print entries as they are on the tape");
}

void add_tape_commands(CLI::App& app, TapeArguments& tape) {
    using What = TapeArguments::What;
    CLI::App* command = app.add_subcommand("tape", "Look at what sessions have recorded");
    command->footer(tape_examples);
    command->require_subcommand(1);
    command->add_option("--dir", tape.directory, "Where the tapes are (default: ~/.bub/tapes)");
    const auto add = [&](const char* name, const char* description, What what) -> CLI::App& {
        CLI::App* added = command->add_subcommand(name, description);
        added->footer("");
        added->fallthrough();  // --dir stands behind them as well
        added->callback([&tape, what] { tape.what = what; });
        return *added;
    };
    add_tape_output(add("list", "List tapes, newest first", What::list), tape, false);
    CLI::App& show = add("show", "Show the last entries", What::show);
    add_tape_choice(show, tape);
    add_tape_filter(show, tape);
    add_tape_output(show, tape, true);
    CLI::App& search = add("search", "Search the text of entries", What::search);
    add_tape_choice(search, tape);
    add_tape_filter(search, tape);
    add_tape_output(search, tape, true);
    search.add_option("text", tape.text, "The text; near finds come after exact ones")->required();
    CLI::App& anchors = add("anchors", "List the anchors", What::anchors);
    add_tape_choice(anchors, tape);
    add_tape_output(anchors, tape, true);
    CLI::App& exports =
        add("export", "Write all entries of a tape as JSON lines", What::export_lines);
    add_tape_choice(exports, tape);
    add_tape_filter(exports, tape);
    exports.add_flag("--messages", tape.messages, "Write the messages that a model would get");
    exports.add_option("file", tape.output, "The file; standard output when there is none");
}

void add_talking_commands(CLI::App& app, CommandLine& line) {
    CLI::App* run = app.add_subcommand("run", "Answer one prompt and exit");
    add_conversation_flags(*run, line.conversation);
    run->add_flag("--json", line.conversation.json, "Print the events, one JSON object a line");
    run->add_option("prompt", line.words, "The prompt; standard input is added when it is a pipe");
    run->footer(run_examples);
    run->callback([&line] { line.verb = Verb::run; });

    CLI::App* chat =
        app.add_subcommand("chat", "Talk with an agent that has the tools of this folder");
    add_conversation_flags(*chat, line.conversation);
    chat->footer(chat_examples);
    chat->callback([&line] { line.verb = Verb::chat; });

    CLI::App* demo = app.add_subcommand("demo", "A guided tour of about a minute, offline");
    demo->add_flag("--fast", line.fast, "Without the pauses");
    demo->callback([&line] { line.verb = Verb::demo; });
}

void add_set_up_commands(CLI::App& app, CommandLine& line) {
    CLI::App* onboard =
        app.add_subcommand("onboard", "Choose provider, key and model, and keep the choice");
    ModelFlags& flags = line.conversation.model;
    add_endpoint_flags(*onboard, flags);
    onboard->add_option("-m,--model", flags.model, "Model id");
    onboard->add_flag("--key-stdin", line.key_from_input,
                      "Read the key from standard input (it has no flag: others would see it)");
    onboard->add_flag("-y,--yes", line.conversation.yes,
                      "Ask nothing: take the flags, and the usual for the rest");
    onboard->footer(onboard_examples);
    onboard->callback([&line] { line.verb = Verb::onboard; });

    CLI::App* models = app.add_subcommand("models", "List the models that an endpoint offers");
    add_endpoint_flags(*models, flags);
    models->add_flag("--json", line.conversation.json, "Print a JSON array");
    models->add_option("words", line.words, "Only models with all these words in their names");
    models->footer(models_examples);
    models->callback([&line] { line.verb = Verb::models; });

    app.add_subcommand("doctor",
                       "Say what is configured and reachable, and what to do about what is not")
        ->callback([&line] { line.verb = Verb::doctor; });
    app.add_subcommand("hooks", "Show what each plugin implements, and which are broken")
        ->callback([&line] { line.verb = Verb::hooks; });

    CLI::App* completion =
        app.add_subcommand("completion", "Print a completion script: bash, zsh or fish");
    completion->add_option("shell", line.words, "bash, zsh or fish")
        ->required()
        ->type_name("SHELL")
        ->expected(1);
    completion->footer(completion_examples);
    completion->callback([&line] { line.verb = Verb::completion; });
}

void add_session_commands(CLI::App& app, CommandLine& line) {
    CLI::App* sessions = app.add_subcommand("sessions", "List or delete kept conversations");
    sessions->require_subcommand(1);
    CLI::App* list = sessions->add_subcommand("list", "List those of this folder, newest first");
    list->add_flag("--all", line.all, "Those of all folders, with the folder");
    list->callback([&line] { line.verb = Verb::sessions_list; });
    CLI::App* remove = sessions->add_subcommand("delete", "Delete one for good");
    remove->add_option("name", line.words, "The session's name")
        ->required()
        ->type_name("NAME")
        ->expected(1);
    remove->callback([&line] { line.verb = Verb::sessions_delete; });
}

/// What the demo starts itself with.
void add_demo_step(CLI::App& app, CommandLine& line) {
    CLI::App* step = app.add_subcommand("demo-step", "")->group("");
    step->add_option("--tapes", line.demo_tapes);
    step->add_option("--folder", line.demo_folder);
    step->add_flag("--fast", line.fast);
    step->add_option("step", line.words);
    step->callback([&line] { line.verb = Verb::demo_step; });
}

void add_own_commands(CLI::App& app, CommandLine& line) {
    add_talking_commands(app, line);
    add_set_up_commands(app, line);
    add_session_commands(app, line);
    add_tape_commands(app, line.tape);
    app.get_subcommand("tape")->callback([&line] { line.verb = Verb::tape; });
    add_demo_step(app, line);
}

void add_plugin_commands(CLI::App& app, CommandLine& line,
                         const std::vector<bub::CliCommand>& commands) {
    for (const bub::CliCommand& command : commands) {
        CLI::App* added = app.add_subcommand(command.name, command.description);
        added->set_help_flag();  // also what looks like a flag is the plugin's
        added->prefix_command();
        added->group("Commands of plugins");
        added->callback([&line, added] {
            line.verb = Verb::plugin;
            line.plugin_command = added->get_name();
            line.words = added->remaining();
        });
    }
}

/// The command that was understood, with a blank before each of its words; empty: none.
std::string command_of(const CLI::App& app) {
    std::string names;
    const CLI::App* last = &app;
    while (!last->get_subcommands().empty()) {
        last = last->get_subcommands().front();
        names += " " + last->get_name();
    }
    return names;
}

}  // namespace

CommandLine parse_command_line(int argc, char** argv, const std::vector<bub::CliCommand>& more) {
    CommandLine line;
    CLI::App app("An agent at your terminal, and the runtime behind it.", "cubepi");
    app.set_version_flag("--version", version_text());
    app.require_subcommand(0, 1);
    add_own_commands(app, line);
    app.footer(examples);  // after them, who would inherit it
    add_plugin_commands(app, line, more);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == 0) {
            line.exit_code = app.exit(error);
        } else {
            const std::string command = command_of(app);
            const bool unknown =
                command.empty() &&
                error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError) &&
                argc > 1 && argv[1][0] != '-';
            if (unknown) {
                std::cerr << "cubepi: there is no command '" << printable(argv[1])
                          << "'.\nRun 'cubepi --help' for those that there are.\n";
            } else {
                std::cerr << "cubepi: " << printable(error.what()) << "\nRun 'cubepi" << command
                          << " --help' for the flags and some examples.\n";
            }
            line.exit_code = exit_usage;
        }
        return line;
    }
    if (line.verb == Verb::none) {
        std::cout << app.help();
        line.exit_code = exit_ok;
    }
    return line;
}

std::vector<std::string> own_command_names() {
    CommandLine line;
    CLI::App app;
    add_own_commands(app, line);
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
        names.push_back(command->get_name());
    return names;
}

}  // namespace cubepi::app
