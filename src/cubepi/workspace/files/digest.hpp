#pragma once

#include <string>
#include <string_view>

namespace cubepi::detail {

/// Returns the SHA-256 of the content of a file, in hex. For threads of a pool: the state of OpenSSL of the calling thread is freed,
/// because such a thread may live until the end of the process.
std::string sha256_of(std::string_view content);

}  // namespace cubepi::detail
