#pragma once

#include <string_view>

namespace cubepi::detail {

/// Why a write to this path is always asked about: it would change what programs are run or what later sessions are told.
/// Empty for any other path. Goes by names, however they are spelled: without regard to case, to characters that some
/// file systems ignore, and to empty components.
std::string_view protected_because(std::string_view path);

}  // namespace cubepi::detail
