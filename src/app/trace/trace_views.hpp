#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <cubepi/core/json.hpp>

#include "../terminal/terminal_stream.hpp"
#include "../terminal/terminal_text.hpp"
#include "../terminal/text_table.hpp"
#include "traces.hpp"

// The output of `cubepi trace`: the texts of spans and their recorded content (trace_text.cpp), the tables of `ls` and `stats`
// (trace_tables.cpp), the tree of `view` (trace_view.cpp), and the forms for other programs of `view --html` and `convert`
// (trace_exports.cpp).

namespace cubepi::app {

struct TraceArguments;

/// The destination of the viewer's text. On a pipe nothing is cut to a width, and only ASCII signs are drawn.
struct TraceScreen {
    Style style = {};
    bool ascii = true;

    /// For standard output.
    static TraceScreen standard();
    /// Columns of a terminal; 0: not limited.
    std::size_t columns() const noexcept {
        return style.terminal ? static_cast<std::size_t>(style.columns) : 0;
    }
};

/// "20us", "0.9ms", "95ms", "1.25s", "2m03s".
std::string span_time_text(std::int64_t microseconds);
/// Tokens of the prompt and of the answer: "2565/21", "12.3k/80".
std::string token_text(const std::optional<TokenCounts>& tokens);
/// "2565", "12.3k".
std::string token_count_text(std::int64_t count);
/// "$0.0123"; empty if it is unknown.
std::string cost_text(const std::optional<double>& cost);

/// "2565 tokens in, 2048 of them cached, 21 out, $0.0123", as far as they are known.
std::string sums_text(const TraceSummary& summary);
/// "2026-11-21 10:00:00 +0000, 1.25s, 4 spans, 2565 tokens in, 21 out, $0.0123".
std::string summary_text(const TraceSummary& summary);
/// "session NAME, KEY=VALUE"; may be empty.
std::string identity_text(const TraceSummary& summary);
/// The name of a span, also of one that has none.
std::string_view name_of(const TraceSpan& span);
/// The marks of an unusual span, in the order of the output: "ERROR", "aborted", "suspended", "orphan", "cycle".
std::vector<const char*> marks_of(const TraceSpan& span);

/// The name of a status in its color.
TerminalText status_text(const Style& style, TraceStatus status);

/// The remedy for a trace without content.
inline constexpr char how_to_record_content[] =
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true; in a program "
    "TracerOptions::record_content, in Python record_content=True.";

/// A part of recorded content: "user", "assistant", "call add", "result".
struct ContentBlock {
    std::string label = {};
    std::string text = {};
};

/// The recorded content of the spans of a trace. A call of a model records the whole conversation before it; each message is
/// returned once per run. Blocks must be requested in the order of the spans.
class SpanContent {
public:
    explicit SpanContent(const Trace& trace);

    /// `span` is its index, `line` the line of the span. The messages of runs and turns, which those of their model calls
    /// repeat, are returned only if `all`, or if the trace has no model call.
    std::vector<ContentBlock> blocks(std::size_t span, const JsonObject& line, bool all);

private:
    using Hashes = std::unordered_set<std::size_t>;
    static void add_call(std::vector<ContentBlock>& blocks, const JsonObject& attributes,
                         Hashes& shown);
    /// Adds the messages that are not in `shown`, and returns the number of the others.
    static std::size_t add_new_messages(std::vector<ContentBlock>& blocks, const Json& messages,
                                        Hashes& shown);

