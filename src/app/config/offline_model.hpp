#pragma once

#include <string>

#include <cubepi/provider/provider.hpp>

namespace cubepi::app {

/// The scripted model of --offline: identifies itself as one, and uses the tools for prompts about files. With a
/// script (a JSON file, docs/cli.md) it returns the answers of the script in order. Throws Error for a script that
/// cannot be read.
BoundModel offline_model(const std::string& script_path);

}  // namespace cubepi::app
