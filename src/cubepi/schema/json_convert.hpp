#pragma once

#include <cmath>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/schema/detail/enum_names.hpp>
#include <cubepi/schema/detail/json_reader.hpp>
#include <cubepi/schema/issue.hpp>

namespace cubepi {

// Converts C++ values to and from JSON, without macros. A plain struct (an aggregate without bases, at most 48 fields)
// becomes an object with its fields' names as keys. Fields may be bool, integers (not char), float, double,
// std::string, enums (written as their enumerator's name; the enum needs a fixed underlying type and values from -128
// to 255), std::optional, std::vector, std::array, std::map and std::unordered_map with string keys, std::variant,
// std::monostate (null), Json, JsonObject, JsonArray, and other plain structs. Any other type is a compile error that
// says so.

struct ReadOptions {
    /// Reports a missing field that has no default as an issue. If false, the field keeps its value of a
    /// default-constructed instance (for values that were already checked against a schema).
    bool require_fields = true;
};

/// Reads `json` into `value` and returns all issues; `value` is complete only if there are none.
///
/// A missing std::optional is empty; a missing field with a default keeps it (see json_schema_of for the definition of
/// a default); unknown keys are ignored. The only conversions are integral numbers (3.0 for an integer) and strings
/// that contain exactly a number or a boolean where one is expected.
template <class T>
std::vector<SchemaIssue> try_from_json(const Json& json, T& value, ReadOptions options = {}) {
    detail::ReadContext context{
        .issues = {}, .require = options.require_fields, .coerce = true, .refuse_unknown = false};
    detail::read_value(json, value, detail::ValuePath{}, context);
    return std::move(context.issues);
}

/// Like try_from_json. Throws ValidationError with all issues.
template <class T>
T from_json(const Json& json, ReadOptions options = {}) {
    T value{};
    auto issues = try_from_json(json, value, options);
    if (!issues.empty()) throw ValidationError("JSON value does not fit:", std::move(issues));
    return value;
}

/// Returns the name of an enumerator. Throws Error (invalid_argument) for a value without one.
template <class E>
    requires std::is_enum_v<E>
std::string_view enum_name(E value) {
    const auto number = static_cast<long long>(value);
    for (const auto& entry : detail::enum_entries<E>()) {
        if (entry.value == number) return entry.name;
    }
    throw Error(ErrorCode::invalid_argument,
                "enum value " + std::to_string(number) +
                    " has no enumerator within enum_range, so it has no name in JSON");
}

template <class T>
using JsonFor =
    std::conditional_t<detail::is_json_struct<T> || detail::is_string_map<T>, JsonObject, Json>;

/// Converts `value` to JSON: an object for structs and maps. Empty optional fields are omitted (elsewhere they are
/// null); numbers that JSON does not support (NaN, infinities) become null.
template <class T>
JsonFor<T> to_json(const T& value) {
    detail::check_supported<T>();
    if constexpr (detail::is_json<T>) {
        return Json(value);
    } else if constexpr (detail::is_float<T>) {
        return std::isfinite(value) ? Json(static_cast<double>(value)) : Json(nullptr);
    } else if constexpr (std::is_arithmetic_v<T>) {
        return Json(value);
    } else if constexpr (std::is_enum_v<T>) {
        const auto name = enum_name(value);
        return Json(boost::json::string_view(name.data(), name.size()));
    } else if constexpr (std::is_same_v<T, std::string>) {
        return Json(boost::json::string_view(value.data(), value.size()));
    } else if constexpr (std::is_same_v<T, std::monostate>) {
        return Json(nullptr);
    } else if constexpr (detail::is_optional<T>) {
        return value ? Json(to_json(*value)) : Json(nullptr);
    } else if constexpr (detail::is_variant<T>) {
        return std::visit([](const auto& alternative) { return Json(to_json(alternative)); },
                          value);
    } else if constexpr (detail::is_vector<T> || detail::is_array<T>) {
        JsonArray array;
        array.reserve(value.size());
        for (const auto& item : value) {
            array.push_back(Json(to_json(static_cast<const typename T::value_type&>(item))));
        }
        return Json(std::move(array));
    } else if constexpr (detail::is_string_map<T>) {
        JsonObject object;
        object.reserve(value.size());
        for (const auto& [key, item] : value) object.insert_or_assign(key, to_json(item));
        return object;
    } else if constexpr (detail::is_json_struct<T>) {
        JsonObject object;
        object.reserve(detail::field_count<T>);
        detail::for_each_field(value, [&](std::size_t index, const auto& field) {
            if constexpr (detail::is_optional<std::remove_cvref_t<decltype(field)>>) {
                if (!field) return;
            }
            const std::string_view name = detail::field_names<T>[index];
            object.insert_or_assign(boost::json::string_view(name.data(), name.size()),
                                    to_json(field));
        });
        return object;
    }
}

}  // namespace cubepi
