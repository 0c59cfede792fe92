#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <cubepi/core/agent_event.hpp>

namespace cubepi::app {

/// Summarizes the result of a call in one line: "read 7 lines", "exit status 1: make: *** [all] Error 2", "path:
/// field required". Uses the details of the result, or the text for tools without details.
std::string outcome_text(const ToolExecutionEndEvent& event);

/// The diff in a result's details; empty: none.
std::string_view diff_of(const ToolExecutionEndEvent& event);
/// The number of changed lines that the diff lacks.
std::size_t hidden_lines_of(const ToolExecutionEndEvent& event);

}  // namespace cubepi::app
