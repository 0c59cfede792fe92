#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/json.hpp>

namespace cubepi::app {

/// The kind of work that a span stands for.
enum class SpanOperation : std::uint8_t {
    agent,  ///< a run of an agent
    turn,
    chat,  ///< a call of a model
    tool,
    mcp,  ///< the request of an MCP client, which is a part of a tool call
    other
};

/// Where a span is stored: a line of one of the files of a TraceSet.
struct SpanPlace {
    std::uint32_t file = 0;
    std::uint32_t bytes = 0;
    std::uint64_t offset = 0;
};

struct TokenCounts {
    std::int64_t input = 0;  ///< the whole prompt, cached tokens included
    std::int64_t output = 0;
    std::int64_t cache_read = 0;
    std::int64_t cache_write = 0;

    TokenCounts& operator+=(const TokenCounts& other) noexcept;
    friend bool operator==(const TokenCounts&, const TokenCounts&) = default;
};

/// A span of a trace file, without the recorded content: that is read again from its place when it is shown, so that a
/// long trace needs little memory.
struct TraceSpan {
    std::string name = {};
    std::string trace_id = {};  ///< hexadecimal digits, without 0x
    std::string span_id = {};
    std::string parent_id = {};  ///< empty: none
    SpanOperation operation = SpanOperation::other;
    bool error = false;
    bool aborted = false;
    bool has_remote_parent = false;  ///< the parent is a span of another program
    bool suspended = false;
    std::int64_t start = 0;  ///< microseconds since 1970
    std::int64_t end = 0;
    std::string model = {};
    std::string tool = {};
    std::string session = {};  ///< the pipeline's session, or the thread
    std::string thread = {};
    std::string error_text = {};  ///< why it failed; may be empty although it did
    std::string input = {};       ///< of a run: the beginning of the last text of the user
    std::optional<TokenCounts> tokens = {};
    std::optional<double> cost = {};  ///< USD
    std::vector<std::pair<std::string, std::string>> metadata = {};
    SpanPlace place = {};

    // The place in the tree of its trace, set by make_trace().
    std::optional<std::size_t> parent = {};  ///< index into Trace::spans; none: a root
    std::size_t depth = 0;
    bool orphan = false;      ///< its parent is not in the file
    bool cycle = false;       ///< its parent is one of its descendants
    bool cost_below = false;  ///< its cost includes that of a span below it

    std::int64_t duration() const noexcept { return end - start; }
};

/// Parses a line of a trace file. Empty if the line is not a span.
std::optional<TraceSpan> parse_span(std::string_view line);

/// Returns the attribute `cubepi.NAME`, or `cubeloop.NAME` of newer Python versions; null: none.
const Json* own_attribute(const JsonObject& attributes, std::string_view name);

/// The value of a content attribute: a list or an object that was recorded as JSON text. A text that is not JSON (it was
/// redacted) is a JSON string. Null if there is none.
Json content_attribute(const JsonObject& attributes, std::string_view name);

/// An attribute's value as text: a string as it is, anything else as JSON.
std::string attribute_text(const Json& value);

/// The text of a recorded tool result, without its details; of a value of another form, all of it. Empty: none.
std::string result_text(const Json& result);

/// Lines that were not used, of one or several files.
struct LineProblems {
    std::size_t malformed = 0;  ///< not a span
    std::size_t incomplete =
        0;                     ///< a last line without its end: its writer continues or was killed
    std::size_t too_long = 0;  ///< longer than longest_line
    std::size_t repeated = 0;  ///< spans that occur again; the last line counts

