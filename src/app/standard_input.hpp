#pragma once

#include <cstddef>
#include <string>

namespace cubepi::app {

/// The text on standard input if it is a pipe, a file or a socket; empty for a terminal or a device, which may never end.
/// Invalid UTF-8 is replaced. Throws Error(invalid_argument) for binary data and for more than `mebibytes` MiB.
std::string piped_input(std::size_t mebibytes);

}  // namespace cubepi::app
