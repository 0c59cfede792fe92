#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace cubepi::detail {

/// Returns the number of which the whole text consists, without blanks or a plus sign; nothing for any other text. `format`: as of
/// std::from_chars(), a base or a std::chars_format.
template <class Number, class... Format>
std::optional<Number> parsed_number(std::string_view text, Format... format) {
    Number number{};
    const char* const end = text.data() + text.size();
    const auto [stop, failed] = std::from_chars(text.data(), end, number, format...);
    if (failed != std::errc() || stop != end) return std::nullopt;
    return number;
}

}  // namespace cubepi::detail
