#pragma once

#include <chrono>
#include <string>

namespace cubepi {

/// Formats a number in decimal notation with the fewest digits that read back as the same value: "1.5", "120", "0.002".
/// Magnitudes that need many zeros have an exponent ("1e+25"); infinities and NaN are "inf", "-inf" and "nan".
std::string number_text(double value);

/// Formats a duration in seconds with its unit, exact to the microsecond: "120 s", "1.5 s".
std::string seconds_text(std::chrono::nanoseconds duration);

/// Formats a duration that is not negative in seconds, rounded to tenths: "0.5 s", "12.0 s".
std::string rounded_seconds_text(std::chrono::nanoseconds duration);

}  // namespace cubepi
