#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace cubepi::detail {

/// A hash of texts that is the same in every process (FNV-1a). A collision, with a probability of 2^-64, must be harmless.
class Fingerprint {
public:
    /// Adds a text and its end.
    void add(std::string_view text) noexcept {
        for (const char c : text) hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 1099511628211u;
        hash_ = (hash_ ^ 0xffu) * 1099511628211u;
    }
    std::uint64_t value() const noexcept { return hash_; }
    /// Returns 16 hexadecimal digits.
    std::string text() const {
        char digits[17];
        std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash_));
        return digits;
    }

private:
    std::uint64_t hash_ = 14695981039346656037u;
};

}  // namespace cubepi::detail
