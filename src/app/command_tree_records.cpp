#include <CLI/CLI.hpp>

#include "command_tree.hpp"

namespace cubepi::app {

namespace {

void add_tape_choice(CLI::App& command, TapeArguments& tape) {
    option(command, "-t,--tape", tape.tape,
           "The tape's name or a prefix of it (default: the newest of this directory)",
           value_type::tape);
    option(command, "-s,--session", tape.session, "The tape of this session of this directory",
           value_type::session);
}

void add_tape_filter(CLI::App& command, TapeArguments& tape) {
    option(command, "-k,--kind", tape.kinds,
           "Only entries of this kind (repeatable): message, tool_call, "
           "tool_result, anchor, event",
           value_type::kind)
        ->allow_extra_args(false);  // otherwise it takes the arguments after it
    option(command, "--from", tape.from,
           "Not before this local date or time, e.g. 2026-03-01 or 2026-03-01T14:30", "TIME");
    option(command, "--to", tape.to, "Not after this local date or time", "TIME");
}

void add_tape_output(CLI::App& command, TapeArguments& tape, bool as_lines) {
    option(command, "-n,--limit", tape.limit, "Maximum number of lines, 0 for all", "NUMBER")
        ->capture_default_str();
    if (as_lines) command.add_flag("--json", tape.json, "Print the entries as stored");
}

constexpr const char* tape_examples = R"(Examples:
  cubepi tape list
  cubepi tape show -n 50 --session plan
  cubepi tape search "migration" --from 2026-03-01 --kind message
  cubepi tape export --messages             what a model would be sent now
  cubepi tape copy postgres://me@db.example/agents --all    from files to a server
  cubepi tape copy files --session plan --db postgres://me@db.example/agents)";

void add_tape_commands(CLI::App& app, CommandLine& line) {
    using What = TapeArguments::What;
    TapeArguments& tape = line.tape;
    CLI::App* command = add_command(app, line, Verb::tape, "tape",
                                    "Inspect what sessions have recorded", tape_examples);
    command->require_subcommand(1);
    option(*command, "--dir", tape.directory, "Directory of the tapes (default: ~/.bub/tapes)",
           value_type::directory);
    add_db_option(*command, line.database);
    const auto add = [&](const char* name, const char* description, What what) -> CLI::App& {
        CLI::App& added = add_action(*command, name, description, tape.what, what);
        added.fallthrough();  // --dir may also follow the subcommand
        return added;
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
    option(search, "text", tape.text, "The text; similar matches follow exact ones", "")
        ->required();
    CLI::App& anchors = add("anchors", "List the anchors", What::anchors);
    add_tape_choice(anchors, tape);
    add_tape_output(anchors, tape, true);
    CLI::App& copy = add("copy", "Copy tapes to a directory or a database", What::copy);
    option(copy, "to", tape.target,
           "postgres://..., a directory, or 'files' for the default directory",
           value_type::directory)
        ->required();
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
    option(exports, "file", tape.output, "The file (default: standard output)", value_type::file);
}

void add_trace_filter(CLI::App& command, TraceArguments& trace) {
    option(command, "-s,--session", trace.session, "Only of this session or thread",
           value_type::session);
    option(command, "-m,--model", trace.model, "Only with calls of this model", value_type::model);
    option(command, "--tool", trace.tool, "Only with calls of this tool", "NAME");
    command.add_flag("--error", trace.error, "Only what failed");
    option(command, "--min-duration", trace.min_duration,
           "Only what took at least this long, e.g. 500ms or 2s", "TIME");
    option(command, "--meta", trace.metadata,
           "Only with this metadata (repeatable: all of them), e.g. user=7", "KEY=VALUE")
        ->allow_extra_args(false);  // otherwise it takes the arguments after it
    option(command, "--since", trace.since,
           "Only what began at or after this local date or time, e.g. 2026-03-01", "DATE");
}

std::string is_table(const std::string& text) {
    return text == "model" || text == "tool" ? std::string()
                                             : "'" + text + "' is not a table: model or tool";
}

void add_trace_choice(CLI::App& command, TraceArguments& trace, const char* description) {
    option(command, "trace", trace.run, description, value_type::trace);
}

void add_trace_view(CLI::App& view, TraceArguments& trace) {
    add_trace_choice(view, trace,
                     "The trace's id, the beginning of it, or a file (default: the newest)");
    add_trace_filter(view, trace);
    view.add_flag("--content", trace.content, "Show recorded messages, arguments and results");
    view.add_flag("-v,--verbose", trace.verbose, "Show all attributes and events");
    view.add_flag("--html", trace.html, "Write a page for a browser, with all recorded content");
    option(view, "-o,--output", trace.output,
           "The file of the page (default: trace-ID.html, or standard output if that is "
           "not a terminal)",
           value_type::file);
    view.add_flag("-f,--force", trace.force, "Replace the file if it exists");
}

void add_trace_conversion(CLI::App& command, TraceArguments& trace) {
    add_trace_choice(command, trace,
                     "A trace's or a span's id, the beginning of it, or a file (default: the "
                     "newest trace)");
    option(command, "--to", trace.form, "The form of the request: curl", value_type::request_form)
        ->check([](const std::string& text) {
            return text == "curl" ? std::string()
                                  : "'" + text + "' is not a form of a request: curl";
        })
        ->capture_default_str();
    option(command, "--span", trace.span,
           "The id of a span of the trace, or its beginning: its last call of a model", "ID");
    option(command, "--call", trace.call,
           "The call of a model, counted from 1 by their start (default: the last)", "NUMBER")
        ->check(positive_number());
}

constexpr const char* trace_examples = R"(Examples:
  cubepi trace ls                           the newest traces, with status, time, tokens and cost
  cubepi trace ls --error --since 2026-03-01
  cubepi trace view                         the newest as a tree, with a bar for each span
  cubepi trace view 4f9a --content          by the beginning of its id; with messages and results
  cubepi trace view 4f9a --tool shell       only the calls of a tool
  cubepi trace stats --since 2026-03-01     calls, errors, times, tokens and cost by model and by tool
  cubepi trace convert 4f9a | sh            send a recorded request again)";

void add_trace_commands(CLI::App& app, CommandLine& line) {
    using What = TraceArguments::What;
    TraceArguments& trace = line.trace;
    CLI::App* command = add_command(app, line, Verb::trace, "trace",
                                    "Show what runs did, from their traces", trace_examples);
    command->require_subcommand(1);
    option(*command, "--dir", trace.directory,
           "Directory of the traces (default: $CUBEPI_TRACE, or ./cubepi-traces)",
           value_type::directory);
    const auto add = [&](const char* name, const char* description, What what) -> CLI::App& {
        CLI::App& added = add_action(*command, name, description, trace.what, what);
        added.fallthrough();  // --dir may also follow the subcommand
        return added;
    };
    // Under the names of the commands of `sessions`, too.
    CLI::App& list = add("ls", "List traces, newest first", What::list);
    list.alias("list");
    add_trace_filter(list, trace);
    option(list, "-n,--limit", trace.limit, "Maximum number of traces, 0 for all", "NUMBER")
        ->capture_default_str();
    option(list, "--show-meta", trace.metadata_columns,
           "Metadata to show as columns, separated by commas", "KEYS")
        ->delimiter(',')
        ->allow_extra_args(false);
    list.add_flag("--json", trace.json, "Print a JSON array");
    CLI::App& view = add("view", "Show a trace as a tree, with a bar for each span", What::view);
    view.alias("show");
    add_trace_view(view, trace);
    CLI::App& stats = add(
        "stats", "Show calls, errors, times, tokens and cost by model and by tool", What::stats);
    option(stats, "trace", trace.runs, "Only these traces (default: all of the directory)",
           value_type::trace);
    add_trace_filter(stats, trace);
    option(stats, "--by", trace.by, "Only one of the tables: model or tool", value_type::table)
        ->check(is_table);
    stats.add_flag("--json", trace.json, "Print a JSON object");
    CLI::App& follow =
        add("follow", "Show the spans of a run as they end, and then its tree", What::follow);
    add_trace_choice(follow, trace,
                     "The trace's id, the beginning of it, or a file (default: the first trace "
                     "that grows)");
    add_trace_filter(follow, trace);
    option(follow, "--idle-limit", trace.idle_limit,
           "Give up when no span has ended for this long, e.g. 30s (default: never)", "TIME");
    add_trace_conversion(
        add("convert", "Print the request of a model call as a curl command", What::convert),
        trace);
}

constexpr const char* db_examples = R"(Examples:
  cubepi db status postgres://app@db.example/agents     the versions of the tables
  cubepi db check                                       whether the sessions can be read, and what would be repaired
  cubepi db init postgres://app@db.example/agents       create them in an empty database
  cubepi db init --tapes postgres://app@db.example/agents
  cubepi db migrate threads.db                          an SQLite file
  cubepi db divide                                      record the key databases of the configuration
  cubepi db sql postgres://app@db.example/agents        what init or migrate would execute
  cubepi db sql postgres --from 4                       the same without a connection

Other users can see command lines: leave the password out of the URL, and put it into PGPASSWORD, ~/.pgpass
or MYSQL_PWD.)";

void add_db_commands(CLI::App& app, CommandLine& line) {
    using What = DatabaseArguments::What;
    DatabaseArguments& db = line.db;
    CLI::App* command =
        add_command(app, line, Verb::db, "db", "Create, check and migrate the tables of a database",
                    db_examples);
    command->require_subcommand(1);
    const auto add = [&](const char* name, const char* description, What what) -> CLI::App& {
        return add_action(*command, name, description, db.what, what);
    };
    const auto add_tapes = [&db](CLI::App& added) {
        added.add_flag("--tapes", db.tapes, "The tables of tapes instead of those of threads");
    };
    const auto add_on = [&](const char* name, const char* description, What what) -> CLI::App& {
        CLI::App& added = add(name, description, what);
        option(added, "database", db.target,
               "postgres://..., mysql://..., or an SQLite file (default: the database of "
               "sessions in the configuration file)",
               value_type::database);
        add_tapes(added);
        return added;
    };
    add_on("status", "Show the versions of the tables", What::status)
        .add_flag("--json", db.json, "Print a JSON object");
    CLI::App& check = add("check",
                          "Check what a database or a directory holds, and say what would be "
                          "repaired; changes nothing",
                          What::check);
    option(check, "store", db.target,
           "postgres://..., mysql://..., an SQLite file, a directory of tapes or of deliveries, or "
           "$BUB_HOME (default: the sessions, and the messages of the gateway)",
           value_type::database);
    add_tapes(check);
    check.add_flag("--json", db.json, "Print a JSON object");
    add_on("init", "Create the tables in an empty database", What::init);
    add_on("migrate", "Migrate older tables, also those of CubePi", What::migrate);
    add("divide",
        "Record in the databases of the configuration which sessions each of them has; no gateway "
        "may run",
        What::divide)
        .add_flag("--move", db.move, "Move the sessions that are in another database than theirs");
    CLI::App& sql = add("sql", "Print the SQL that creates or migrates the tables", What::sql);
    option(sql, "database", db.target, "A database, or postgres, mysql or sqlite for a new one",
           value_type::database)
        ->required();
    option(sql, "--from", db.from, "With postgres or mysql: the version of CubePi's tables, 1 to 5",
           "VERSION")
        ->check(CLI::Range(1, 5));
    add_tapes(sql);
}

}  // namespace

void add_record_commands(CLI::App& app, CommandLine& line) {
    add_tape_commands(app, line);
    add_trace_commands(app, line);
    add_db_commands(app, line);
}

}  // namespace cubepi::app
