#pragma once

#include <string>

namespace cubepi::detail {

/// Throws the Error for `errno_code`: "cannot <action> <path>: <reason>. <remedy>".
[[noreturn]] void throw_file_error(const std::string& action, const std::string& path,
                                   int errno_code);

}  // namespace cubepi::detail
