#include "add_commands.hpp"

#include <CLI/CLI.hpp>

#include "shared_options.hpp"

namespace cubepi::app {

namespace {

constexpr const char* onboard_examples = R"(Examples:
  cubepi onboard                                                         asks step by step
  cubepi onboard --provider anthropic --model claude-sonnet-4-5 --yes    the key is in ANTHROPIC_API_KEY
  cubepi onboard --base-url http://box:8000/v1 --model my-model --key-stdin --yes < key.txt
  cubepi onboard telegram                                                a bot for the gateway)";

constexpr const char* models_examples = R"(Examples:
  cubepi models                                       of the configured provider
  cubepi models --provider anthropic opus             whose names contain this word
  cubepi models --base-url http://localhost:11434/v1)";

}  // namespace

void add_set_up_commands(CLI::App& app, CommandLine& line) {
    CLI::App* onboard =
        app.add_subcommand("onboard", "Choose provider, key and model, and save the choice");
    ModelFlags& flags = line.conversation.model;
    add_endpoint_flags(*onboard, flags);
    onboard->add_option("-m,--model", flags.model, "Model id")->type_name(value_type::model);
    onboard->add_flag("--key-stdin", line.key_from_input,
                      "Read the key from standard input (other users can see command lines)");
    onboard->add_flag("-y,--yes", line.conversation.yes,
                      "Non-interactive: use the flags, and defaults for the rest");
    onboard->footer(onboard_examples);
    onboard->callback([&line] { line.verb = Verb::onboard; });
    onboard->require_subcommand(0, 1);
    CLI::App* telegram = onboard->add_subcommand(
        "telegram", "Set up the gateway's channel telegram: bot token and first user");
    telegram->footer("");
    telegram->callback([&line] { line.onboards_telegram = true; });

    CLI::App* models = app.add_subcommand("models", "List the models that an endpoint offers");
    add_endpoint_flags(*models, flags);
    models->add_flag("--json", line.conversation.json, "Print a JSON array");
    models->add_option("words", line.words, "Only models whose names contain all these words")
        ->type_name("");
    models->footer(models_examples);
    models->callback([&line] { line.verb = Verb::models; });

    CLI::App* doctor =
        app.add_subcommand("doctor", "Check the configuration and what is reachable");
    add_db_option(*doctor, line.database);
    doctor->callback([&line] { line.verb = Verb::doctor; });
    app.add_subcommand("hooks", "Show what each plugin implements, and which plugins failed")
        ->callback([&line] { line.verb = Verb::hooks; });
}

}  // namespace cubepi::app
