#pragma once

#include <string>
#include <string_view>

namespace bub::detail {

/// In lower-case hex.
std::string md5_hex(std::string_view bytes);
std::string sha256_hex(std::string_view bytes);

}  // namespace bub::detail
