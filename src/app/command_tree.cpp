#include "command_tree.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "channels/channel_kinds.hpp"
#include "config/provider_kinds.hpp"
#include "config/store_locations.hpp"
#include "process.hpp"

namespace cubepi::app {

namespace {

std::string provider_names() {
    std::string names;
    for (const KnownProvider& known : known_providers()) {
        names += (names.empty() ? "" : ", ") + std::string(known.name);
        if (known.local) break;
    }
    return names + ", ...";
}

/// --provider, --base-url and --api-key-env.
void add_endpoint_flags(CLI::App& command, ModelFlags& flags) {
    const std::string providers = provider_names() + ", or one of the configuration";
    option(command, "--provider", flags.provider, providers.c_str(), value_type::provider);
    option(command, "--base-url", flags.base_url,
           "Server of the provider (OpenAI-compatible if none is named), e.g. "
           "http://localhost:11434/v1",
           "URL");
    option(command, "--api-key-env", flags.api_key_env,
           "Environment variable that has the key for that server", "NAME");
}

/// --model, those of the endpoint, --offline and --script.
void add_model_flags(CLI::App& command, ModelFlags& flags) {
    option(command, "-m,--model", flags.model,
           "Model id, e.g. gpt-5.1 or anthropic/claude-sonnet-4-5", value_type::model);
    add_endpoint_flags(command, flags);
    command.add_flag("--offline", flags.offline, "Use the scripted model: no network, no key");
    option(command, "--script", flags.script,
           "Answers of the offline model, a JSON file (format: man cubepi)", value_type::file);
}

void add_session_option(CLI::App& command, std::string& session, const char* description) {
    option(command, "-s,--session", session, description, value_type::session);
}

void add_log_flags(CLI::App& command, LogFlags& flags) {
    option(command, "--log-level", flags.level,
           "Write a log to standard error: debug, info, warning, error (or CUBEPI_LOG)", "LEVEL");
    option(command, "--log-format", flags.format, "Format of the log: text or json", "FORMAT");
}

CLI::Validator not_empty() {
    CLI::Validator check;
    check.name("");
    check.operation(
        [](std::string& text) -> std::string { return text.empty() ? "it is empty" : ""; });
    return check;
}

/// A sum of money.
CLI::Validator positive_amount() {
    CLI::Validator check;
    check.name("");
    check.operation([](std::string& text) -> std::string {
        double amount = 0;
        const char* const end = text.data() + text.size();
        const auto parsed = std::from_chars(text.data(), end, amount, std::chars_format::fixed);
        const bool is_amount =
            parsed.ec == std::errc() && parsed.ptr == end && amount > 0 && std::isfinite(amount);
        return is_amount ? std::string() : "'" + text + "' is not a positive amount, such as 0.50";
    });
    return check;
}

CLI::Validator one_of(std::vector<std::string> names) {
    CLI::Validator check;
    check.name("");
    check.operation([names = std::move(names)](std::string& text) -> std::string {
        if (std::find(names.begin(), names.end(), text) != names.end()) return {};
        std::string list;
        for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
        return "'" + text + "' is not one of " + list;
    });
    return check;
}

void add_agent_flags(CLI::App& command, ConversationFlags& flags);

void add_conversation_flags(CLI::App& command, ConversationFlags& flags) {
    add_model_flags(command, flags.model);
    add_session_option(command, flags.session, "Save the session under this name, or resume it");
    command.add_flag("-c,--continue", flags.continue_last,
                     "Resume the last session of this directory");
    add_agent_flags(command, flags);
}

void add_agent_flags(CLI::App& command, ConversationFlags& flags) {
    command.add_flag("-y,--yes", flags.yes,
                     "Let tools write, run commands and use the network without asking");
    option(command, "--sandbox", flags.sandbox,
           "Commands may write in the workspace, nowhere (read-only) or everywhere (off)", "MODE")
        ->check(one_of({"off", "workspace", "read-only"}));
    command.add_flag("--trust", flags.trust,
                     "Load instructions, skills and settings of this directory, for this run");
    command.add_flag("--no-tools", flags.no_tools, "Give the model no tools");
    option(command, "--system", flags.system_prompt, "Replace the system prompt", "TEXT");
    option(command, "--max-turns", flags.max_turns, "Maximum number of model calls per prompt",
           "NUMBER")
        ->check(positive_number());
    option(command, "--max-cost", flags.max_cost, "Maximum cost per prompt in US dollars", "USD")
        ->check(positive_amount());
}

void add_directory_option(CLI::App& command, std::string& directory) {
    option(command, "-C,--directory", directory, "Work in this directory", value_type::directory);
}

void add_work_tree_option(CLI::App& command, std::string& name) {
    option(command, "-w,--worktree", name,
           "Work in a git work tree and branch of this name, created next to the repository",
           "NAME");
}

void add_more_directories_option(CLI::App& command, ConversationFlags& flags) {
    option(command, "--add-dir", flags.more_directories,
           "The file tools may also read and write in this directory (repeatable)",
           value_type::directory)
        ->allow_extra_args(false);
}

constexpr const char* acp_examples = R"(Example, for the configuration of an editor:
  command "cubepi", arguments "acp"

A session works in the directory that the editor names. Approvals, modes and models are shown by the editor; rules, the sandbox,
hooks, limits and traces are those of the configuration. Sessions are saved: cubepi resume lists them, too.)";

void add_acp_command(CLI::App& app, CommandLine& line) {
    CLI::App* command =
        add_command(app, line, Verb::acp, "acp",
                    "Be the agent of an editor (Agent Client Protocol)", acp_examples);
    add_model_flags(*command, line.conversation.model);
    add_agent_flags(*command, line.conversation);
    add_log_flags(*command, line.log);
    option(*command, "--protocol", line.protocol,
           "Newest version of the protocol: 1 (default), or 2, a draft", "VERSION")
        ->check(one_of({"1", "2"}));
}

constexpr const char* run_examples = R"(Examples:
  cubepi run "what does this project do?"
  cubepi run --yes "run the tests and fix what fails"    tools act without asking
  cat build.log | cubepi run "what failed?"              standard input is added to the prompt
  cubepi run --json "hi" | jq -r .type                   events (format: man cubepi)
  cubepi run --output-format json "hi" | jq .cost        one object at the end
  cubepi run --output-schema s.json -o answer.json "..." an answer in this form, in a file
  cubepi run --session plan "and after that?"            in a saved session)";

