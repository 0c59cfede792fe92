#pragma once

#include <memory>

#include <cubepi/core/task.hpp>
#include <cubepi/mcp/server.hpp>

namespace cubepi::detail {

/// Serves one client on a stream of lines; see McpServer::serve(). `server` must outlive the task.
Task<> serve_mcp_connection(McpServer& server, std::unique_ptr<McpByteStream> stream);

}  // namespace cubepi::detail
