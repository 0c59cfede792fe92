#pragma once

#include <limits>
#include <optional>

namespace cubepi {

/// An optional Unix time in seconds, in one word. Used like std::optional<double>.
class UnixTime {
public:
    constexpr UnixTime() noexcept = default;
    constexpr UnixTime(std::nullopt_t) noexcept {}
    /// NaN means absent.
    constexpr UnixTime(double seconds) noexcept : seconds_(seconds) {}
    constexpr UnixTime(std::optional<double> seconds) noexcept
        : seconds_(seconds ? *seconds : none) {}

    constexpr bool has_value() const noexcept { return seconds_ == seconds_; }
    constexpr explicit operator bool() const noexcept { return has_value(); }
    constexpr double operator*() const noexcept { return seconds_; }
    constexpr double value_or(double other) const noexcept {
        return has_value() ? seconds_ : other;
    }
    constexpr void reset() noexcept { seconds_ = none; }
    constexpr operator std::optional<double>() const noexcept {
        return has_value() ? std::optional<double>(seconds_) : std::nullopt;
    }

    friend constexpr bool operator==(UnixTime a, UnixTime b) noexcept {
        return a.seconds_ == b.seconds_ || (!a.has_value() && !b.has_value());
    }

private:
    static constexpr double none = std::numeric_limits<double>::quiet_NaN();
    double seconds_ = none;
};

}  // namespace cubepi
