#pragma once

#include <cstddef>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

// Names of enumerators without macros: the compiler spells a list of values of the enum in
// __PRETTY_FUNCTION__, as "E::name" where an enumerator has the value and "(E)12" where none has.

namespace cubepi::detail {

inline constexpr int lowest_enum_value = -128;
inline constexpr int highest_enum_value = 255;

template <class E>
concept FixedEnum = std::is_enum_v<E> && requires { E{0}; };

struct EnumEntry {
    std::string_view name;
    long long value;
};

// Defined in enum_names.cpp: cuts the compiler's spelling into entries; `first` is the first value.
std::vector<EnumEntry> parse_enum_spelling(std::string_view spelling, long long first);

template <class E, E... Values>
constexpr std::string_view spelled_enum() {
    return __PRETTY_FUNCTION__;
}

/// Entries of `E` in order of value. Enumerators outside [-128, 255] have no name; of several with one
/// value the first counts.
template <class E>
const std::vector<EnumEntry>& enum_entries() {
    static_assert(
        FixedEnum<E>,
        "cubepi: an enum for JSON must be an `enum class` or have a fixed underlying type");
    using Under = std::underlying_type_t<E>;
    constexpr int low =
        std::is_same_v<Under, bool> || std::is_unsigned_v<Under> ? 0 : lowest_enum_value;
    constexpr int high = std::is_same_v<Under, bool> ? 1
                         : sizeof(Under) == 1 && std::is_signed_v<Under>
                             ? static_cast<int>(std::numeric_limits<signed char>::max())
                             : highest_enum_value;
    static const std::vector<EnumEntry> entries = [] {
        constexpr auto spelling = []<int... Offset>(std::integer_sequence<int, Offset...>) {
            return spelled_enum<E, static_cast<E>(low + Offset)...>();
        }(std::make_integer_sequence<int, high - low + 1>{});
        return parse_enum_spelling(spelling, low);
    }();
    return entries;
}

}  // namespace cubepi::detail
