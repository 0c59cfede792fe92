#pragma once

#include <string>
#include <vector>

#include <cubepi/core/json.hpp>

#include "traces.hpp"

// Forms of a trace for other programs: `cubepi trace view --html` and `cubepi trace convert`.

namespace cubepi::app {

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

}  // namespace cubepi::app
