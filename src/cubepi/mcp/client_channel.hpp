#pragma once

#include <memory>

#include <cubepi/agent/hitl_channel.hpp>
#include <cubepi/mcp/server_features.hpp>

namespace cubepi {

/// Returns a channel whose questions are forms for the user of the client of a request: approvals of hooks, and questions of tools. It
/// is used while the request is answered, in the order of its questions, which must be the same if the request is repeated
/// (McpRequest::ask()). A form that the user declines is a refusal, one that is dismissed throws HitlCancelled.
std::shared_ptr<HitlChannel> mcp_client_channel(McpRequest& request);

}  // namespace cubepi
