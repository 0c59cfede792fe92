#pragma once

#include <array>
#include <string>
#include <string_view>

#include <openssl/md5.h>
#include <openssl/sha.h>

// Digests by OpenSSL. In a header, so that only the modules that use it link OpenSSL: the agent alone does not need it.
//
// These are the functions of OpenSSL that compute them directly, although it calls them deprecated. The first EVP_Digest of a process loads the
// providers, which takes 2 MB, and each start of the program needs a digest for the name of a tape.

namespace cubepi::detail {

inline std::string hex_of(std::string_view bytes) {
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

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

/// The SHA-256 of bytes that arrive in pieces.
class Sha256 {
public:
    Sha256() { SHA256_Init(&state_); }

    void add(std::string_view bytes) { SHA256_Update(&state_, bytes.data(), bytes.size()); }
    /// Returns the 32 bytes of the digest. Called once, at the end, as hex() is.
    std::string bytes() {
        std::array<unsigned char, SHA256_DIGEST_LENGTH> made = {};
        SHA256_Final(made.data(), &state_);
        return std::string(made.begin(), made.end());
    }
    /// Returns 64 hexadecimal digits.
    std::string hex() { return hex_of(bytes()); }

private:
    SHA256_CTX state_;
};

/// MD5 names the files of Bub's tapes; it does not protect anything.
inline std::string md5_hex(std::string_view bytes) {
    std::array<unsigned char, MD5_DIGEST_LENGTH> made = {};
    MD5_CTX state;
    MD5_Init(&state);
    MD5_Update(&state, bytes.data(), bytes.size());
    MD5_Final(made.data(), &state);
    return hex_of(std::string(made.begin(), made.end()));
}

#pragma GCC diagnostic pop

/// Returns 32 bytes.
inline std::string sha256_bytes(std::string_view bytes) {
    Sha256 digest;
    digest.add(bytes);
    return digest.bytes();
}
/// Returns 64 hexadecimal digits.
inline std::string sha256_hex(std::string_view bytes) { return hex_of(sha256_bytes(bytes)); }

}  // namespace cubepi::detail
