#pragma once

#include <memory>

#include <cubepi/agent/hitl_channel.hpp>
#include <cubepi/agent/tool.hpp>

namespace cubepi {

/// Returns the tool `ask_user`, with which the model asks the user questions, free or with options, and waits for the
/// answers. Its calls run one at a time.
///
/// `details.hitl` of the result has the answers by key ({"kind": "ask", "answers": {...}}), or the outcome "timed_out" or
/// "cancelled" of a request that was not answered, which is an error result.
AgentTool ask_user_tool(std::shared_ptr<HitlChannel> channel);

}  // namespace cubepi
