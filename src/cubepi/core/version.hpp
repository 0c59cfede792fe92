#pragma once

#include <string_view>

/// The version of these headers, as numbers for `#if` and as text. This is the only place that states it: the root CMakeLists.txt
/// reads the numbers, so the build, the packages and the program have the same version.
#define CUBEPI_VERSION_MAJOR 0
#define CUBEPI_VERSION_MINOR 1
#define CUBEPI_VERSION_PATCH 0

#define CUBEPI_DETAIL_TEXT_OF(x) #x
#define CUBEPI_DETAIL_VERSION(major, minor, patch) \
    CUBEPI_DETAIL_TEXT_OF(major) "." CUBEPI_DETAIL_TEXT_OF(minor) "." CUBEPI_DETAIL_TEXT_OF(patch)
#define CUBEPI_VERSION \
    CUBEPI_DETAIL_VERSION(CUBEPI_VERSION_MAJOR, CUBEPI_VERSION_MINOR, CUBEPI_VERSION_PATCH)

namespace cubepi {

/// Returns the version of the library that the program runs with, such as "0.1.0". With shared libraries it may be another
/// patch release than CUBEPI_VERSION, the version that the program was compiled with.
std::string_view version() noexcept;

}  // namespace cubepi
