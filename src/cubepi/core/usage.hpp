#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace cubepi {

/// A number of tokens that may be unreported. Absent is not zero (D12). Occupies five bytes, because every answer in
/// memory has six of them; values above `most`, about 10^12, are clamped.
class TokenCount {
public:
    static constexpr std::int64_t most = (std::int64_t{1} << 40) - 2;

    constexpr TokenCount() noexcept : TokenCount(-1) {}
    /// A negative number means absent.
    constexpr TokenCount(std::int64_t value) noexcept {
        const auto bits = static_cast<std::uint64_t>(value > most ? most : value < 0 ? -1 : value);
        for (unsigned i = 0; i < bytes_.size(); ++i)
            bytes_[i] = static_cast<std::uint8_t>(bits >> (8 * i));
    }

    constexpr bool has_value() const noexcept { return bits() <= most; }
    constexpr explicit operator bool() const noexcept { return has_value(); }
    constexpr std::int64_t operator*() const noexcept { return bits(); }
    constexpr std::int64_t value_or(std::int64_t other) const noexcept {
        return has_value() ? bits() : other;
    }
    friend constexpr bool operator==(TokenCount, TokenCount) noexcept = default;

private:
    constexpr std::int64_t bits() const noexcept {
        std::uint64_t bits = 0;
        for (unsigned i = 0; i < bytes_.size(); ++i) bits |= std::uint64_t{bytes_[i]} << (8 * i);
        return static_cast<std::int64_t>(bits);
    }

    std::array<std::uint8_t, 5> bytes_;
};

/// Tokens of one model call or of a run. The whole prompt is input + cache_read + cache_write.
struct Usage {
    TokenCount input_tokens = {};  ///< the uncached part of the prompt, on every provider
    TokenCount output_tokens = {};
    TokenCount cache_read_tokens = {};
    TokenCount cache_write_tokens = {};
    TokenCount reasoning_tokens = {};       ///< part of output_tokens
    TokenCount cache_write_1h_tokens = {};  ///< part of cache_write_tokens: stored for an hour

    /// Adds the counts of `other`; counts that neither reports stay absent.
    Usage& operator+=(const Usage& other) noexcept;
    friend bool operator==(const Usage&, const Usage&) = default;
};

}  // namespace cubepi
