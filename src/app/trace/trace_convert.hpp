#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "recorded_request.hpp"
#include "trace_tree.hpp"

namespace cubepi::app {

/// Returns the calls of models at or below the spans whose ids begin with `span`, by their start; empty: all of the trace.
std::vector<const TraceSpan*> model_calls(const TraceTree& tree, const std::string& span);

/// A request as text for the user.
struct ConvertedRequest {
    std::string text = {};                ///< ends with a line feed
    std::vector<std::string> notes = {};  ///< differences from the call that was made
};

/// Converts a request to `form`: "curl" (for the API that was called), or the body for "anthropic" (Messages), "openai" (Chat
/// Completions) or "responses". Keys are named by their environment variables. Throws Error(not_found) if it was not recorded.
ConvertedRequest convert_request(const RecordedRequest& request, const std::string& form);

/// True for a form that convert_request() accepts.
bool is_request_form(const std::string& form) noexcept;

}  // namespace cubepi::app
