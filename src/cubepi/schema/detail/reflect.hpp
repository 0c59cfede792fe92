#pragma once

#include <array>
#include <cstddef>
#include <cstdlib>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

// Field names and values of a plain aggregate struct, without macros in the struct. The names come from the compiler's
// spelling of a pointer to each field (__PRETTY_FUNCTION__), which GCC and Clang both provide.

namespace cubepi::detail {

inline constexpr std::size_t max_fields = 48;

// Never called, but defined: a type of an unnamed namespace could not be defined elsewhere.
struct AnyValue {
    template <class T>
    operator T() const {
        std::abort();
    }
};

template <class Struct>
struct AnyBaseOf {
    template <class T>
        requires(std::is_base_of_v<T, Struct> && !std::is_same_v<T, Struct>)
    operator T() const {
        std::abort();
    }
};

template <class T, class... Values>
consteval std::size_t count_fields() {
    if constexpr (sizeof...(Values) > max_fields) {
        return sizeof...(Values);
    } else if constexpr (requires { T{Values{}..., AnyValue{}}; }) {
        return count_fields<T, Values..., AnyValue>();
    } else {
        return sizeof...(Values);
    }
}

template <class T>
concept PlainStruct = std::is_class_v<T> && std::is_aggregate_v<T>;

template <class T>
concept HasBaseClass = requires { T{AnyBaseOf<T>{}}; };

template <class T>
inline constexpr std::size_t field_count = count_fields<std::remove_cv_t<T>>();

template <std::size_t>
AnyValue any_value();

template <class T, std::size_t... Before, std::size_t... After>
consteval bool takes_braces_at(std::index_sequence<Before...>, std::index_sequence<After...>) {
    return requires { T{any_value<Before>()..., {}, any_value<After>()...}; };
}

// Returns true if each field can be initialized with `{}`. A C array cannot: it consumes several of the counted values.
template <class T>
consteval bool takes_braces() {
    constexpr std::size_t count = field_count<T>;
    return []<std::size_t... I>(std::index_sequence<I...>) {
        return (takes_braces_at<T>(std::make_index_sequence<I>{},
                                   std::make_index_sequence<count - 1 - I>{}) &&
                ...);
    }(std::make_index_sequence<count>{});
}

template <class T>
consteval void check_struct() {
    static_assert(
        std::is_move_assignable_v<T>,
        "cubepi: a struct for JSON must be assignable: it has no const or reference fields");
    if constexpr (!HasBaseClass<T> && field_count<T> <= max_fields) {
        static_assert(takes_braces<T>(),
                      "cubepi: a struct for JSON has no C array (use std::array or std::vector), "
                      "and each of its fields must be default-constructible");
    }
    static_assert(
        !HasBaseClass<T>,
        "cubepi: a struct for JSON must not have base classes; list all its fields in one struct");
    static_assert(
        field_count<T> <= max_fields,
        "cubepi: a struct for JSON has at most 48 fields; group some of them in a nested struct");
}

/// Calls `visit(field1, field2, ...)` with references to all fields. One case per number of fields, because C++20 can
/// decompose a struct only into explicitly named variables (packs are a feature of C++26): a macro would be shorter to
/// write, but not faster to compile or easier to debug.
template <class T, class Visit>
constexpr decltype(auto) with_fields(T& value, Visit&& visit) {
    constexpr std::size_t count = field_count<T>;
    check_struct<std::remove_cv_t<T>>();
    if constexpr (count == 0) {
        return visit();
    } else if constexpr (count == 1) {
        auto& [f1] = value;
        return visit(f1);
    } else if constexpr (count == 2) {
        auto& [f1, f2] = value;
        return visit(f1, f2);
    } else if constexpr (count == 3) {
        auto& [f1, f2, f3] = value;
        return visit(f1, f2, f3);
    } else if constexpr (count == 4) {
        auto& [f1, f2, f3, f4] = value;
        return visit(f1, f2, f3, f4);
    } else if constexpr (count == 5) {
        auto& [f1, f2, f3, f4, f5] = value;
        return visit(f1, f2, f3, f4, f5);
    } else if constexpr (count == 6) {
        auto& [f1, f2, f3, f4, f5, f6] = value;
        return visit(f1, f2, f3, f4, f5, f6);
    } else if constexpr (count == 7) {
        auto& [f1, f2, f3, f4, f5, f6, f7] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7);
    } else if constexpr (count == 8) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8);
    } else if constexpr (count == 9) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9);
    } else if constexpr (count == 10) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10);
    } else if constexpr (count == 11) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11);
    } else if constexpr (count == 12) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12);
    } else if constexpr (count == 13) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13);
    } else if constexpr (count == 14) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14);
    } else if constexpr (count == 15) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15);
    } else if constexpr (count == 16) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16);
    } else if constexpr (count == 17) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17);
    } else if constexpr (count == 18) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18] =
            value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                     f18);
    } else if constexpr (count == 19) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18,
               f19] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                     f18, f19);
    } else if constexpr (count == 20) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                     f18, f19, f20);
    } else if constexpr (count == 21) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                     f18, f19, f20, f21);
    } else if constexpr (count == 22) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                     f18, f19, f20, f21, f22);
    } else if constexpr (count == 23) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                     f18, f19, f20, f21, f22, f23);
    } else if constexpr (count == 24) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                     f18, f19, f20, f21, f22, f23, f24);
    } else if constexpr (count == 25) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24, f25] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                     f18, f19, f20, f21, f22, f23, f24, f25);
    } else if constexpr (count == 26) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24, f25, f26] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                     f18, f19, f20, f21, f22, f23, f24, f25, f26);
    } else if constexpr (count == 27) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24, f25, f26, f27] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                     f18, f19, f20, f21, f22, f23, f24, f25, f26, f27);
    } else if constexpr (count == 28) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24, f25, f26, f27, f28] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                     f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28);
    } else if constexpr (count == 29) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24, f25, f26, f27, f28, f29] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                     f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29);
    } else if constexpr (count == 30) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                     f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30);
    } else if constexpr (count == 31) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                     f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31);
    } else if constexpr (count == 32) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                     f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32);
    } else if constexpr (count == 33) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                     f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32,
                     f33);
    } else if constexpr (count == 34) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                     f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33,
                     f34);
    } else if constexpr (count == 35) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35] =
            value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                     f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33,
                     f34, f35);
    } else if constexpr (count == 36) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35,
               f36] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                     f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33,
                     f34, f35, f36);
    } else if constexpr (count == 37) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36,
               f37] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                     f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33,
                     f34, f35, f36, f37);
    } else if constexpr (count == 38) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36,
               f37, f38] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                     f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33,
                     f34, f35, f36, f37, f38);
    } else if constexpr (count == 39) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36,
               f37, f38, f39] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                     f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33,
                     f34, f35, f36, f37, f38, f39);
    } else if constexpr (count == 40) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36,
               f37, f38, f39, f40] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                     f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33,
                     f34, f35, f36, f37, f38, f39, f40);
    } else if constexpr (count == 41) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36,
               f37, f38, f39, f40, f41] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                     f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33,
                     f34, f35, f36, f37, f38, f39, f40, f41);
    } else if constexpr (count == 42) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36,
               f37, f38, f39, f40, f41, f42] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                     f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33,
                     f34, f35, f36, f37, f38, f39, f40, f41, f42);
    } else if constexpr (count == 43) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36,
               f37, f38, f39, f40, f41, f42, f43] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                     f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33,
                     f34, f35, f36, f37, f38, f39, f40, f41, f42, f43);
    } else if constexpr (count == 44) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36,
               f37, f38, f39, f40, f41, f42, f43, f44] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                     f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33,
                     f34, f35, f36, f37, f38, f39, f40, f41, f42, f43, f44);
    } else if constexpr (count == 45) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36,
               f37, f38, f39, f40, f41, f42, f43, f44, f45] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                     f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33,
                     f34, f35, f36, f37, f38, f39, f40, f41, f42, f43, f44, f45);
    } else if constexpr (count == 46) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36,
               f37, f38, f39, f40, f41, f42, f43, f44, f45, f46] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                     f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33,
                     f34, f35, f36, f37, f38, f39, f40, f41, f42, f43, f44, f45, f46);
    } else if constexpr (count == 47) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36,
               f37, f38, f39, f40, f41, f42, f43, f44, f45, f46, f47] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                     f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33,
                     f34, f35, f36, f37, f38, f39, f40, f41, f42, f43, f44, f45, f46, f47);
    } else if constexpr (count == 48) {
        auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19,
               f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36,
               f37, f38, f39, f40, f41, f42, f43, f44, f45, f46, f47, f48] = value;
        return visit(f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
                     f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31, f32, f33,
                     f34, f35, f36, f37, f38, f39, f40, f41, f42, f43, f44, f45, f46, f47, f48);
    }
}

