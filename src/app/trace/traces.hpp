#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trace_files.hpp"

namespace cubepi::app {

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