constexpr const char* chat_examples = R"(Examples:
  cubepi chat
  cubepi chat "explain this project"   with the first prompt
  cubepi chat --session plan           start or resume a session by name
  cubepi chat --continue               resume the last session of this directory
  cubepi chat --no-save                do not save the session
  cubepi -w fix-login                  in a git work tree and branch of its own
  cubepi chat --base-url http://localhost:11434/v1 --model llama3.2
  cubepi chat --offline                try it out: no network, no key

A chat is saved under a name made from its first prompt; 'cubepi sessions list' shows the names.)";

void add_image_option(CLI::App& command, std::vector<std::string>& images, const char* help) {
    option(command, "--image", images, help, value_type::file)->allow_extra_args(false);
}

/// Adds the options of `run` about its input and output.
void add_run_forms(CLI::App& run, RunArguments& arguments) {
    using Output = RunArguments::Output;
    run.add_option_function<std::string>(
           "--output-format",
           [&arguments](const std::string& form) {
               arguments.output = form == "json"          ? Output::json
                                  : form == "stream-json" ? Output::stream_json
                                                          : Output::text;
           },
           "text: the answer; json: one object at the end; stream-json: one event per line")
        ->type_name("FORMAT")
        ->check(one_of({"text", "json", "stream-json"}));
    run.add_flag_callback(
        "--json", [&arguments] { arguments.output = Output::stream_json; },
        "Print the events, one JSON object per line: --output-format stream-json");
    run.add_option_function<std::string>(
           "--input-format",
           [&arguments](const std::string& form) { arguments.json_input = form != "text"; },
           "text, or stream-json: each line of standard input is a message")
        ->type_name("FORMAT")
        ->check(one_of({"text", "stream-json"}));
    add_image_option(run, arguments.images, "Send this picture with the prompt (repeatable)");
    option(run, "-o,--output", arguments.answer_file, "Write the answer to this file, too",
           value_type::file);
    option(run, "--output-schema", arguments.schema_file,
           "The answer is a JSON value of this form (a JSON Schema); calls that need approval are "
           "refused",
           value_type::file);
}

