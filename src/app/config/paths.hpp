#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace cubepi::app {

// Paths of the program's files, by the XDG base directory specification.

/// $XDG_CONFIG_HOME/cubepi/config.yaml
std::filesystem::path config_path();
/// $XDG_DATA_HOME/cubepi/sessions.db
std::filesystem::path sessions_path();
/// $XDG_DATA_HOME/cubepi/mcp/SERVER.json: the tokens for an MCP server.
std::filesystem::path mcp_credentials_path(const std::string& server);
/// $XDG_STATE_HOME/cubepi/history; creates its directory. Empty if that fails, since a chat works without a history.
std::filesystem::path history_path();

/// $XDG_STATE_HOME/cubepi/checkpoints: copies of files from before tools changed them, a directory for each session.
std::filesystem::path checkpoints_path();

/// $XDG_STATE_HOME/cubepi/trust: the records of trusted projects.
std::filesystem::path trust_directory();

/// $XDG_DATA_HOME/cubepi/gateway: the default of the directory with the workspaces of the gateway's sessions.
std::filesystem::path gateway_root();
/// The socket through which other processes of this user control the gateway, in Bub's directory. (Not in $XDG_RUNTIME_DIR, which
/// a shell by sudo or ssh may not have.)
std::filesystem::path gateway_socket();
/// The files of `cubepi web` for a directory, in Bub's directory: NAME.sock is its socket, and in NAME are its messages.
std::filesystem::path served_directory_files(const std::filesystem::path& directory);
/// Replaces a leading `~/` by the home directory.
std::filesystem::path expand_home(const std::filesystem::path& path);

/// Creates the directory of `file` with mode 0700 if it is missing. Throws Error(storage) with the remedy; `variable`
/// names the environment variable that sets the location.
void make_private_directory(const std::filesystem::path& file, const std::string& variable);

/// Creates a file for writing. An existing file is replaced only if `replace`. Throws Error: invalid_argument if the file
/// exists, io if it cannot be written.
std::ofstream create_file(const std::filesystem::path& path, bool replace);

}  // namespace cubepi::app
