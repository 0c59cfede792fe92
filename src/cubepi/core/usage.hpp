#pragma once

#include <cstdint>
#include <optional>

namespace cubepi {

/// A number of tokens that may not have been reported. Absent is not zero (D12).
class TokenCount {
public:
    constexpr TokenCount() noexcept = default;
    /// A negative number stands for none.
    constexpr TokenCount(std::int64_t value) noexcept : value_(value < 0 ? -1 : value) {}

    constexpr bool has_value() const noexcept { return value_ >= 0; }
    constexpr explicit operator bool() const noexcept { return has_value(); }
    constexpr std::int64_t operator*() const noexcept { return value_; }
    constexpr std::int64_t value_or(std::int64_t other) const noexcept {
        return has_value() ? value_ : other;
    }
    friend constexpr bool operator==(TokenCount, TokenCount) noexcept = default;

private:
    std::int64_t value_ = -1;
};

/// Tokens of one model call, or of a run. The whole prompt is input + cache_read + cache_write.
struct Usage {
    TokenCount input_tokens = {};  ///< the uncached part of the prompt, on every provider
    TokenCount output_tokens = {};
    TokenCount cache_read_tokens = {};
    TokenCount cache_write_tokens = {};
    TokenCount reasoning_tokens = {};       ///< part of output_tokens
    TokenCount cache_write_1h_tokens = {};  ///< part of cache_write_tokens: kept for an hour

    /// Adds what `other` reports; what neither reports stays absent.
    Usage& operator+=(const Usage& other) noexcept;
    friend bool operator==(const Usage&, const Usage&) = default;
};

}  // namespace cubepi
