#pragma once

#include <string>
#include <string_view>

namespace cubepi::detail {

/// Returns the SHA-256 of `bytes` as 64 hexadecimal digits. Throws Error(unsupported) if OpenSSL does not offer it. Thread-safe.
std::string sha256_hex(std::string_view bytes);
/// The same for MD5, which names the files of Bub's tapes; it does not protect anything.
std::string md5_hex(std::string_view bytes);

/// Returns the bytes of the SHA-256.
std::string sha256_bytes(std::string_view bytes);

}  // namespace cubepi::detail