void add_talking_commands(CLI::App& app, CommandLine& line) {
    CLI::App* run =
        add_command(app, line, Verb::run, "run", "Answer one prompt and exit", run_examples);
    add_conversation_flags(*run, line.conversation);
    add_directory_option(*run, line.conversation.directory);
    add_work_tree_option(*run, line.conversation.work_tree);
    add_more_directories_option(*run, line.conversation);
    add_log_flags(*run, line.log);
    add_db_option(*run, line.database);
    add_run_forms(*run, line.run);
    run->add_flag("--no-save", line.conversation.no_save,
                  "Save nothing; without a terminal, refuse calls that need approval");
    option(*run, "--max-input", line.run.input_limit, "Maximum size of standard input in MiB",
           "MIB")
        ->check(positive_number())
        ->capture_default_str();
    option(*run, "prompt", line.words, "The prompt; standard input is added if it is a pipe", "");

    CLI::App* chat = add_command(
        app, line, Verb::chat, "chat",
        "Chat with an agent that has tools for the files of this directory", chat_examples);
    add_conversation_flags(*chat, line.conversation);
    add_directory_option(*chat, line.conversation.directory);
    add_work_tree_option(*chat, line.conversation.work_tree);
    add_more_directories_option(*chat, line.conversation);
    add_log_flags(*chat, line.log);
    add_db_option(*chat, line.database);
    add_image_option(*chat, line.run.images,
                     "Send this picture with the first prompt (repeatable)");
    chat->add_flag("--no-save", line.conversation.no_save,
                   "Do not save the session; it ends with the program");
    option(*chat, "prompt", line.words, "The first prompt", "");

    CLI::App* demo =
        add_command(app, line, Verb::demo, "demo", "A guided tour of about a minute, offline");
    demo->add_flag("--fast", line.fast, "Without pauses");
}

constexpr const char* onboard_examples = R"(Examples:
  cubepi onboard                                                         asks step by step
  cubepi onboard --provider anthropic --model claude-sonnet-4-5 --yes    the key is in ANTHROPIC_API_KEY
  cubepi onboard --base-url http://box:8000/v1 --model my-model --key-stdin --yes < key.txt)";

constexpr const char* models_examples = R"(Examples:
  cubepi models                                       of the configured provider
  cubepi models --provider anthropic opus             whose names contain this word
  cubepi models --base-url http://localhost:11434/v1)";

void add_set_up_commands(CLI::App& app, CommandLine& line) {
    CLI::App* onboard =
        add_command(app, line, Verb::onboard, "onboard",
                    "Choose provider, key and model, and save the choice", onboard_examples);
    ModelFlags& flags = line.conversation.model;
    add_endpoint_flags(*onboard, flags);
    option(*onboard, "-m,--model", flags.model, "Model id", value_type::model);
    onboard->add_flag("--key-stdin", line.key_from_input,
                      "Read the key from standard input (other users can see command lines)");
    onboard->add_flag("-y,--yes", line.conversation.yes,
                      "Non-interactive: use the flags, and defaults for the rest");
    onboard->require_subcommand(0, 1);
    for (const ChannelKind* kind : channel_kinds()) {
        if (!kind->onboard) continue;
        CLI::App* channel =
            onboard->add_subcommand(std::string(kind->name), std::string(kind->onboarding));
        channel->footer("");
        channel->callback([&line, kind] { line.channel = kind->name; });
    }

    CLI::App* models = add_command(app, line, Verb::models, "models",
                                   "List the models that an endpoint offers", models_examples);
    add_endpoint_flags(*models, flags);
    models->add_flag("--json", line.conversation.json, "Print a JSON array");
    option(*models, "words", line.words, "Only models whose names contain all these words", "");

    CLI::App* doctor = add_command(app, line, Verb::doctor, "doctor",
                                   "Check the configuration and what is reachable");
    add_db_option(*doctor, line.database);
    doctor->add_flag("--offline", line.conversation.model.offline,
                     "Check what needs no network: configuration, files, gateway, terminal");
    app.add_subcommand("hooks", "Show what each plugin implements, and which plugins failed")
        ->callback([&line] { line.verb = Verb::hooks; });
}

constexpr const char* sessions_examples = R"(Examples:
  cubepi sessions list
  cubepi sessions list --json | jq -r '.[].name'      for scripts
  cubepi sessions show plan                           its last messages
  cubepi sessions rename plan "Plan of the release"
  cubepi sessions export plan --html plan.html        one file, for a browser
  cubepi sessions delete plan)";

