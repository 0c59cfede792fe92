#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/schema/detail/enum_names.hpp>
#include <cubepi/schema/detail/reflect.hpp>
#include <cubepi/schema/issue.hpp>

// Reads JSON into C++ values and collects issues. The templates here only decompose values; leaf values are handled in
// json_reader.cpp, which is compiled once.

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

// Detects which fields of a struct have a default member initializer.
//
// For numbers, booleans and enums this is exact, although `int days = 0;` and `int days;` yield the same value in a
// `T{}`: the struct is default-initialized (which runs the initializers and touches nothing else) in memory filled with
// a pattern, twice with different patterns, and a field whose bytes show the pattern both times has no initializer. The
// bytes are only compared, never read as a value, and the barriers keep the compiler from assuming anything about them.
// Other types construct themselves, so for them an empty value means that there is no default.

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

struct ReadContext {
    std::vector<SchemaIssue> issues;
    bool require = true;          ///< a missing field without default is an issue
    bool coerce = true;           ///< "3" and 3.0 are integers, "true" is a boolean
    bool refuse_unknown = false;  ///< an unknown key is an issue (for variants)

    bool fail(SchemaIssue issue) {
        issues.push_back(std::move(issue));
        return false;
    }
};

bool read_boolean(const Json& json, bool& value, const ValuePath& path, ReadContext& context);
bool read_signed(const Json& json, std::int64_t low, std::int64_t high, std::int64_t& value,
                 const ValuePath& path, ReadContext& context);
bool read_unsigned(const Json& json, std::uint64_t high, std::uint64_t& value,
                   const ValuePath& path, ReadContext& context);
bool read_double(const Json& json, double limit, double& value, const ValuePath& path,
                 ReadContext& context);
bool read_string(const Json& json, std::string& value, const ValuePath& path, ReadContext& context);
bool read_enum(const Json& json, const std::vector<EnumEntry>& entries, long long& value,
               const ValuePath& path, ReadContext& context);
const JsonObject* read_object(const Json& json, const ValuePath& path, ReadContext& context);
const JsonArray* read_array(const Json& json, const ValuePath& path, ReadContext& context);

/// Returns the word for a type in an issue: "integer", "array", "string or null", ...
template <class T>
std::string type_word() {
    if constexpr (std::is_same_v<T, bool>) {
        return "boolean";
    } else if constexpr (is_integer<T>) {
        return "integer";
    } else if constexpr (is_float<T>) {
        return "number";
    } else if constexpr (std::is_enum_v<T> || std::is_same_v<T, std::string>) {
        return "string";
    } else if constexpr (is_vector<T> || is_array<T> || std::is_same_v<T, JsonArray>) {
        return "array";
    } else if constexpr (std::is_same_v<T, Json>) {
        return "any value";
    } else if constexpr (std::is_same_v<T, std::monostate>) {
        return "null";
    } else if constexpr (is_optional<T>) {
        return type_word<typename T::value_type>() + " or null";
    } else if constexpr (is_variant<T>) {
        return []<class... A>(std::type_identity<std::variant<A...>>) {
            std::string words;
            ((words += (words.empty() ? "" : " or ") + type_word<A>()), ...);
            return words;
        }(std::type_identity<T>{});
    } else {
        return "object";
    }
}

template <class T>
bool read_value(const Json& json, T& value, const ValuePath& path, ReadContext& context);

template <class T>
bool read_struct(const JsonObject& object, T& value, const ValuePath& path, ReadContext& context) {
    value = T{};
    const auto& required = required_fields<T>();
    bool good = true;
    for_each_field(value, [&](std::size_t index, auto& field) {
        const std::string_view name = field_names<T>[index];
        const ValuePath here = path.child(name);
        if (const Json* found =
                object.if_contains(boost::json::string_view(name.data(), name.size()))) {
            good = read_value(*found, field, here, context) && good;
        } else if (context.require && required[index]) {
            using Field = std::remove_reference_t<decltype(field)>;
            good = context.fail(missing_issue(here, type_word<Field>()));
        }
    });
    if (context.refuse_unknown) {
        for (const auto& [key, found] : object) {
            const std::string_view name(key.data(), key.size());
            const auto& names = field_names<T>;
            if (std::find(names.begin(), names.end(), name) == names.end()) {
                good = context.fail(unexpected_issue(path.child(name), found));
            }
        }
    }
    return good;
}

template <class T>
bool read_items(const JsonArray& array, T& value, const ValuePath& path, ReadContext& context) {
    bool good = true;
    if constexpr (is_array<T>) {
        if (array.size() != value.size()) {
            const auto expected = "array of " + std::to_string(value.size()) + " items";
            return context.fail(wrong_type_issue(path, expected, Json(array)));
        }
        for (std::size_t i = 0; i < array.size(); ++i) {
            good = read_value(array[i], value[i], path.item(i), context) && good;
        }
    } else {
        value.clear();
        value.reserve(array.size());
        for (std::size_t i = 0; i < array.size(); ++i) {
            typename T::value_type item{};
            good = read_value(array[i], item, path.item(i), context) && good;
            value.push_back(std::move(item));
        }
    }
    return good;
}

