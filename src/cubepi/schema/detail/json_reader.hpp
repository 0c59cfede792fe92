#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/schema/detail/enum_names.hpp>
#include <cubepi/schema/detail/field_defaults.hpp>
#include <cubepi/schema/detail/json_kinds.hpp>
#include <cubepi/schema/detail/value_path.hpp>

// Reads JSON into C++ values and collects issues. The templates here only decompose values; leaf values are handled in
// json_reader.cpp, which is compiled once.

namespace cubepi::detail {

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
