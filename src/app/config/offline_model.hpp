#pragma once

#include <string>

#include <cubepi/provider/provider.hpp>

namespace cubepi::app {

/// The scripted model behind --offline: says that it is one, and uses the tools when asked about files. With a script
/// (a JSON file, docs/cli.md) it answers what stands there, in order. Throws Error for a script that cannot be read.
BoundModel offline_model(const std::string& script_path);

}  // namespace cubepi::app
