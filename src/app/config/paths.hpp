#pragma once

#include <filesystem>
#include <string>

namespace cubepi::app {

// Where the program keeps its things, by the XDG base directory specification.

/// $XDG_CONFIG_HOME/cubepi/config.yaml
std::filesystem::path config_path();
/// $XDG_DATA_HOME/cubepi/sessions.db
std::filesystem::path sessions_path();
/// $XDG_STATE_HOME/cubepi/history, its directory made; empty where it cannot be, since one can talk without a history.
std::filesystem::path history_path();

/// Makes the directory of `file` with mode 0700 when it is missing. Throws Error(storage) that says what to do; `variable`
/// says where such files are.
void make_private_directory(const std::filesystem::path& file, const std::string& variable);

}  // namespace cubepi::app
