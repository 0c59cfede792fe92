#include <bub/tape/file/digest.hpp>

#include <array>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <cubepi/core/error.hpp>

namespace bub::detail {

namespace {

std::string hex_digest(const EVP_MD* kind, std::string_view bytes) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest = {};
    unsigned int size = 0;
    if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, kind, nullptr) != 1) {
        throw cubepi::Error(cubepi::ErrorCode::unsupported,
                            "OpenSSL refuses the digest that names tapes (a FIPS configuration?)");
    }
    constexpr char digits[] = "0123456789abcdef";
    std::string hex;
    for (unsigned int i = 0; i < size; ++i) {
        hex += digits[digest[i] >> 4U];
        hex += digits[digest[i] & 15U];
    }
    return hex;
}

}  // namespace

std::string md5_hex(std::string_view bytes) { return hex_digest(EVP_md5(), bytes); }
std::string sha256_hex(std::string_view bytes) { return hex_digest(EVP_sha256(), bytes); }
void prepare_digests() { OPENSSL_init_crypto(OPENSSL_INIT_LOAD_CONFIG, nullptr); }

}  // namespace bub::detail
