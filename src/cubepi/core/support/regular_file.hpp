#pragma once

#include <filesystem>
#include <string_view>

namespace cubepi::detail {

/// Names the kind of file for a mode of stat(2) that is not a regular file's: "a pipe", "a directory"; empty for a regular
/// file.
std::string_view kind_if_not_regular(unsigned mode) noexcept;

/// The same for the file at `path`, following symbolic links; also empty if the file cannot be examined. Opening a pipe
/// blocks until its other end is opened: check a path with this before reading it.
std::string_view kind_if_not_regular(const std::filesystem::path& path) noexcept;

}  // namespace cubepi::detail
