#include <cubepi/core/support/digest.hpp>

#include <array>

#include <openssl/evp.h>

#include <cubepi/core/error.hpp>

namespace cubepi::detail {

namespace {

std::string digest(const EVP_MD* kind, std::string_view bytes) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> made = {};
    unsigned int size = 0;
    if (EVP_Digest(bytes.data(), bytes.size(), made.data(), &size, kind, nullptr) != 1) {
        throw Error(ErrorCode::unsupported,
                    "OpenSSL does not offer a digest that is needed (a FIPS configuration?)");
    }
    return std::string(made.begin(), made.begin() + size);
}

std::string hex(std::string_view bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text;
    text.reserve(bytes.size() * 2);
    for (const char c : bytes) {
        const auto byte = static_cast<unsigned char>(c);
        text += digits[byte >> 4U];
        text += digits[byte & 15U];
    }
    return text;
}

}  // namespace

std::string sha256_bytes(std::string_view bytes) { return digest(EVP_sha256(), bytes); }
std::string sha256_hex(std::string_view bytes) { return hex(sha256_bytes(bytes)); }
std::string md5_hex(std::string_view bytes) { return hex(digest(EVP_md5(), bytes)); }

}  // namespace cubepi::detail
