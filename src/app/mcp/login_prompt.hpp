#pragma once

#include <iosfwd>
#include <memory>

#include <cubepi/mcp/oauth_session.hpp>

namespace cubepi::app {

/// Returns the dialog of `cubepi mcp login`: it prints the address of the page, and waits until a browser of this machine is redirected
/// to a free port of 127.0.0.1, or a line of standard input is the address to which a browser elsewhere was redirected. `out` must
/// outlive it.
std::shared_ptr<McpLoginUi> login_prompt(std::ostream& out);

}  // namespace cubepi::app
