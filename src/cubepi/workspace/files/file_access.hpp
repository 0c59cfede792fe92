#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

#include <cubepi/core/support/posix_file.hpp>

namespace cubepi::detail {

// Opens files below a directory without a race between check and use. `root` is an open directory, `path` is relative to it
// ("" and "." are the directory itself). Symbolic links are followed if they stay below the root, or refused (ELOOP) anywhere
// in the path.
// O_CLOEXEC and O_NOCTTY are added to `flags`; creating files is not supported (see open_parent_beneath).
// On failure the result is empty and errno is set; EXDEV means that the path leads out of the directory.

enum class Links : bool { refused, followed };

/// Uses openat2(2) if the kernel supports it, else open_beneath_walk.
UniqueFd open_beneath(int root, const std::string& path, int flags, Links links = Links::followed);

/// Opens the file without openat2(2), one path component at a time.
UniqueFd open_beneath_walk(int root, const std::string& path, int flags,
                           Links links = Links::followed);

/// Opens the parent directory of the last component of `path` and stores that component in `name`. With `create`, creates
/// missing directories, only below `root`.
UniqueFd open_parent_beneath(int root, const std::string& path, bool create, std::string& name,
                             Links links = Links::followed);

/// Returns `path` without empty and "." components and without leading and trailing "/". Keeps "..".
std::string tidy_path(std::string_view path);

/// Checks that atomic_write() could replace or create `name` in `directory`. Returns whether it exists. Throws Error.
bool check_replaceable(int directory, const std::string& name, const std::string& path);

/// Writes `content` under another name in `directory` and renames it to `name`. Preserves the mode of an existing file, and
/// its owner if the system permits; `mode` replaces the mode. `path` is for error texts. Returns true if the file is new.
/// Throws Error.
bool atomic_write(int directory, const std::string& name, std::string_view content,
                  const std::string& path, std::optional<unsigned> mode = {});

/// Creates a directory for this user only (0700) with its parents, unless it exists. Throws Error: io, and permission_denied
/// if others can access it, or if it is not a directory of this user.
void make_private_directory(const std::filesystem::path& directory);

/// Throws the Error for `errno_code`: "cannot <action> <path>: <reason>. <remedy>".
[[noreturn]] void throw_file_error(const std::string& action, const std::string& path,
                                   int errno_code);

}  // namespace cubepi::detail