void add_session_commands(CLI::App& app, CommandLine& line) {
    using What = SessionsArguments::What;
    SessionsArguments& arguments = line.sessions;
    CLI::App* sessions =
        add_command(app, line, Verb::sessions, "sessions",
                    "List, show, rename, export or delete saved sessions", sessions_examples);
    sessions->require_subcommand(1);
    add_db_option(*sessions, line.database);
    add_directory_option(*sessions, line.conversation.directory);
    const auto add = [&](const char* name, const char* description, What what) -> CLI::App& {
        CLI::App& added = add_action(*sessions, name, description, arguments.what, what);
        added.fallthrough();  // --db may also follow the subcommand
        return added;
    };
    const auto add_one = [&](const char* name, const char* description, What what) -> CLI::App& {
        CLI::App& added = add(name, description, what);
        CLI::Option* named =
            option(added, "name", arguments.name, "The session's name", value_type::session);
        // Without a name the user picks the session.
        named->required(what != What::export_file);
        return added;
    };
    CLI::App& list = add("list", "List the sessions of this directory, newest first", What::list);
    list.add_flag("--all", line.all, "List the sessions of all directories");
    list.add_flag("--json", line.conversation.json, "Print a JSON array");
    CLI::App& show = add_one("show", "Print the messages of a session as Markdown", What::show);
    option(show, "-n,--limit", arguments.limit, "Number of the newest messages, 0 for all",
           "NUMBER")
        ->capture_default_str();
    CLI::App& rename =
        add_one("rename", "Set the title of a session; its name stays", What::rename);
    option(rename, "title", arguments.title, "The title; empty: the first line of the first prompt",
           "TITLE")
        ->required();
    CLI::App& exports = add_one("export", "Write a session to a file", What::export_file);
    option(exports, "--html", arguments.html, "A page for a browser, complete in one file",
           value_type::file);
    option(exports, "--markdown", arguments.markdown, "A text", value_type::file);
    exports.add_flag("-f,--force", arguments.force, "Replace the file if it exists");
    CLI::App& remove = add_one("delete", "Delete a session permanently", What::remove);
    remove.add_flag("-y,--yes", line.conversation.yes, "Do not ask for confirmation");
}

constexpr const char* resume_examples = R"(Examples:
  cubepi resume                 pick a session of this directory
  cubepi resume plan            the session of this name or title
  cubepi resume --all           pick one of any directory, and work in that directory)";

/// `resume` is `chat` with a session that exists.
void add_resume_command(CLI::App& app, CommandLine& line) {
    CLI::App* resume = app.add_subcommand("resume", "Resume a saved session in a chat");
    add_model_flags(*resume, line.conversation.model);
    add_directory_option(*resume, line.conversation.directory);
    add_work_tree_option(*resume, line.conversation.work_tree);
    add_log_flags(*resume, line.log);
    add_db_option(*resume, line.database);
    resume->add_flag("--all", line.all, "Show the sessions of all directories");
    resume->add_flag("-y,--yes", line.conversation.yes,
                     "Let tools write, run commands and use the network without asking");
    option(*resume, "name", line.sessions.name, "Name or title; without it the user picks one",
           value_type::session);
    resume->footer(resume_examples);
    resume->callback([&line] {
        line.verb = Verb::chat;
        line.sessions.resume = true;
    });
}

constexpr const char* inbox_examples = R"(Examples:
  cubepi inbox                              what waits for an answer
  cubepi inbox show call_1
  cubepi inbox approve call_1               and continue the session's turn
  cubepi inbox deny call_1 "not this one"
  cubepi inbox answer 15095c7e teal)";

