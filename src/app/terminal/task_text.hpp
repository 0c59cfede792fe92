#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/core/message.hpp>
#include <cubepi/middleware/subagents.hpp>

#include "terminal_stream.hpp"

namespace cubepi::app {

// Texts about sub-agents, for the views of a conversation.

/// The work of a sub-agent, as the details of its call or its message report it.
struct SubagentWork {
    std::int64_t turns = 0;  ///< calls of its model
    std::int64_t calls = 0;  ///< of tools; 0 also if they were not counted
    std::int64_t tokens_in = 0;
    std::int64_t tokens_out = 0;
    std::optional<double> cost = {};  ///< USD; absent: unknown
};

/// Reads the member `subagent` of a JSON object; nothing if there is none.
std::optional<SubagentWork> subagent_work(const Json& reported);
/// Returns the work that a message of a conversation reports: the result of a call, or a result in the background.
std::optional<SubagentWork> subagent_work(const Message& message);
SubagentWork work_of(const SubagentResult& result);

/// Returns the call that a sub-agent makes at the moment, or has made last, as its progress reports it: "shell command: make test".
/// Empty if there is none.
std::string subagent_call(const Json& reported);

/// "3 calls, 12.2k tokens, $0.0210"; turns if it has called no tool.
std::string work_text(const SubagentWork& work);

/// Returns a line of at most `columns` for each sub-agent that runs in the background.
std::vector<TerminalText> task_lines(const std::vector<SubagentTask>& tasks, const Style& style,
                                     std::size_t columns);

}  // namespace cubepi::app
