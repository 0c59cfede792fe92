#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <cubepi/core/error.hpp>

// Digests by OpenSSL. In a header, so that only the modules that use it link OpenSSL: the agent alone does not need it.

namespace cubepi::detail {

inline void require_digest(bool succeeded) {
    if (!succeeded) {
        throw Error(ErrorCode::unsupported,
                    "OpenSSL does not offer a digest that is needed (a FIPS configuration?)");
    }
}

/// Returns the bytes of a digest. Throws Error(unsupported) if OpenSSL does not offer it, as all of these functions do. Thread-safe.
inline std::string digest_bytes(const EVP_MD* kind, std::string_view bytes) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> made = {};
    unsigned int size = 0;
    require_digest(EVP_Digest(bytes.data(), bytes.size(), made.data(), &size, kind, nullptr) == 1);
    return std::string(made.begin(), made.begin() + size);
}

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

inline std::string sha256_bytes(std::string_view bytes) {
    return digest_bytes(EVP_sha256(), bytes);
}
/// Returns 64 hexadecimal digits.
inline std::string sha256_hex(std::string_view bytes) { return hex_of(sha256_bytes(bytes)); }
/// MD5 names the files of Bub's tapes; it does not protect anything.
inline std::string md5_hex(std::string_view bytes) {
    return hex_of(digest_bytes(EVP_md5(), bytes));
}

/// The SHA-256 of bytes that arrive in pieces, also for threads of a pool: its end frees the state that OpenSSL has for the calling thread,
/// because such a thread may live until the end of the process.
class Sha256 {
public:
    Sha256() {
        require_digest(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
    }
    Sha256(const Sha256&) = delete;
    Sha256& operator=(const Sha256&) = delete;

    void add(std::string_view bytes) {
        require_digest(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
    }
    /// Returns 64 hexadecimal digits. Called once, at the end.
    std::string hex() {
        std::array<unsigned char, EVP_MAX_MD_SIZE> made = {};
        unsigned int size = 0;
        require_digest(EVP_DigestFinal_ex(context_.get(), made.data(), &size) == 1);
        return hex_of(std::string(made.begin(), made.begin() + size));
    }

    /// Returns the digest of all bytes at once.
    static std::string of(std::string_view bytes) {
        Sha256 digest;
        digest.add(bytes);
        return digest.hex();
    }

private:
    struct End {
        void operator()(EVP_MD_CTX* context) const {
            EVP_MD_CTX_free(context);
            OPENSSL_thread_stop();
        }
    };
    std::unique_ptr<EVP_MD_CTX, End> context_{EVP_MD_CTX_new()};
};

}  // namespace cubepi::detail