void add_inbox_commands(CLI::App& app, CommandLine& line) {
    using What = InboxArguments::What;
    CLI::App* inbox =
        add_command(app, line, Verb::inbox, "inbox",
                    "List and answer the questions that wait for an answer", inbox_examples);
    inbox->require_subcommand(0, 1);
    inbox->add_flag("--all", line.all, "List the questions of all directories");
    inbox->add_flag("--json", line.conversation.json, "Print JSON");
    inbox->add_flag("--gateway", line.inbox.gateway, "The questions of the running gateway");
    add_db_option(*inbox, line.database);
    add_directory_option(*inbox, line.conversation.directory);
    const auto add = [&](const char* name, const char* description, What what) -> CLI::App& {
        CLI::App& added = add_action(*inbox, name, description, line.inbox.what, what);
        added.fallthrough();
        return added;
    };
    add("list", "List the questions, oldest first", What::list);
    const auto add_one = [&](const char* name, const char* description, What what) -> CLI::App& {
        CLI::App& added = add(name, description, what);
        option(added, "question", line.inbox.question, "The question's id, or its beginning", "ID")
            ->required()
            ->check(not_empty());
        option(added, "-s,--session", line.inbox.session, "Only questions of this session",
               value_type::session);
        return added;
    };
    add_one("show", "Show a question", What::show);
    // An answer continues the turn, as `run` runs it.
    const auto add_turn = [&](const char* name, const char* description, What what) -> CLI::App& {
        CLI::App& added = add_one(name, description, what);
        add_model_flags(added, line.conversation.model);
        return added;
    };
    add_turn("approve", "Let the tool call run, and continue the turn", What::approve);
    add_turn("deny", "Refuse the tool call, and continue the turn", What::deny)
        .add_option("reason", line.inbox.value, "The reason, for the model")
        ->type_name("TEXT");
    add_turn("answer", "Answer a question, and continue the turn", What::answer)
        .add_option(
            "value", line.inbox.value,
            "The answer; with several questions a line KEY: VALUE for each, or a JSON object "
            "of answers by key")
        ->required()
        ->type_name("TEXT");
    add_turn("cancel", "Withdraw the questions of the session", What::cancel);
}

constexpr const char* gateway_examples = R"(Examples:
  cubepi gateway                            serve the channels of the configuration file
  cubepi gateway --enable-channel http      only this one
  cubepi gateway status                     of the running gateway
  cubepi gateway held                       messages and answers that wait for your decision
  cubepi gateway install                    as a service of systemd

SIGTERM waits for running turns, SIGHUP reloads the configuration.)";

void add_gateway_commands(CLI::App& app, CommandLine& line) {
    using What = GatewayArguments::What;
    GatewayArguments& gateway = line.gateway;
    std::string channels;
    for (const ChannelKind* kind : channel_kinds()) channels += std::string(kind->name) + ", ";
    CLI::App* command =
        add_command(app, line, Verb::gateway, "gateway",
                    "Serve chat services: " + channels + "channels of plugins", gateway_examples);
    command->require_subcommand(0, 1);
    option(*command, "--enable-channel", gateway.channels,
           "Only this channel (repeatable; default: those of the configuration)", "CHANNEL")
        ->allow_extra_args(false);
    add_model_flags(*command, line.conversation.model);
    add_log_flags(*command, line.log);
    add_db_option(*command, line.database);
    const auto add = [&](const char* name, const char* description, What what) -> CLI::App& {
        return add_action(*command, name, description, gateway.what, what);
    };
    const auto add_list = [&](const char* name, const char* description, What what) -> CLI::App& {
        CLI::App& list = add(name, description, what);
        list.add_flag("--json", gateway.json, "Print a JSON object");
        return list;
    };
    const auto add_decision = [&](const char* name, const char* description, What what) {
        add(name, description, what)
            .add_option("id", gateway.id, "The id that 'cubepi gateway held' shows")
            ->required()
            ->type_name("ID");
    };
    add_list("status", "Show the state of the running gateway", What::status);
    add_list("usage", "Show what users and chats have used today of their limits", What::usage)
        .add_option("text", gateway.search, "Only those with this text in their ids")
        ->type_name("TEXT");
    add_list("sessions", "List the sessions with a running turn or waiting messages",
             What::sessions);
    add_list("held", "List the messages and answers that wait for your decision", What::held);
    add_decision("release", "Send a held answer, or process a held message", What::release);
    add_decision("discard", "Discard a held message or answer", What::discard);
    add("stop", "End the turn that runs in a session; to end the gateway itself: drain", What::stop)
        .add_option("session", gateway.id, "The session that 'cubepi gateway sessions' shows")
        ->required()
        ->type_name("SESSION");
    add("reload", "Use the changed configuration file", What::reload);
    CLI::App& drain =
        add("drain", "End the gateway when its running turns have ended", What::drain);
    CLI::Option* const other =
        drain
            .add_option("gateway", gateway.id,
                        "One of several that share their messages: its id or host, as 'cubepi "
                        "gateway status' shows (default: that of this host)")
            ->type_name("GATEWAY");
    drain.add_flag("--all", gateway.all, "All gateways that share the messages")->excludes(other);
    CLI::App& console = add(
        "console", "Print a link that logs a browser in to the web console, once", What::console);
    console.add_flag("--viewer", gateway.viewer, "Without the right to change anything");
    option(console, "--name", gateway.name,
           "Who uses the link, for the log (default: your login name)", "NAME");
    add_list("logins", "List who is logged in to the web console, and links that were not opened",
             What::logins);
    add("logout", "End a login of the web console, or a link that was not opened", What::logout)
        .add_option("id", gateway.id, "The id that 'cubepi gateway logins' shows")
        ->required()
        ->type_name("ID");
    add("import",
        "Copy the sessions, messages and answers of a gateway with files to the configured "
        "database",
        What::import_files);
    add("install", "Install the gateway as a service of systemd", What::install);
    add("uninstall", "Remove the service", What::uninstall);
}

