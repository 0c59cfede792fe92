#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <new>
#include <type_traits>
#include <variant>

#include <cubepi/schema/detail/json_kinds.hpp>

// Detects which fields of a struct have a default member initializer.
//
// For numbers, booleans and enums this is exact, although `int days = 0;` and `int days;` yield the same value in a
// `T{}`: the struct is default-initialized (which runs the initializers and touches nothing else) in memory filled with
// a pattern, twice with different patterns, and a field whose bytes show the pattern both times has no initializer. The
// bytes are only compared, never read as a value, and the barriers keep the compiler from assuming anything about them.
// Other types construct themselves, so for them an empty value means that there is no default.

namespace cubepi::detail {

inline void hide_from_optimizer(void* memory) { asm volatile("" : : "r"(memory) : "memory"); }

template <class T>
class PatternedObject {
public:
    explicit PatternedObject(unsigned char pattern) {
        std::memset(storage_, pattern, sizeof(T));
        hide_from_optimizer(storage_);
        object_ = ::new (static_cast<void*>(storage_)) T;
        hide_from_optimizer(storage_);
    }
    PatternedObject(const PatternedObject&) = delete;
    PatternedObject& operator=(const PatternedObject&) = delete;
    ~PatternedObject() { object_->~T(); }

    T& object() { return *object_; }

private:
    alignas(T) unsigned char storage_[sizeof(T)];
    T* object_;
};

inline constexpr unsigned char first_pattern = 0xA5;
inline constexpr unsigned char second_pattern = 0x5A;

inline bool shows_pattern(const void* field, std::size_t size, unsigned char pattern) {
    const auto* bytes = static_cast<const unsigned char*>(field);
    return std::all_of(bytes, bytes + size, [=](unsigned char byte) { return byte == pattern; });
}

template <class T>
const std::array<bool, field_count<T>>& required_fields();

template <class M>
bool is_blank(const M& value) {
    if constexpr (std::is_arithmetic_v<M> || std::is_enum_v<M>) {
        return value == M{};
    } else if constexpr (std::is_same_v<M, Json>) {
        return value.is_null();
    } else if constexpr (std::is_same_v<M, std::monostate> || is_optional<M>) {
        return false;
    } else if constexpr (is_array<M>) {
        return std::any_of(value.begin(), value.end(),
                           [](const auto& item) { return is_blank(item); });
    } else if constexpr (is_variant<M>) {
        return value.index() == 0 && is_blank(std::get<0>(value));
    } else if constexpr (is_json_struct<M>) {
        bool blank = false;
        for_each_field(value,
                       [&](std::size_t, const auto& field) { blank = blank || is_blank(field); });
        return blank;
    } else if constexpr (requires { value.empty(); }) {
        return value.empty();
    } else {
        check_supported<M>();
        return false;
    }
}

// `first` and `second` are the same field of the two patterned objects.
template <class M>
bool lacks_default(const M& first, const M& second) {
    if constexpr (std::is_arithmetic_v<M> || std::is_enum_v<M>) {
        return shows_pattern(&first, sizeof(M), first_pattern) &&
               shows_pattern(&second, sizeof(M), second_pattern);
    } else if constexpr (is_array<M>) {
        for (std::size_t i = 0; i < first.size(); ++i) {
            if (lacks_default(first[i], second[i])) return true;
        }
        return false;
    } else if constexpr (is_json_struct<M>) {
        return with_fields(first, [&](const auto&... a) {
            return with_fields(second,
                               [&](const auto&... b) { return (lacks_default(a, b) || ...); });
        });
    } else {
        return is_blank(first);
    }
}

template <class T>
const std::array<bool, field_count<T>>& required_fields() {
    static const auto required = [] {
        std::array<bool, field_count<T>> result{};
        if constexpr (field_count<T> > 0) {
            PatternedObject<T> first(first_pattern);
            PatternedObject<T> second(second_pattern);
            with_fields(first.object(), [&](const auto&... a) {
                with_fields(second.object(), [&](const auto&... b) {
                    std::size_t index = 0;
                    ((result[index++] = lacks_default(a, b)), ...);
                });
            });
        }
        return result;
    }();
    return required;
}

}  // namespace cubepi::detail
