#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <variant>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/schema/detail/reflect.hpp>

namespace cubepi::detail {

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

template <class T>
inline constexpr bool is_vector = false;
template <class T, class A>
inline constexpr bool is_vector<std::vector<T, A>> = true;

template <class T>
inline constexpr bool is_array = false;
template <class T, std::size_t N>
inline constexpr bool is_array<std::array<T, N>> = true;

template <class T>
inline constexpr bool is_variant = false;
template <class... T>
inline constexpr bool is_variant<std::variant<T...>> = true;

template <class T>
inline constexpr bool is_string_map = false;
template <class T, class C, class A>
inline constexpr bool is_string_map<std::map<std::string, T, C, A>> = true;
template <class T, class H, class E, class A>
inline constexpr bool is_string_map<std::unordered_map<std::string, T, H, E, A>> = true;

template <class T>
inline constexpr bool is_json =
    std::is_same_v<T, Json> || std::is_same_v<T, JsonObject> || std::is_same_v<T, JsonArray>;

// Character types are excluded: it is ambiguous whether `char` is a letter or a number.
template <class T>
inline constexpr bool is_integer =
    std::is_same_v<T, signed char> || std::is_same_v<T, unsigned char> ||
    std::is_same_v<T, short> || std::is_same_v<T, unsigned short> || std::is_same_v<T, int> ||
    std::is_same_v<T, unsigned> || std::is_same_v<T, long> || std::is_same_v<T, unsigned long> ||
    std::is_same_v<T, long long> || std::is_same_v<T, unsigned long long>;

template <class T>
inline constexpr bool is_float = std::is_same_v<T, float> || std::is_same_v<T, double>;

template <class T>
inline constexpr bool is_json_struct =
    !is_json<T> && !is_array<T> && !std::is_same_v<T, std::monostate> && PlainStruct<T>;

template <class T>
inline constexpr bool is_supported =
    is_json<T> || std::is_same_v<T, bool> || is_integer<T> || is_float<T> || std::is_enum_v<T> ||
    std::is_same_v<T, std::string> || std::is_same_v<T, std::monostate> || is_optional<T> ||
    is_vector<T> || is_array<T> || is_variant<T> || is_string_map<T> || is_json_struct<T>;

template <class T>
consteval void check_supported() {
    static_assert(is_supported<T>,
                  "cubepi: this type cannot be turned into JSON; use bool, an integer (not char), "
                  "float, double, "
                  "std::string, an enum class, std::optional, std::vector, std::array, "
                  "std::map<std::string, T>, "
                  "std::variant, cubepi::Json, or a plain struct of these (no constructors, "
                  "private fields or bases)");
    if constexpr (is_json_struct<T>) check_struct<T>();
}

}  // namespace cubepi::detail