constexpr const char* schedule_examples = R"(Examples:
  cubepi schedule                           what the running gateway sends, when, and to whom
  cubepi schedule cancel 4f1d0c2b9a
  cubepi schedule add --channel telegram --chat 42 --cron "0 9 * * 1-5" --zone Europe/Berlin "Plan my day"
  cubepi schedule add --channel telegram --chat 42 --at +20m "Check the build"

The agent of a chat adds its own with the tool 'schedule'; those of the configuration file are in gateway.schedule.)";

void add_schedule_commands(CLI::App& app, CommandLine& line) {
    using What = ScheduleCommandArguments::What;
    ScheduleCommandArguments& schedule = line.schedule;
    CLI::App* command =
        add_command(app, line, Verb::schedule, "schedule",
                    "List, add and cancel the schedules of the running gateway", schedule_examples);
    command->require_subcommand(0, 1);
    command->add_flag("--json", schedule.json, "Print a JSON object");
    add_action(*command, "list", "List the schedules of all sessions", schedule.what, What::list)
        .fallthrough();
    add_action(*command, "cancel", "Cancel a schedule, also a message of it that waits",
               schedule.what, What::cancel)
        .add_option("id", schedule.id, "The id that 'cubepi schedule' shows")
        ->required()
        ->type_name("ID");
    CLI::App& add = add_action(*command, "add", "Send a text to a session at certain times",
                               schedule.what, What::add);
    option(add, "--channel", schedule.channel, "The channel of the chat", "CHANNEL")->required();
    option(add, "--chat", schedule.chat, "The chat that gets the answers", "CHAT")->required();
    option(add, "--user", schedule.user, "The user whose rules hold (default: the id of the chat)",
           "USER");
    option(add, "--session", schedule.session, "The session (default: CHANNEL:CHAT)", "SESSION");
    option(add, "--at", schedule.at, "Once: +20m, 09:00, or a date, 2026-12-01 09:00", "TIME");
    option(add, "--every", schedule.every, "Repeatedly: 30m, 2h, 1d", "TIME");
    option(add, "--cron", schedule.cron,
           "Repeatedly: minute, hour, day of the month, month, day of the week", "FIELDS");
    option(add, "--zone", schedule.zone,
           "The time zone of --at and --cron (default: that of the gateway)", "ZONE");
    add.add_flag("--skip-missed", schedule.skip_missed,
                 "Send nothing for a time at which no gateway was running");
    option(add, "text", line.words, "The text, for the agent", "")->required();
}

constexpr const char* web_examples = R"(Examples:
  cubepi web                     prints a link; open it in a browser of this machine
  cubepi web                     again, in the same directory: another link to it
  cubepi web -C ~/src/app        of another directory
  cubepi web --viewer            the link of a user who only reads

Sessions, rules, sandbox and trust are those of 'cubepi chat' in this directory; what no rule allows is asked about in the browser.
The link logs one browser in, once, within an hour. Other machines: ssh -L PORT:127.0.0.1:PORT HOST.)";

