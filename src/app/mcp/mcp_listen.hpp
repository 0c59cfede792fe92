#pragma once

#include <iosfwd>
#include <memory>
#include <string>

#include <cubepi/core/task.hpp>
#include <cubepi/mcp/server.hpp>

namespace cubepi::app {

/// Serves clients over HTTP at an address of this machine ("127.0.0.1:8080"; port 0: a free one) until the process ends, and writes the
/// URL to `output`. Clients need the token of the environment variable CUBEPI_MCP_TOKEN: every user of the machine can reach the address.
/// Throws Error(invalid_argument) for another address and for a missing token.
Task<> serve_mcp_http(std::shared_ptr<McpServer> server, std::string address, std::ostream& output);

}  // namespace cubepi::app
