#pragma once

#include <memory>

#include <cubepi/agent/tool.hpp>
#include <cubepi/core/message_list.hpp>

namespace cubepi::detail {

/// Returns the tool `recall`, by which a model reads the messages of `history`: those that contain a text, or one of them
/// by its number.
AgentTool recall_tool(std::shared_ptr<const MessageList> history);

}  // namespace cubepi::detail
