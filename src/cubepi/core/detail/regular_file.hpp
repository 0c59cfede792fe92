#pragma once

#include <filesystem>
#include <string_view>

namespace cubepi::detail {

/// What a mode of stat(2) says when it is no regular file's: "a pipe", "a folder"; empty for a file's.
std::string_view kind_if_no_file(unsigned mode) noexcept;

/// The same of what stands at `path`, behind links; empty as well where nothing can be found. To open a pipe is to wait for its
/// other end: who reads a file by its name alone asks this first.
std::string_view kind_if_no_file(const std::filesystem::path& path) noexcept;

}  // namespace cubepi::detail