    LineProblems& operator+=(const LineProblems& other) noexcept;
};

/// "skipped 2 lines that are not spans, 1 incomplete line at the end"; empty: none.
std::string describe(const LineProblems& problems);

/// Longer lines are skipped, which limits the memory for a damaged file. A recorded request with images may have tens of MB.
inline constexpr std::size_t longest_line = std::size_t{128} << 20U;

/// The bytes of a file after its last line feed.
struct LineRest {
    std::string text = {};     ///< empty if it is too long
    std::uint64_t offset = 0;  ///< of the text: the place to continue at when the file has grown
    std::size_t too_long = 0;  ///< lines that were skipped, the rest included
};

/// Calls `line` with each complete line from `offset` to the end of an open file, and with the line's offset. Throws Error(io)
/// that names `path`. `longest` and `piece` (the bytes of one call of read(2)) are for tests.
LineRest read_lines(int file, const std::filesystem::path& path, std::uint64_t offset,
                    const std::function<void(std::string_view line, std::uint64_t offset)>& line,
                    std::size_t longest = longest_line,
                    std::size_t piece = std::size_t{256} << 10U);

/// Reads the spans of a trace file and adds the unused lines to `problems`. `file` is the number for their places. Memory
/// is limited by the longest line. Throws Error(io) or Error(invalid_argument) if the file cannot be read.
void read_spans(const std::filesystem::path& path, std::uint32_t file,
                const std::function<void(TraceSpan&&)>& add, LineProblems& problems);

/// Returns the line of a span with its content. An empty object if the file has changed.
JsonObject read_line(const std::filesystem::path& path, const SpanPlace& place);

/// The files that may belong to one trace: those of one name, in the directories of successive days.
struct TraceFiles {
    std::string name = {};  ///< of the files, without .jsonl: the trace's id
    std::string day = {};   ///< the first: "2026-11-21"; empty: not in a directory of a day
    std::vector<std::filesystem::path> paths = {};
};

/// Lists the trace files of a directory and of its subdirectories, newest day first. Throws Error(not_found) if the directory
/// does not exist.
std::vector<TraceFiles> list_trace_files(const std::filesystem::path& directory);

/// An id as the user may write it: with or without 0x, which files have.
std::string_view without_0x(std::string_view id) noexcept;

/// Returns true for a name that is a trace's id: 32 hexadecimal digits.
bool is_trace_id(std::string_view name) noexcept;

/// A trace that is being written. Spans are in its files when they have ended, those below a span before it. A file that is
/// shorter than before, or was missing in between, is read from its beginning.
class FollowedTrace {
public:
    /// `name`: a trace's id, its beginning, or a file; empty: the first trace that grows from now on.
    FollowedTrace(std::filesystem::path directory, std::string name)
        : directory_(std::move(directory)), name_(without_0x(name)) {}

    /// Searches the trace, if it is not known yet, and returns its spans since the last call. Throws Error(invalid_argument) if
    /// several traces begin with the name.
    std::vector<TraceSpan> poll();
    /// True if the root has ended, or the span whose parent is in another program: nothing follows.
    bool ended() const noexcept { return ended_; }
    /// The files of the trace; empty: not found yet.
    std::vector<std::filesystem::path> paths() const;

private:
    std::vector<std::filesystem::path> search();

    std::filesystem::path directory_;
    std::string name_;
    std::map<std::filesystem::path, std::uint64_t> sizes_;  // of all files, when following began
    bool has_begun_ = false;
    std::map<std::filesystem::path, std::uint64_t> offsets_;  // of the first bytes not used
    bool ended_ = false;
};

/// The status of a trace is the last one of this order that a span of it has.
enum class TraceStatus : std::uint8_t { ok, incomplete, suspended, aborted, error };

/// "ok", "error", "aborted", "suspended", "incomplete".
const char* status_name(TraceStatus status) noexcept;

/// The summary of a whole trace.
struct TraceSummary {
    std::string id = {};
    std::size_t spans = 0;
    TraceStatus status = TraceStatus::ok;
    std::int64_t start = 0;
    std::int64_t end = 0;
    std::optional<TokenCounts> tokens = {};
    std::optional<double> cost = {};
    std::string session = {};
    std::string input = {};  ///< what the user asked first; empty if content was not recorded
    std::vector<std::pair<std::string, std::string>> metadata = {};

