#pragma once

#include <string>
#include <string_view>

namespace cubepi::testing {

/// Returns the path of a file or directory of the source tree, such as "docs/cli.md".
std::string source_path(std::string_view name);
/// Returns the path of a program that the build makes, such as "cubepi".
std::string built_program(std::string_view name);

}  // namespace cubepi::testing
