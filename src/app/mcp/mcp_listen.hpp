#pragma once

#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include <cubepi/core/task.hpp>
#include <cubepi/mcp/server.hpp>

namespace cubepi::app {

/// The access tokens that clients need.
struct McpTokens {
    std::string issuer =
        {};  ///< empty: clients need the token of the environment variable CUBEPI_MCP_TOKEN
    std::string url = {};  ///< McpResourceServerOptions::resource; empty: that of the address
    std::vector<std::string> scopes = {};
};

/// Serves clients over HTTP at an address of this machine ("127.0.0.1:8080"; port 0: a free one) until the process ends, and writes the
/// URL to `output`. Clients need a token: every user of the machine can reach the address. Throws Error(invalid_argument) for another
/// address and for a missing token, and Error if the keys of the issuer cannot be read.
Task<> serve_mcp_http(std::shared_ptr<McpServer> server, std::string address, McpTokens tokens,
                      std::ostream& output);

}  // namespace cubepi::app
