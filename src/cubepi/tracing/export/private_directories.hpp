#pragma once

#include <filesystem>

namespace cubepi::detail {

/// Creates a directory and those above it, readable only by their owner. A failure shows when a file in it is opened.
void make_private_directories(const std::filesystem::path& path);

}  // namespace cubepi::detail
