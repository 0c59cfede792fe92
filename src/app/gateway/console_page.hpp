#pragma once

#include <span>
#include <string_view>

namespace cubepi::app {

/// A file of the page of the web console, which `make web` builds from web/.
struct ConsoleFile {
    std::string_view name;  ///< below /console/; empty: the page itself
    const char* type;
    std::string_view content;
};

std::span<const ConsoleFile> console_files();

}  // namespace cubepi::app
