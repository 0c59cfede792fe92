#include "add_commands.hpp"

#include <CLI/CLI.hpp>

#include "shared_options.hpp"

namespace cubepi::app {

namespace {

constexpr const char* sessions_examples = R"(Examples:
  cubepi sessions list
  cubepi sessions list --json | jq -r '.[].name'      for scripts
  cubepi sessions delete plan)";

constexpr const char* inbox_examples = R"(Examples:
  cubepi inbox                              what waits for an answer
  cubepi inbox show call_1
  cubepi inbox approve call_1               and continue the session's turn
  cubepi inbox deny call_1 "not this one"
  cubepi inbox answer 15095c7e teal)";

}  // namespace

void add_session_commands(CLI::App& app, CommandLine& line) {
    CLI::App* sessions = app.add_subcommand("sessions", "List or delete saved sessions");
    sessions->require_subcommand(1);
    sessions->footer(sessions_examples);
    add_db_option(*sessions, line.database);
    CLI::App* list =
        sessions->add_subcommand("list", "List the sessions of this directory, newest first");
    list->footer("");
    list->fallthrough();  // --db may also follow the subcommand
    list->add_flag("--all", line.all, "List the sessions of all directories");
    list->add_flag("--json", line.conversation.json, "Print a JSON array");
    list->callback([&line] { line.verb = Verb::sessions_list; });
    CLI::App* remove = sessions->add_subcommand("delete", "Delete a session permanently");
    remove->footer("");
    remove->fallthrough();
    remove->add_option("name", line.words, "The session's name")
        ->required()
        ->type_name(value_type::session)
        ->expected(1);
    remove->add_flag("-y,--yes", line.conversation.yes, "Do not ask for confirmation");
    remove->callback([&line] { line.verb = Verb::sessions_delete; });
}

void add_inbox_commands(CLI::App& app, CommandLine& line) {
    using What = InboxArguments::What;
    CLI::App* inbox =
        app.add_subcommand("inbox", "List and answer the questions that wait for an answer");
    inbox->footer(inbox_examples);
    inbox->require_subcommand(0, 1);
    inbox->add_flag("--all", line.all, "List the questions of all directories");
    inbox->add_flag("--json", line.conversation.json, "Print JSON");
    inbox->add_flag("--gateway", line.inbox.gateway, "The questions of the running gateway");
    add_db_option(*inbox, line.database);
    inbox->callback([&line] { line.verb = Verb::inbox; });
    const auto add = [&](const char* name, const char* description, What what) -> CLI::App& {
        CLI::App* added = inbox->add_subcommand(name, description);
        added->footer("");
        added->fallthrough();
        added->callback([&line, what] { line.inbox.what = what; });
        return *added;
    };
    add("list", "List the questions, oldest first", What::list);
    const auto add_one = [&](const char* name, const char* description, What what) -> CLI::App& {
        CLI::App& added = add(name, description, what);
        added.add_option("question", line.inbox.question, "The question's id, or its beginning")
            ->required()
            ->type_name("ID");
        added.add_option("-s,--session", line.inbox.session, "Only questions of this session")
            ->type_name(value_type::session);
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
        .add_option("value", line.inbox.value,
                    "The answer; with several questions a JSON object of answers by key")
        ->required()
        ->type_name("TEXT");
    add_turn("cancel", "Withdraw the questions of the session", What::cancel);
}

}  // namespace cubepi::app
