#pragma once

#include <string_view>

namespace cubepi::detail {

/// Returns why a write to this path always needs approval: it would change which programs run or the instructions of later
/// sessions. Empty for any other path. Compares names regardless of case, of characters that some file systems ignore, and of
/// empty components.
std::string_view protected_because(std::string_view path);

}  // namespace cubepi::detail
