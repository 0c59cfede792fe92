#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "trace_file.hpp"
#include "trace_span.hpp"

namespace cubepi::app {

/// The spans of one trace.
struct Trace {
    std::string id = {};
    std::vector<TraceSpan> spans = {};  ///< in the order of their first lines
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

}  // namespace cubepi::app
