#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include <cubepi/workspace/files/unique_fd.hpp>

namespace cubepi::detail {

// Opening files below a directory, without a moment between check and use. `root` is an open directory, `path` is
// relative to it ("" and "." are the directory itself). Symbolic links are followed as long as they stay below, or
// refused (ELOOP) wherever they stand in the path.
// O_CLOEXEC and O_NOCTTY are added to `flags`; creating is not offered (see open_parent_beneath).
// On failure the result is empty and errno is set; EXDEV says that the path leads out of the directory.

enum class Links : bool { refused, followed };

/// With openat2(2) where the kernel has it, else with open_beneath_walk.
UniqueFd open_beneath(int root, const std::string& path, int flags, Links links = Links::followed);

/// The same without openat2(2): one path component after the other.
UniqueFd open_beneath_walk(int root, const std::string& path, int flags,
                           Links links = Links::followed);

/// Opens the directory that holds the last component of `path`, which is stored in `name`. With `create`, missing
/// directories are made, below `root` only.
UniqueFd open_parent_beneath(int root, const std::string& path, bool create, std::string& name,
                             Links links = Links::followed);

/// `path` without empty and "." components and without "/" at its ends. ".." stays.
std::string tidy_path(std::string_view path);

}  // namespace cubepi::detail
