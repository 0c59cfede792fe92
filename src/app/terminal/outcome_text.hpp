#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <cubepi/core/agent_event.hpp>

namespace cubepi::app {

/// What a finished call did, in one line: "read 7 lines", "exit status 1: make: *** [all] Error 2", "path: field required".
/// It goes by the result's details, and for tools without such details by the text.
std::string outcome_text(const ToolExecutionEndEvent& event);

/// The diff in a result's details; empty: none.
std::string_view diff_of(const ToolExecutionEndEvent& event);
/// How many changed lines that diff does not have.
std::size_t hidden_lines_of(const ToolExecutionEndEvent& event);

}  // namespace cubepi::app