void add_web_command(CLI::App& app, CommandLine& line) {
    CLI::App* command =
        add_command(app, line, Verb::web, "web",
                    "Chat about the files of this directory in a browser", web_examples);
    option(*command, "--port", line.gateway.port, "Of 127.0.0.1 (default: a free one)", "PORT")
        ->check(positive_number());
    command->add_flag("--viewer", line.gateway.viewer,
                      "The link is without the right to change anything");
    option(*command, "--name", line.gateway.name,
           "Who uses the link, for the log (default: your login name)", "NAME");
    command->add_flag("--trust", line.conversation.trust,
                      "Load instructions, skills and settings of this directory, for this run");
    add_model_flags(*command, line.conversation.model);
    add_directory_option(*command, line.conversation.directory);
    add_log_flags(*command, line.log);
    add_db_option(*command, line.database);
}

constexpr const char* completion_examples = R"(Examples:
  source <(cubepi completion bash)          in ~/.bashrc; zsh: in ~/.zshrc, after compinit
  cubepi completion fish > ~/.config/fish/completions/cubepi.fish)";

void add_help_commands(CLI::App& app, CommandLine& line) {
    CLI::App* completion =
        add_command(app, line, Verb::completion, "completion",
                    "Print a completion script for bash, zsh or fish", completion_examples);
    option(*completion, "shell", line.words, "bash, zsh or fish", value_type::shell)
        ->required()
        ->expected(1);

    // parse_command_line() turns `help COMMAND` into `COMMAND --help`; this is its entry in the list.
    CLI::App* help = app.add_subcommand("help", "Show the help of a command");
    help->footer("");
    option(*help, "command", line.words, "The command, e.g. tape show", value_type::command);
}

/// Hidden commands: the demo starts itself with one, the build makes the man page with the other.
void add_internal_commands(CLI::App& app, CommandLine& line) {
    CLI::App* step = app.add_subcommand("demo-step", "")->group("");
    step->add_option("--tapes", line.demo_tapes);
    step->add_option("--directory", line.demo_directory);
    step->add_flag("--fast", line.fast);
    step->add_option("step", line.words);
    step->callback([&line] { line.verb = Verb::demo_step; });

    app.add_subcommand("__man", "")->group("")->callback([&line] { line.verb = Verb::man_page; });
}

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
GEMINI_API_KEY, OPENROUTER_API_KEY, or ~/.config/cubepi/config.yaml (written by cubepi onboard), or a server on this
machine (Ollama, llama.cpp, vLLM, LM Studio). --offline uses a scripted model that needs none of them.

Exit status: 0 success, 1 failure, 2 usage error, 3 no model, 4 session storage error, 5 limit reached,
6 incomplete or empty answer, 7 waiting for an answer, 130 aborted, 141 output pipe closed.
Options of a command: cubepi help COMMAND. Manual: man cubepi)";

}  // namespace

void add_commands(CLI::App& app, CommandLine& line, const std::vector<bub::CliCommand>& more) {
    app.set_version_flag("-V,--version", version_text(), "Print the version and exit");
    app.require_subcommand(0, 1);
    add_talking_commands(app, line);
    add_set_up_commands(app, line);
    add_resume_command(app, line);
    add_session_commands(app, line);
    add_inbox_commands(app, line);
    add_record_commands(app, line);
    add_mcp_commands(app, line);
    add_acp_command(app, line);
    add_trust_commands(app, line);
    add_permission_commands(app, line);
    add_gateway_commands(app, line);
    add_schedule_commands(app, line);
    add_web_command(app, line);
    add_help_commands(app, line);
    add_internal_commands(app, line);
    app.footer(examples);  // after the commands, which would inherit it
    add_plugin_commands(app, line, more);
}

CLI::App* add_command(CLI::App& app, CommandLine& line, Verb verb, const char* name,
                      const std::string& description, const char* examples) {
    CLI::App* command = app.add_subcommand(name, description);
    command->footer(examples);
    command->callback([&line, verb] { line.verb = verb; });
    return command;
}

CLI::Validator positive_number() {
    CLI::Validator check;
    check.name("");
    check.operation([](std::string& text) -> std::string {
        const bool number = !text.empty() && text.size() < 10 &&
                            text.find_first_not_of("0123456789") == std::string::npos &&
                            text.find_first_not_of('0') != std::string::npos;
        return number ? std::string() : "'" + text + "' is not a positive number";
    });
    return check;
}

void add_db_option(CLI::App& command, std::string& database) {
    option(command, "--db", database,
           "PostgreSQL database of the sessions, instead of files: postgres://...",
           value_type::database)
        ->check(database_problem);
}

}  // namespace cubepi::app
