#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trace_tree.hpp"

namespace cubepi::app {

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
    bool selects_spans() const;
    /// Whether the trace has the session and the metadata, and began in time.
    bool accepts_trace(const TraceTree& tree) const;
    /// Whether a span is a call of the model or of the tool, as far as these are set. With both, the calls of either.
    bool accepts_call(const TraceSpan& span) const;
    /// Whether a span has the model or the tool, failed, and took long enough, as far as these are set.
    bool accepts_span(const TraceSpan& span) const;
    /// Both: one of the spans is accepted. The duration is that of the whole trace.
    bool accepts(const TraceTree& tree) const;
};

/// Parses "500ms", "2s", "1.5s", "3m" or a number of seconds to microseconds. Throws Error(invalid_argument) that names
/// `option`.
std::int64_t parse_duration(const std::string& option, const std::string& text);

/// Splits "KEY=VALUE". Throws Error(invalid_argument).
std::pair<std::string, std::string> parse_metadata(const std::string& text);

}  // namespace cubepi::app