    const Trace& trace_;
    bool has_chat_ = false;
    std::vector<std::size_t> runs_;                  // by span: the span of the run it belongs to
    std::unordered_map<std::size_t, Hashes> shown_;  // by the span of the run
};

/// The attributes of a span for `trace view -v`: ids, times, attributes without content, events and links; one line each.
std::vector<std::string> attribute_lines(const TraceSpan& span, const JsonObject& line);

/// Prints one line for each trace: a table at a terminal, columns separated by tabs on a pipe. `metadata`: the keys of
/// additional columns.
void print_list(const TraceListing& listing, const std::vector<std::string>& metadata,
                const TraceScreen& screen, TerminalStream& out);

/// Returns the same as JSON: an array of objects. All metadata is included.
Json list_json(const TraceListing& listing);

/// The calls of one model or of one tool.
struct CallStats {
    std::string name = {};  ///< empty: not recorded
    std::size_t calls = 0;
    std::size_t errors = 0;
    std::size_t aborted = 0;
    std::int64_t duration = 0;  ///< the sum, in microseconds
    std::vector<std::int64_t> durations = {};
    std::optional<TokenCounts> tokens = {};
    std::optional<double> cost = {};  ///< USD
    std::size_t without_cost = 0;     ///< calls with tokens whose cost is unknown
};

/// Returns the percentile `percent` of values, linearly interpolated between two of them; 0 if there are none.
std::int64_t percentile(std::vector<std::int64_t> values, double percent);

/// Counts the calls of models and tools of any number of traces. Each call counts once: the request of an MCP client is a part
/// of a tool call, the sums of runs repeat those of their calls, and a span may occur in several files.
class TraceStats {
public:
    /// Of the filter only the model and the tool are used, which restrict the calls. `by`: "model" or "tool", the only calls that
    /// are counted; empty: both.
    TraceStats(const TraceFilter& filter, const std::string& by) : filter_(filter), by_(by) {}

    void add(const Trace& trace);
    bool empty() const noexcept { return traces_ == 0; }
    /// Prints a heading and a table for models and for tools.
    void print(const TraceScreen& screen, TerminalStream& out) const;
    /// Returns the same as JSON. Durations are in seconds, costs in USD; what was not recorded is null.
    Json json() const;

private:
    using ByName = std::map<std::string, CallStats>;
    void add_new(const Trace& trace);
    void print_heading(const TraceScreen& screen, TerminalStream& out) const;

    const TraceFilter& filter_;
    const std::string& by_;
    ByName models_;
    ByName tools_;
    std::size_t traces_ = 0;
    std::map<TraceStatus, std::size_t> statuses_;
    TraceSummary sums_;  // of the traces: times, tokens and cost, as `trace ls` shows them
    std::unordered_set<std::size_t> seen_;  // hashes of the ids of traces and spans
};

struct ViewOptions {
    bool verbose = false;  ///< attributes, events, complete error texts
    bool content = false;  ///< recorded messages, arguments and results
    TraceFilter filter = {};
};

/// Prints a trace of the set: a heading, and a row for each span with its place in the tree, time, tokens, cost and bar.
/// With a filter that selects spans, only these and the spans above them are printed.
void print_trace(const TraceSet& set, const Trace& trace, const ViewOptions& options,
                 const TraceScreen& screen, TerminalStream& out);

/// Prints one line for a span that has ended: its time, name, tokens, cost and error.
void print_followed_span(const TraceSpan& span, const TraceScreen& screen, TerminalStream& out);

/// Returns a trace as a self-contained HTML page: tree, waterfall, attributes and recorded content of each span, search. The
/// page loads nothing, runs only its own script, and shows all text of the trace as text.
std::string trace_page(const TraceSet& set, const Trace& trace);

/// Returns the calls of models at or below the spans whose ids begin with `span`, by their start; empty: all of the trace.
std::vector<const TraceSpan*> model_calls(const Trace& trace, const std::string& span);

/// The request of a model call as a command.
struct CurlCommand {
    std::string text = {};  ///< ends with a line feed
    std::string note = {};  ///< what the user must set; empty: nothing
};

/// Returns the command that sends the request again whose span has these attributes. Keys are named by their environment
/// variables. Throws Error(not_found) if the body for an API was not recorded.
CurlCommand curl_command(const JsonObject& attributes);

/// Shows traces; never changes them. Returns the exit status. Throws Error for wrong arguments and for a directory or file
/// that cannot be read.
int show_traces(const TraceArguments& arguments, const TraceScreen& screen, std::ostream& out,
                std::ostream& err);

/// The directory of traces: `given`, else $CUBEPI_TRACE, else ./cubepi-traces.
std::string trace_directory(const std::string& given);

}  // namespace cubepi::app
