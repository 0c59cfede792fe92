#pragma once

#include "../terminal/terminal_stream.hpp"
#include "trace_text.hpp"
#include "traces.hpp"

namespace cubepi::app {

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

}  // namespace cubepi::app
