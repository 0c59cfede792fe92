#pragma once

#include <filesystem>
#include <iosfwd>
#include <memory>
#include <string>

#include <cubepi/core/runtime.hpp>
#include <cubepi/mcp/credentials.hpp>
#include <cubepi/mcp/oauth_session.hpp>

namespace cubepi::app {

/// Returns the store of the tokens for an MCP server: a file that only this user can read, and which is replaced as a whole. Tokens
/// that were issued for another URL under the same name are not used. Its errors name the file.
std::shared_ptr<McpCredentialStore> credential_file(const std::string& server,
                                                    const std::string& url,
                                                    std::shared_ptr<const Runtime> runtime);

/// Removes the file. Returns false if there is none. Throws Error(io).
bool remove_credential_file(const std::string& server);

/// Returns the contents of a file of at most 64 KiB. Throws Error(io) that names the file.
std::string read_small_file(const std::filesystem::path& path);

/// Returns the dialog of `cubepi mcp login`: it prints the address of the page, and waits until a browser of this machine is redirected
/// to a free port of 127.0.0.1, or a line of standard input is the address to which a browser elsewhere was redirected. `out` must
/// outlive it.
std::shared_ptr<McpLoginUi> login_prompt(std::ostream& out);

}  // namespace cubepi::app
