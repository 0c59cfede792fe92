#pragma once

#include <cstddef>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

// Names of enumerators without macros: __PRETTY_FUNCTION__ contains a list of values of the enum, as "E::name" if an
// enumerator has the value and "(E)12" if none has.

namespace cubepi {

/// The values of an enum whose enumerators have names in JSON and in schemas, inclusive. At most 4096 values.
struct EnumRange {
    int low = -128;
    int high = 255;
};

/// The range of one enum. Specialize it for an enum with other values, in namespace cubepi and before the enum is used:
/// `template <> inline constexpr EnumRange enum_range<HttpStatus> = {100, 599};`
template <class E>
inline constexpr EnumRange enum_range = {};

}  // namespace cubepi

namespace cubepi::detail {

template <class E>
concept FixedEnum = std::is_enum_v<E> && requires { E{0}; };

struct EnumEntry {
    std::string_view name;
    long long value;
};

template <class E, E... Values>
constexpr std::string_view spelled_enum() {
    return __PRETTY_FUNCTION__;
}

// The list of values within the spelling. Both compilers end with it: GCC "... E ...Values = {E::a, (E)1};
// std::string_view = ...]", Clang "... Values = <E::a, (E)1>]". The two are distinguished by the text and not by the
// compiler that includes this header.
constexpr std::string_view enum_list(std::string_view spelling) {
    constexpr std::string_view assignment = "Values = ";
    auto start = spelling.find(assignment);
    if (start == std::string_view::npos) return {};
    start += assignment.size();
    const auto end = spelling.substr(start, 1) == "<" ? spelling.rfind(">]") : spelling.rfind("};");
    if (end == std::string_view::npos || end <= start) return {};
    return spelling.substr(start + 1, end - start - 1);
}

/// Calls `visit(name, index)` for each value of a spelled list that has a name. The names of enclosing scopes may
/// contain any bracket ("(anonymous namespace)", "f()::Local", template arguments), so the list is split at ", "
/// outside brackets.
template <class Visit>
constexpr void for_each_enum_name(std::string_view spelling, Visit&& visit) {
    const std::string_view list = enum_list(spelling);
    if (list.empty()) return;
    int depth = 0;
    std::size_t item = 0;
    long long index = 0;
    for (std::size_t at = 0; at <= list.size(); ++at) {
        const char c = at < list.size() ? list[at] : ',';
        if (c == '(' || c == '<' || c == '{') ++depth;
        if (c == ')' || c == '>' || c == '}') --depth;
        if (c != ',' || depth != 0) continue;
        auto text = list.substr(item, at - item);
        while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
        const auto colon = text.rfind(':');
        const auto name = colon == std::string_view::npos ? text : text.substr(colon + 1);
        const bool named = !name.empty() && name.find(')') == std::string_view::npos &&
                           !(name.front() >= '0' && name.front() <= '9') && name.front() != '-';
        if (named) visit(name, index);
        ++index;
        item = at + 1;
    }
}

// Defined in enum_names.cpp: cuts the compiler's spelling into entries; `first` is the first value.
std::vector<EnumEntry> parse_enum_spelling(std::string_view spelling, long long first);

/// The number of characters of a value, with its sign.
constexpr std::size_t decimal_size(long long value) {
    std::size_t size = value < 0 ? 2 : 1;
    for (; value > 9 || value < -9; value /= 10) ++size;
    return size;
}

/// Returns true if a spelled list of `count` values from `first` has no name: "(E)7, (E)8, ...". False: it may have names.
/// Compares lengths, and looks only at the characters before each number: a name is never followed by ")" and a number.
/// Reading all characters of 2,000 values would take a compiler a second.
constexpr bool is_list_without_names(std::string_view list, long long first, std::size_t count) {
    std::size_t others = 2 * (count - 1);  // the separators and the numbers
    for (std::size_t i = 0; i < count; ++i)
        others += decimal_size(first + static_cast<long long>(i));
    if (list.size() <= others || (list.size() - others) % count != 0) return false;
    const std::size_t type_size = (list.size() - others) / count;
    std::size_t at = 0;
    for (std::size_t i = 0; i < count; ++i) {
        if (i > 0 && (list[at - 2] != ',' || list[at - 1] != ' ')) return false;
        const std::size_t number = at + type_size;
        const bool is_digit = list[number] >= '0' && list[number] <= '9';
        if (list[number - 1] != ')' || !(is_digit || list[number] == '-')) return false;
        at = number + decimal_size(first + static_cast<long long>(i)) + 2;
    }
    return true;
}

template <class E, long long First, std::size_t... Offset>
constexpr bool names_any_of(std::index_sequence<Offset...>) {
    constexpr std::string_view spelling =
        spelled_enum<E, static_cast<E>(First + static_cast<long long>(Offset))...>();
    if (is_list_without_names(enum_list(spelling), First, sizeof...(Offset))) return false;
    bool any = false;
    for_each_enum_name(spelling, [&any](std::string_view, long long) { any = true; });
    return any;
}

// A variable, so that it is a constant expression of its own: compilers limit the steps of one.
template <class E, long long First, std::size_t Count>
inline constexpr bool names_any_piece = names_any_of<E, First>(std::make_index_sequence<Count>{});

/// Returns true if an enumerator of `E` has a value from `First` to `Last` that the underlying type can represent.
template <class E, long long First, long long Last>
consteval bool names_any_in() {
    using Limits = std::numeric_limits<std::underlying_type_t<E>>;
    constexpr long long piece = 64;
    constexpr long long low = First < static_cast<long long>(Limits::min())
                                  ? static_cast<long long>(Limits::min())
                                  : First;
    constexpr bool unlimited = sizeof(std::underlying_type_t<E>) >= sizeof(long long);
    constexpr long long high = !unlimited && Last > static_cast<long long>(Limits::max())
                                   ? static_cast<long long>(Limits::max())
                                   : Last;
    if constexpr (low > high) {
        return false;
    } else if constexpr (high - low < piece) {
        return names_any_piece<E, low, static_cast<std::size_t>(high - low + 1)>;
    } else {
        return names_any_piece<E, low, static_cast<std::size_t>(piece)> ||
               names_any_in<E, low + piece, high>();
    }
}

/// Returns true if an enumerator is a power of two above `Above`, as flags are.
template <class E, int Above, int Bit = 0>
consteval bool names_a_flag_above() {
    constexpr int bits = std::numeric_limits<std::underlying_type_t<E>>::digits;
    if constexpr (Bit >= bits || Bit >= 63) {
        return false;
    } else if constexpr ((1LL << Bit) <= Above) {
        return names_a_flag_above<E, Above, Bit + 1>();
    } else {
        return names_any_in<E, (1LL << Bit), (1LL << Bit)>() ||
               names_a_flag_above<E, Above, Bit + 1>();
    }
}

// The distance beyond the range in which enumerators are searched. Further away only flags are found, because C++20
// cannot enumerate all values of an enum.
inline constexpr int enum_search_distance = 1024;

template <class E>
consteval void check_enum() {
    static_assert(
        FixedEnum<E>,
        "cubepi: an enum for JSON must be an `enum class` or have a fixed underlying type");
    if constexpr (FixedEnum<E> && !std::is_same_v<std::underlying_type_t<E>, bool>) {
        constexpr EnumRange range = enum_range<E>;
        static_assert(range.low <= range.high && range.high - range.low < 4096,
                      "cubepi: an enum_range has at least one value and at most 4096");
        static_assert(
            !names_any_in<E, static_cast<long long>(range.low) - enum_search_distance,
                          static_cast<long long>(range.low) - 1>() &&
                !names_any_in<E, static_cast<long long>(range.high) + 1,
                              static_cast<long long>(range.high) + enum_search_distance>() &&
                !names_a_flag_above<E, range.high>(),
            "cubepi: an enumerator of this enum lies outside of its enum_range (-128 to 255 unless "
            "specialized), so it would have no name in JSON; specialize cubepi::enum_range");
    }
}

/// Returns the entries of `E` in order of value, within enum_range<E>. If several enumerators have one value, the first
/// counts.
template <class E>
const std::vector<EnumEntry>& enum_entries() {
    check_enum<E>();
    using Under = std::underlying_type_t<E>;
    constexpr bool is_bool = std::is_same_v<Under, bool>;
    constexpr EnumRange range = enum_range<E>;
    constexpr int low = is_bool || (std::is_unsigned_v<Under> && range.low < 0) ? 0
                        : sizeof(Under) == 1 && range.low < -128                ? -128
                                                                                : range.low;
    constexpr int byte_high = std::is_signed_v<Under> ? 127 : 255;
    constexpr int high = is_bool                                        ? 1
                         : sizeof(Under) == 1 && range.high > byte_high ? byte_high
                                                                        : range.high;
    static const std::vector<EnumEntry> entries = [] {
        constexpr auto spelling = []<int... Offset>(std::integer_sequence<int, Offset...>) {
            return spelled_enum<E, static_cast<E>(low + Offset)...>();
        }(std::make_integer_sequence<int, high - low + 1>{});
        return parse_enum_spelling(spelling, low);
    }();
    return entries;
}

}  // namespace cubepi::detail
