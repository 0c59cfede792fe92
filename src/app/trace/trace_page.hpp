#pragma once

#include <string>

#include "trace_set.hpp"
#include "trace_tree.hpp"

namespace cubepi::app {

/// Returns a trace as a self-contained HTML page: tree, waterfall, attributes and recorded content of each span, search. The
/// page loads nothing, runs only its own script, and shows all text of the trace as text.
std::string trace_page(const TraceSet& set, const TraceTree& tree);

}  // namespace cubepi::app
