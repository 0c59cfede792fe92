#include "add_commands.hpp"

#include <CLI/CLI.hpp>

#include "shared_options.hpp"

namespace cubepi::app {

namespace {

constexpr const char* trace_examples = R"(Examples:
  cubepi trace ls                           the newest traces, with status, time, tokens and cost
  cubepi trace ls --error --since 2026-03-01
  cubepi trace view                         the newest as a tree, with a bar for each span
  cubepi trace view 4f9a --content          by the beginning of its id; with messages and results
  cubepi trace view 4f9a --tool shell       only the calls of a tool
  cubepi trace stats --since 2026-03-01     calls, errors, times, tokens and cost by model and by tool
  cubepi trace convert 4f9a | sh            send a recorded request again)";

void add_trace_filter(CLI::App& command, TraceArguments& trace) {
    command.add_option("-s,--session", trace.session, "Only of this session or thread")
        ->type_name(value_type::session);
    command.add_option("-m,--model", trace.model, "Only with calls of this model")
        ->type_name(value_type::model);
    command.add_option("--tool", trace.tool, "Only with calls of this tool")->type_name("NAME");
    command.add_flag("--error", trace.error, "Only what failed");
    command
        .add_option("--min-duration", trace.min_duration,
                    "Only what took at least this long, e.g. 500ms or 2s")
        ->type_name("TIME");
    command
        .add_option("--meta", trace.metadata,
                    "Only with this metadata (repeatable: all of them), e.g. user=7")
        ->type_name("KEY=VALUE")
        ->allow_extra_args(false);  // otherwise it takes the arguments after it
    command
        .add_option("--since", trace.since,
                    "Only what began at or after this local date or time, e.g. 2026-03-01")
        ->type_name("DATE");
}

std::string is_table(const std::string& text) {
    return text == "model" || text == "tool" ? std::string()
                                             : "'" + text + "' is not a table: model or tool";
}

void add_trace_choice(CLI::App& command, TraceArguments& trace, const char* description) {
    command.add_option("trace", trace.run, description)->type_name(value_type::trace);
}

void add_trace_view(CLI::App& view, TraceArguments& trace) {
    add_trace_choice(view, trace,
                     "The trace's id, the beginning of it, or a file (default: the newest)");
    add_trace_filter(view, trace);
    view.add_flag("--content", trace.content, "Show recorded messages, arguments and results");
    view.add_flag("-v,--verbose", trace.verbose, "Show all attributes and events");
    view.add_flag("--html", trace.html, "Write a page for a browser, with all recorded content");
    view.add_option("-o,--output", trace.output,
                    "The file of the page (default: trace-ID.html, or standard output if that is "
                    "not a terminal)")
        ->type_name(value_type::file);
    view.add_flag("-f,--force", trace.force, "Replace the file if it exists");
}

void add_trace_conversion(CLI::App& command, TraceArguments& trace) {
    add_trace_choice(command, trace,
                     "A trace's or a span's id, the beginning of it, or a file (default: the "
                     "newest trace)");
    command.add_option("--to", trace.form, "The form of the request: curl")
        ->check([](const std::string& text) {
            return text == "curl" ? std::string()
                                  : "'" + text + "' is not a form of a request: curl";
        })
        ->type_name(value_type::request_form)
        ->capture_default_str();
    command
        .add_option("--span", trace.span,
                    "The id of a span of the trace, or its beginning: its last call of a model")
        ->type_name("ID");
    command
        .add_option("--call", trace.call,
                    "The call of a model, counted from 1 by their start (default: the last)")
        ->check(positive_number())
        ->type_name("NUMBER");
}

}  // namespace

void add_trace_commands(CLI::App& app, CommandLine& line) {
    using What = TraceArguments::What;
    TraceArguments& trace = line.trace;
    CLI::App* command = app.add_subcommand("trace", "Show what runs did, from their traces");
    command->footer(trace_examples);
    command->require_subcommand(1);
    command
        ->add_option("--dir", trace.directory,
                     "Directory of the traces (default: $CUBEPI_TRACE, or ./cubepi-traces)")
        ->type_name(value_type::directory);
    const auto add = [&](const char* name, const char* description, What what) -> CLI::App& {
        CLI::App* added = command->add_subcommand(name, description);
        added->footer("");
        added->fallthrough();  // --dir may also follow the subcommand
        added->callback([&line, what] { line.trace.what = what; });
        return *added;
    };
    CLI::App& list = add("ls", "List traces, newest first", What::list);
    add_trace_filter(list, trace);
    list.add_option("-n,--limit", trace.limit, "Maximum number of traces, 0 for all")
        ->type_name("NUMBER")
        ->capture_default_str();
    list.add_option("--show-meta", trace.metadata_columns,
                    "Metadata to show as columns, separated by commas")
        ->type_name("KEYS")
        ->delimiter(',')
        ->allow_extra_args(false);
    list.add_flag("--json", trace.json, "Print a JSON array");
    add_trace_view(add("view", "Show a trace as a tree, with a bar for each span", What::view),
                   trace);
    CLI::App& stats = add(
        "stats", "Show calls, errors, times, tokens and cost by model and by tool", What::stats);
    stats.add_option("trace", trace.runs, "Only these traces (default: all of the directory)")
        ->type_name(value_type::trace);
    add_trace_filter(stats, trace);
    stats.add_option("--by", trace.by, "Only one of the tables: model or tool")
        ->check(is_table)
        ->type_name(value_type::table);
    stats.add_flag("--json", trace.json, "Print a JSON object");
    CLI::App& follow =
        add("follow", "Show the spans of a run as they end, and then its tree", What::follow);
    add_trace_choice(follow, trace,
                     "The trace's id, the beginning of it, or a file (default: the first trace "
                     "that grows)");
    add_trace_filter(follow, trace);
    follow
        .add_option("--idle-limit", trace.idle_limit,
                    "Give up when no span has ended for this long, e.g. 30s (default: never)")
        ->type_name("TIME");
    add_trace_conversion(
        add("convert", "Print the request of a model call as a curl command", What::convert),
        trace);
    command->callback([&line] { line.verb = Verb::trace; });
}

}  // namespace cubepi::app
