#pragma once

#include <memory>

#include <cubepi/core/task.hpp>
#include <cubepi/mcp/server.hpp>

namespace cubepi::detail {

/// Serves one client on a stream of lines; see McpServer::serve(). `server` must outlive the task.
Task<> serve_mcp_connection(McpServer& server, std::unique_ptr<McpByteStream> stream);

/// Returns a stream over two open descriptors: pipes, sockets, terminals, files, devices. Both stay open; they may be the same one.
/// Throws Error(io) for one that is not open.
std::unique_ptr<McpByteStream> mcp_descriptors(const Executor& executor, int input, int output);

}  // namespace cubepi::detail
