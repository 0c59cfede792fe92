#pragma once

#include <sys/stat.h>

#include <filesystem>

namespace cubepi::detail {

/// Creates a directory and those above it, readable only by their owner. A failure shows when a file in it is opened.
inline void make_private_directories(const std::filesystem::path& path) {
    std::filesystem::path built;
    for (const auto& part : path) {
        built /= part;
        ::mkdir(built.c_str(), 0700);
    }
}

}  // namespace cubepi::detail
