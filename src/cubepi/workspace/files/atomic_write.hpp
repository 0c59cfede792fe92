#pragma once

#include <string>
#include <string_view>

namespace cubepi::detail {

/// Checks that atomic_write() could replace or create `name` in `directory`. Returns whether it exists. Throws Error.
bool check_replaceable(int directory, const std::string& name, const std::string& path);

/// Writes `content` under another name in `directory` and renames it to `name`. Preserves the mode of an existing file, and
/// its owner if the system permits. `path` is for error texts. Returns true if the file is new. Throws Error.
bool atomic_write(int directory, const std::string& name, std::string_view content,
                  const std::string& path);

}  // namespace cubepi::detail
