#include "add_commands.hpp"

#include <CLI/CLI.hpp>

#include "shared_options.hpp"

namespace cubepi::app {

namespace {

constexpr const char* tape_examples = R"(Examples:
  cubepi tape list
  cubepi tape show -n 50 --session plan
  cubepi tape search "migration" --from 2026-03-01 --kind message
  cubepi tape export --messages             what a model would be sent now
  cubepi tape copy postgres://me@db.example/agents --all    from files to a server
  cubepi tape copy files --session plan --db postgres://me@db.example/agents)";

void add_tape_choice(CLI::App& command, TapeArguments& tape) {
    command
        .add_option("-t,--tape", tape.tape,
                    "The tape's name or a prefix of it (default: the newest of this directory)")
        ->type_name(value_type::tape);
    command.add_option("-s,--session", tape.session, "The tape of this session of this directory")
        ->type_name(value_type::session);
}

void add_tape_filter(CLI::App& command, TapeArguments& tape) {
    command
        .add_option("-k,--kind", tape.kinds,
                    "Only entries of this kind (repeatable): message, tool_call, "
                    "tool_result, anchor, event")
        ->type_name(value_type::kind)
        ->allow_extra_args(false);  // otherwise it takes the arguments after it
    command
        .add_option("--from", tape.from,
                    "Not before this local date or time, e.g. 2026-03-01 or 2026-03-01T14:30")
        ->type_name("TIME");
    command.add_option("--to", tape.to, "Not after this local date or time")->type_name("TIME");
}

void add_tape_output(CLI::App& command, TapeArguments& tape, bool as_lines) {
    command.add_option("-n,--limit", tape.limit, "Maximum number of lines, 0 for all")
        ->type_name("NUMBER")
        ->capture_default_str();
    if (as_lines) command.add_flag("--json", tape.json, "Print the entries as stored");
}

}  // namespace

void add_tape_commands(CLI::App& app, CommandLine& line) {
    using What = TapeArguments::What;
    TapeArguments& tape = line.tape;
    CLI::App* command = app.add_subcommand("tape", "Inspect what sessions have recorded");
    command->footer(tape_examples);
    command->require_subcommand(1);
    command->add_option("--dir", tape.directory, "Directory of the tapes (default: ~/.bub/tapes)")
        ->type_name(value_type::directory);
    add_db_option(*command, line.database);
    const auto add = [&](const char* name, const char* description, What what) -> CLI::App& {
        CLI::App* added = command->add_subcommand(name, description);
        added->footer("");
        added->fallthrough();  // --dir may also follow the subcommand
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
    search.add_option("text", tape.text, "The text; similar matches follow exact ones")
        ->required()
        ->type_name("");
    CLI::App& anchors = add("anchors", "List the anchors", What::anchors);
    add_tape_choice(anchors, tape);
    add_tape_output(anchors, tape, true);
    CLI::App& copy = add("copy", "Copy tapes to a directory or a database", What::copy);
    copy.add_option("to", tape.target,
                    "postgres://..., a directory, or 'files' for the default directory")
        ->required()
        ->type_name(value_type::directory);
    add_tape_choice(copy, tape);
    copy.add_flag("--all", tape.all, "All tapes");
    copy.add_flag("-f,--force", tape.force,
                  "Replace a tape of the target that is longer or different");
    CLI::App& exports =
        add("export", "Write all entries of a tape as JSON lines", What::export_lines);
    add_tape_choice(exports, tape);
    add_tape_filter(exports, tape);
    exports.add_flag("--messages", tape.messages, "Write the messages that a model would be sent");
    exports.add_flag("-f,--force", tape.force, "Replace the file if it exists");
    exports.add_option("file", tape.output, "The file (default: standard output)")
        ->type_name(value_type::file);
    command->callback([&line] { line.verb = Verb::tape; });
}

}  // namespace cubepi::app
