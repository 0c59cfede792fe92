#pragma once

#include <string>
#include <string_view>

namespace bub::detail {

/// In lower-case hex.
std::string md5_hex(std::string_view bytes);
std::string sha256_hex(std::string_view bytes);

/// Sets OpenSSL up. What that takes belongs to the thread that does it, and OpenSSL 3.0 loses it when that thread is a
/// worker which ends: to be called on a thread that lasts, before workers make digests.
void prepare_digests();

}  // namespace bub::detail
