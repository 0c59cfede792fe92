#include <cubepi/core/number_text.hpp>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <ratio>

namespace cubepi {

std::string number_text(double value) {
    std::array<char, 32> text{};
    const double size = std::fabs(value);
    // The shortest form alone would be 1e+05 for 100000.
    const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
    const std::to_chars_result end =
        plain
            ? std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed)
            : std::to_chars(text.data(), text.data() + text.size(), value);
    return std::string(text.data(), end.ptr);
}

std::string seconds_text(std::chrono::nanoseconds duration) {
    const auto whole = std::chrono::duration_cast<std::chrono::microseconds>(duration);
    return number_text(static_cast<double>(whole.count()) / 1e6) + " s";
}

std::string rounded_seconds_text(std::chrono::nanoseconds duration) {
    using Tenths = std::chrono::duration<std::int64_t, std::deci>;
    const std::int64_t tenths = std::chrono::round<Tenths>(duration).count();
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

}  // namespace cubepi
