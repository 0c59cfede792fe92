#pragma once

#include <string>

namespace cubepi::detail {

/// Throws the Error that fits `errno_code`: "cannot <action> <path>: <why>. <what to do>".
[[noreturn]] void throw_file_error(const std::string& action, const std::string& path,
                                   int errno_code);

}  // namespace cubepi::detail
