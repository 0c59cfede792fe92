#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace cubepi::detail {

/// The SHA-256 of bytes that arrive in pieces.
class Sha256 {
public:
    Sha256();
    ~Sha256();
    Sha256(const Sha256&) = delete;
    Sha256& operator=(const Sha256&) = delete;

    void add(std::string_view bytes);
    /// Returns the digest in hex. Called once, at the end.
    std::string hex();

private:
    struct Context;
    std::unique_ptr<Context> context_;
};

std::string sha256_of(std::string_view bytes);

}  // namespace cubepi::detail
