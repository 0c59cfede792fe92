#include <cubepi/workspace/files/digest.hpp>

#include <openssl/crypto.h>

#include <cubepi/core/support/digest.hpp>

namespace cubepi::detail {

std::string sha256_of(std::string_view content) {
    std::string digest = sha256_hex(content);
    OPENSSL_thread_stop();
    return digest;
}

}  // namespace cubepi::detail