// Reads the best alternative: one that matches exactly without unknown keys, else exactly, else with conversions.
template <class... A>
bool read_variant(const Json& json, std::variant<A...>& value, const ValuePath& path,
                  ReadContext& context) {
    std::vector<std::vector<SchemaIssue>> closest;
    const auto attempt = [&]<class Alternative>(std::type_identity<Alternative>, bool coerce,
                                                bool refuse_unknown) {
        ReadContext inner{
            .issues = {}, .require = true, .coerce = coerce, .refuse_unknown = refuse_unknown};
        Alternative result{};
        if (read_value(json, result, path, inner)) {
            value = std::move(result);
            return true;
        }
        // Issues below this value come from an alternative of the right kind; they are more specific than "expected A
        // or B".
        if (coerce && inner.issues.front().path != path.to_string())
            closest.push_back(std::move(inner.issues));
        return false;
    };
    if ((attempt(std::type_identity<A>{}, false, true) || ...)) return true;
    if ((attempt(std::type_identity<A>{}, false, context.refuse_unknown) || ...)) return true;
    if (context.coerce && (attempt(std::type_identity<A>{}, true, context.refuse_unknown) || ...))
        return true;
    if (closest.size() == 1) {
        for (auto& issue : closest.front()) context.issues.push_back(std::move(issue));
        return false;
    }
    std::string expected = type_word<std::variant<A...>>();
    return context.fail(closest.empty() ? wrong_type_issue(path, std::move(expected), json)
                                        : no_form_issue(path, std::move(expected), closest, json));
}

template <class T>
bool read_value(const Json& json, T& value, const ValuePath& path, ReadContext& context) {
    check_supported<T>();
    if constexpr (std::is_same_v<T, Json>) {
        value = json;
        return true;
    } else if constexpr (std::is_same_v<T, bool>) {
        return read_boolean(json, value, path, context);
    } else if constexpr (is_integer<T> && std::is_signed_v<T>) {
        std::int64_t number = 0;
        if (!read_signed(json, std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), number,
                         path, context)) {
            return false;
        }
        value = static_cast<T>(number);
        return true;
    } else if constexpr (is_integer<T>) {
        std::uint64_t number = 0;
        if (!read_unsigned(json, std::numeric_limits<T>::max(), number, path, context))
            return false;
        value = static_cast<T>(number);
        return true;
    } else if constexpr (is_float<T>) {
        double number = 0;
        if (!read_double(json, static_cast<double>(std::numeric_limits<T>::max()), number, path,
                         context)) {
            return false;
        }
        value = static_cast<T>(number);
        return true;
    } else if constexpr (std::is_enum_v<T>) {
        long long number = 0;
        if (!read_enum(json, enum_entries<T>(), number, path, context)) return false;
        value = static_cast<T>(number);
        return true;
    } else if constexpr (std::is_same_v<T, std::string>) {
        return read_string(json, value, path, context);
    } else if constexpr (std::is_same_v<T, std::monostate>) {
        return json.is_null() || context.fail(wrong_type_issue(path, "null", json));
    } else if constexpr (is_optional<T>) {
        value.reset();
        if (json.is_null()) return true;
        typename T::value_type inner{};
        if (!read_value(json, inner, path, context)) return false;
        value = std::move(inner);
        return true;
    } else if constexpr (is_variant<T>) {
        return read_variant(json, value, path, context);
    } else if constexpr (is_vector<T> || is_array<T> || std::is_same_v<T, JsonArray>) {
        const JsonArray* array = read_array(json, path, context);
        if (!array) return false;
        if constexpr (std::is_same_v<T, JsonArray>) {
            value = *array;
            return true;
        } else {
            return read_items(*array, value, path, context);
        }
    } else {
        const JsonObject* object = read_object(json, path, context);
        if (!object) return false;
        if constexpr (std::is_same_v<T, JsonObject>) {
            value = *object;
            return true;
        } else if constexpr (is_string_map<T>) {
            value.clear();
            bool good = true;
            for (const auto& [key, found] : *object) {
                const std::string_view name(key.data(), key.size());
                typename T::mapped_type item{};
                good = read_value(found, item, path.child(name), context) && good;
                value.insert_or_assign(std::string(name), std::move(item));
            }
            return good;
        } else if constexpr (is_json_struct<T>) {
            return read_struct(*object, value, path, context);
        } else {
            return false;
        }
    }
}

}  // namespace cubepi::detail
