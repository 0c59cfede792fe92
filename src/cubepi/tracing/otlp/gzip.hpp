#pragma once

#include <string>
#include <string_view>

namespace cubepi::detail {

/// Compresses to the gzip format (RFC 1952). Throws std::bad_alloc.
std::string gzip(std::string_view bytes);

}  // namespace cubepi::detail
