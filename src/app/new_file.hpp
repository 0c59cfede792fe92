#pragma once

#include <filesystem>
#include <fstream>

namespace cubepi::app {

/// Creates a file for writing. An existing file is replaced only if `replace`. Throws Error: invalid_argument if the file
/// exists, io if it cannot be written.
std::ofstream create_file(const std::filesystem::path& path, bool replace);

}  // namespace cubepi::app
