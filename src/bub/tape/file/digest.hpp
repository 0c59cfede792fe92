#pragma once

#include <string>
#include <string_view>

namespace bub::detail {

/// Return lower-case hex.
std::string md5_hex(std::string_view bytes);
std::string sha256_hex(std::string_view bytes);

/// Initializes OpenSSL. OpenSSL 3.0 binds the required resources to the calling thread and loses them when that thread
/// ends; call this on a long-lived thread before workers compute digests.
void prepare_digests();

}  // namespace bub::detail
