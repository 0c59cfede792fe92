#pragma once

#include <string>
#include <string_view>

namespace cubepi::detail {

/// Checks that atomic_write() could replace or create `name` in `directory`. True when it exists. Throws Error.
bool check_replaceable(int directory, const std::string& name, const std::string& path);

/// Writes `content` under another name in `directory` and renames it to `name`; an existing file's mode is kept, and its
/// owner where the system allows it. `path` is for error texts. True when the file is new. Throws Error.
bool atomic_write(int directory, const std::string& name, std::string_view content,
                  const std::string& path);

}  // namespace cubepi::detail
