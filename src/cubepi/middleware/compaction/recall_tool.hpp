#pragma once

#include <functional>
#include <optional>
#include <string>

#include <cubepi/agent/tool.hpp>
#include <cubepi/core/message_list.hpp>

namespace cubepi::detail {

/// Returns the tool `recall`, by which a model reads the messages of a history: those that contain a text, or one of them
/// by its number. `history_of` returns the history of a run; nothing while it must not be read.
AgentTool recall_tool(
    std::function<std::optional<MessageList>(const std::string& run_id)> history_of);

}  // namespace cubepi::detail
