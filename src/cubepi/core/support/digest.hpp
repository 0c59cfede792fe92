#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace cubepi::detail {

/// Returns the SHA-256 of `bytes` as 64 hexadecimal digits. Throws Error(unsupported) if OpenSSL does not offer it. Thread-safe.
std::string sha256_hex(std::string_view bytes);
/// The same for MD5, which names the files of Bub's tapes; it does not protect anything.
std::string md5_hex(std::string_view bytes);

/// Returns the bytes of the SHA-256.
std::string sha256_bytes(std::string_view bytes);

/// The SHA-256 of bytes that arrive in pieces, also for threads of a pool: its end frees the state that OpenSSL has for the calling thread,
/// because such a thread may live until the end of the process.
class Sha256 {
public:
    Sha256();
    ~Sha256();
    Sha256(const Sha256&) = delete;
    Sha256& operator=(const Sha256&) = delete;

    void add(std::string_view bytes);
    /// Returns 64 hexadecimal digits. Called once, at the end.
    std::string hex();

    /// Returns the digest of all bytes at once.
    static std::string of(std::string_view bytes);

private:
    struct Context;
    std::unique_ptr<Context> context_;
};

}  // namespace cubepi::detail