template <class T>
struct Holder {
    T value;
};

#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wundefined-var-template"
#pragma clang diagnostic ignored "-Wundefined-internal"
#endif

// Never defined: only addresses inside it are named, at compile time.
template <class T>
extern const Holder<T> reflected;

template <class T>
struct FieldPointer {
    const T* pointer;
};
template <class T>
FieldPointer(const T*) -> FieldPointer<T>;

template <class T>
consteval auto field_pointers() {
    return with_fields(reflected<T>.value,
                       [](auto&... fields) { return std::tuple{FieldPointer{&fields}...}; });
}

template <auto Pointer>
consteval std::string_view spelled_pointer() {
    return __PRETTY_FUNCTION__;
}

// GCC spells "... {(& reflected<S>.Holder<S>::value.S::city)}; ...", Clang "... {&reflected.value.city}]".
template <auto Pointer>
consteval std::string_view field_name() {
    std::string_view text = spelled_pointer<Pointer>();
#if defined(__clang__)
    text = text.substr(0, text.rfind('}'));
    return text.substr(text.rfind('.') + 1);
#else
    text = text.substr(0, text.rfind(")}"));
    return text.substr(text.rfind(':') + 1);
#endif
}

template <class T>
consteval auto make_field_names() {
    return []<std::size_t... I>(std::index_sequence<I...>) {
        return std::array<std::string_view, sizeof...(I)>{
            field_name<std::get<I>(field_pointers<T>())>()...};
    }(std::make_index_sequence<field_count<T>>{});
}

#if defined(__clang__)
#pragma clang diagnostic pop
#endif

/// The names of the fields of `T`, in order of declaration.
template <class T>
inline constexpr auto field_names = make_field_names<T>();

/// Calls `visit(index, field)` for each field, in order.
template <class T, class Visit>
constexpr void for_each_field(T& value, Visit&& visit) {
    with_fields(value, [&](auto&... fields) {
        std::size_t index = 0;
        (visit(index++, fields), ...);
    });
}

}  // namespace cubepi::detail