    std::int64_t duration() const noexcept { return end - start; }
};

/// The spans of one trace as a tree, in the order of a depth-first walk.
struct Trace {
    TraceSummary summary = {};
    std::vector<TraceSpan> spans = {};
};

/// Links the spans of one trace, which are in the order of their lines, to a tree. Parents are found by their span ids. A span whose parent is
/// missing is a root, and so is the first span of a cycle. Of spans with the same id the last one counts; the number of the
/// others is added to `repeated`.
Trace make_trace(std::vector<TraceSpan> spans, std::size_t& repeated);

template <class Value>
void add_value(std::optional<Value>& sum, const std::optional<Value>& value) {
    if (!value) return;
    if (!sum) sum.emplace();
    *sum += *value;
}

/// The options that select traces and spans.
struct TraceFilter {
    std::string session = {};  ///< a session's id or name, or a thread
    std::string model = {};
    std::string tool = {};
    bool error = false;
    std::optional<std::int64_t> min_duration = {};                   ///< microseconds
    std::vector<std::pair<std::string, std::string>> metadata = {};  ///< all must be equal
    std::optional<std::int64_t> since = {};  ///< microseconds since 1970, for the start

    /// True if one of the options that select spans within a trace is set.
    bool selects_spans() const { return !model.empty() || !tool.empty() || error || min_duration; }
    /// Whether the trace has the session and the metadata, and began in time.
    bool accepts_trace(const Trace& trace) const;
    /// Whether a span is a call of the model or of the tool, if one of them is set.
    bool calls_model(const TraceSpan& span) const;
    bool calls_tool(const TraceSpan& span) const;
    /// Whether a span is a call of the model or of the tool, as far as these are set. With both, the calls of either.
    bool accepts_call(const TraceSpan& span) const;
    /// Whether a span has the model or the tool, failed, and took long enough, as far as these are set.
    bool accepts_span(const TraceSpan& span) const;
    /// Both: one of the spans is accepted. The duration is that of the whole trace.
    bool accepts(const Trace& trace) const;
};

/// The traces of some files.
struct TraceSet {
    std::vector<std::filesystem::path> files = {};  ///< SpanPlace::file counts these
    std::vector<Trace> traces = {};                 ///< by their start
    LineProblems problems = {};

    /// Returns the line of a span with its content; empty if it cannot be read again.
    JsonObject line_of(const TraceSpan& span) const;
};

/// Reads all traces of `files`. Throws Error if a file cannot be read.
TraceSet read_traces(std::vector<std::filesystem::path> files);

/// Finds the trace that the user names: a path, an id, or the beginning of one id. Throws Error(not_found) if there is none
/// and Error(invalid_argument) if it is ambiguous, naming the candidates.
TraceSet find_trace(const std::filesystem::path& directory, const std::string& name);

/// Finds the trace of the directory with the span whose id begins with `prefix`, as the only trace of the set. Throws
/// Error(not_found) if there is none and Error(invalid_argument) if there are several spans.
TraceSet find_span(const std::filesystem::path& directory, const std::string& prefix);

/// A trace of a directory.
struct ListedTrace {
    TraceSummary summary = {};
    std::vector<std::filesystem::path> files = {};
};

struct TraceListing {
    std::vector<ListedTrace> traces = {};      ///< newest first
    std::vector<std::string> unreadable = {};  ///< one message for each file that could not be read
    LineProblems problems = {};
};

/// Returns the newest traces of a directory that the filter accepts. `limit` 0: all. The files of older days are not read
/// when enough traces are found; memory is limited by the largest trace. Calls `see` for each accepted trace, also for those
/// beyond the limit that were read. Throws Error if the directory does not exist.
TraceListing list_traces(const std::filesystem::path& directory, const TraceFilter& filter,
                         std::size_t limit, const std::function<void(const Trace&)>& see = {});

}  // namespace cubepi::app
