#include "add_commands.hpp"

#include <CLI/CLI.hpp>

#include "shared_options.hpp"

namespace cubepi::app {

namespace {

constexpr const char* gateway_examples = R"(Examples:
  cubepi gateway                            serve the channels of the configuration file
  cubepi gateway --enable-channel http      only this one
  cubepi gateway status                     of the running gateway
  cubepi gateway held                       messages and answers that wait for your decision
  cubepi gateway install                    as a service of systemd

SIGTERM waits for running turns, SIGHUP reloads the configuration.)";

}  // namespace

void add_gateway_commands(CLI::App& app, CommandLine& line) {
    using What = GatewayArguments::What;
    GatewayArguments& gateway = line.gateway;
    CLI::App* command =
        app.add_subcommand("gateway", "Serve chat services: Telegram, HTTP, channels of plugins");
    command->footer(gateway_examples);
    command->require_subcommand(0, 1);
    command
        ->add_option("--enable-channel", gateway.channels,
                     "Only this channel (repeatable; default: those of the configuration)")
        ->type_name("CHANNEL")
        ->allow_extra_args(false);
    add_model_flags(*command, line.conversation.model);
    add_log_flags(*command, line.log);
    add_db_option(*command, line.database);
    command->callback([&line] { line.verb = Verb::gateway; });
    const auto add = [&](const char* name, const char* description, What what) -> CLI::App& {
        CLI::App* added = command->add_subcommand(name, description);
        added->footer("");
        added->callback([&gateway, what] { gateway.what = what; });
        return *added;
    };
    const auto add_list = [&](const char* name, const char* description, What what) {
        add(name, description, what).add_flag("--json", gateway.json, "Print a JSON object");
    };
    const auto add_decision = [&](const char* name, const char* description, What what) {
        add(name, description, what)
            .add_option("id", gateway.id, "The id that 'cubepi gateway held' shows")
            ->required()
            ->type_name("ID");
    };
    add_list("status", "Show the state of the running gateway", What::status);
    add_list("sessions", "List the sessions with a running turn or waiting messages",
             What::sessions);
    add_list("held", "List the messages and answers that wait for your decision", What::held);
    add_decision("release", "Send a held answer, or process a held message", What::release);
    add_decision("discard", "Discard a held message or answer", What::discard);
    add("reload", "Use the changed configuration file", What::reload);
    add("drain", "End the gateway when its running turns have ended", What::drain);
    add("install", "Install the gateway as a service of systemd", What::install);
    add("uninstall", "Remove the service", What::uninstall);
}

}  // namespace cubepi::app
