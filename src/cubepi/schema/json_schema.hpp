#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/schema/json_convert.hpp>

namespace cubepi {

/// Limits and remarks for a field of a schema: `Constraints().minimum(1).maximum(7)`. They are part of the schema that the
/// model sees, and values are validated against them.
class Constraints {
public:
    Constraints() {}
    // Of numbers.
    Constraints&& minimum(Json value) && {
        return std::move(*this).set("minimum", std::move(value));
    }
    Constraints&& maximum(Json value) && {
        return std::move(*this).set("maximum", std::move(value));
    }
    Constraints&& exclusive_minimum(Json value) && {
        return std::move(*this).set("exclusiveMinimum", std::move(value));
    }
    Constraints&& exclusive_maximum(Json value) && {
        return std::move(*this).set("exclusiveMaximum", std::move(value));
    }
    Constraints&& multiple_of(Json value) && {
        return std::move(*this).set("multipleOf", std::move(value));
    }
    // Of texts; lengths in characters.
    Constraints&& min_length(Json value) && {
        return std::move(*this).set("minLength", std::move(value));
    }
    Constraints&& max_length(Json value) && {
        return std::move(*this).set("maxLength", std::move(value));
    }
    /// An ECMAScript regular expression that occurs in the text; anchor it with ^ and $.
    Constraints&& pattern(std::string_view expression) && {
        return std::move(*this).set("pattern", Json(expression));
    }
    /// date, time, date-time, email, uuid, ipv4 and uri are validated, by a pattern that is added to the schema; another
    /// format is a remark.
    Constraints&& format(std::string_view name) &&;
    // Of lists; "tags[]" is the path of their items.
    Constraints&& min_items(Json value) && {
        return std::move(*this).set("minItems", std::move(value));
    }
    Constraints&& max_items(Json value) && {
        return std::move(*this).set("maxItems", std::move(value));
    }
    Constraints&& unique_items() && { return std::move(*this).set("uniqueItems", Json(true)); }
    // Of any field.
    /// Makes the field optional, with this value if it is missing.
    Constraints&& default_value(Json value) && {
        return std::move(*this).set("default", std::move(value));
    }
    Constraints&& example(Json value) &&;
    /// Restricts the field to these values.
    Constraints&& one_of(JsonArray values) && {
        return std::move(*this).set("enum", Json(std::move(values)));
    }
    /// Describes one value of an enum, in the description of the field.
    Constraints&& describe_value(std::string_view value, std::string_view text) &&;

    /// The keywords of JSON Schema.
    const JsonObject& keywords() const noexcept { return keywords_; }
    const std::vector<std::pair<std::string, std::string>>& value_texts() const noexcept {
        return value_texts_;
    }

private:
    Constraints&& set(std::string_view keyword, Json value) && {
        keywords_[keyword] = std::move(value);
        return std::move(*this);
    }

    JsonObject keywords_;
    std::vector<std::pair<std::string, std::string>> value_texts_;
};

/// Adds constraints to the field at `path` (see describe()). Throws Error(invalid_argument) if there is no such field, if a
/// constraint does not apply to the type of the field, or if an enum does not have the value that is described.
void constrain(Json& schema, std::string_view path, const Constraints& constraints);

/// Where a struct describes its fields, for every schema with the struct in it: a static member function
///
///     struct Stop {
///         int day;
///         std::string city;
///         static void describe_fields(FieldNotes& fields) {
///             fields.describe("city", "City name").constrain("day", Constraints().minimum(1));
///         }
///     };
class FieldNotes {
public:
    explicit FieldNotes(Json& schema) : schema_(schema) {}
    FieldNotes& describe(std::string_view path, std::string_view text);
    FieldNotes& constrain(std::string_view path, const Constraints& constraints);

private:
    Json& schema_;
};

namespace detail {

// The enclosing structs of the one that is being written, to detect a struct that contains itself.
struct SchemaScope {
    struct Entry {
        const void* type;
        std::string name;
        bool referenced;
    };
    bool root_is_struct = false;  ///< "#" is the outermost struct
    std::vector<Entry> open;
    JsonObject definitions;

    /// Returns a "$ref" to `type` if it is being written, else null.
    Json reference_to(const void* type);
    void enter(const void* type, std::string_view spelled_name);
    /// Closes the innermost struct; returns the schema, or a "$ref" if it was moved to `definitions`.
    JsonObject leave(JsonObject schema);
};

JsonObject typed_schema(std::string_view type);
JsonObject nullable_schema(JsonObject schema);
JsonObject any_of_schema(JsonArray alternatives);
JsonObject enum_schema(const std::vector<EnumEntry>& entries);
JsonObject array_schema(JsonObject items);
void add_property(JsonObject& properties, JsonArray& required, std::string_view name,
                  JsonObject schema, bool is_required, const Json* default_value);

/// Without the bounds of `int` and of 64 bits, which values rarely reach and which every model would have to read.
template <class T>
JsonObject integer_schema() {
    auto schema = typed_schema("integer");
    constexpr bool narrow = sizeof(T) < sizeof(int);
    if constexpr (std::is_unsigned_v<T> || narrow)
        schema.insert_or_assign("minimum", std::numeric_limits<T>::min());
    if constexpr (narrow || (std::is_unsigned_v<T> && sizeof(T) == sizeof(int)))
        schema.insert_or_assign("maximum", std::numeric_limits<T>::max());
    return schema;
}

template <class T>
inline constexpr char type_tag = 0;

template <class T>
consteval std::string_view spelled_type() {
    return __PRETTY_FUNCTION__;
}

template <class T>
JsonObject schema_for(SchemaScope& scope);

template <class T>
JsonObject struct_schema(SchemaScope& scope) {
    if (Json reference = scope.reference_to(&type_tag<T>); reference.is_object()) {
        return std::move(reference.get_object());
    }
    scope.enter(&type_tag<T>, spelled_type<T>());
    JsonObject properties;
    JsonArray required;
    const T defaults{};
    const auto& needed = required_fields<T>();
    for_each_field(defaults, [&](std::size_t index, const auto& field) {
        using Field = std::remove_cvref_t<decltype(field)>;
        Json value;
        bool has_default = !needed[index];
        if (has_default) {
            if constexpr (is_optional<Field>) has_default = field.has_value();
            if constexpr (is_json_struct<Field>)
                has_default = false;  // its own fields have their defaults
            if (has_default) value = to_json(field);
        }
        add_property(properties, required, field_names<T>[index], schema_for<Field>(scope),
                     needed[index], has_default ? &value : nullptr);
    });
    JsonObject schema = typed_schema("object");
    schema.insert_or_assign("properties", std::move(properties));
    if (!required.empty()) schema.insert_or_assign("required", std::move(required));
    if constexpr (requires(FieldNotes& fields) { T::describe_fields(fields); }) {
        Json described(std::move(schema));
        FieldNotes fields(described);
        T::describe_fields(fields);
        schema = std::move(described.get_object());
    }
    return scope.leave(std::move(schema));
}

template <class T>
JsonObject schema_for(SchemaScope& scope) {
    check_supported<T>();
    if constexpr (std::is_same_v<T, Json>) {
        return {};
    } else if constexpr (std::is_same_v<T, bool>) {
        return typed_schema("boolean");
    } else if constexpr (is_integer<T>) {
        return integer_schema<T>();
    } else if constexpr (is_float<T>) {
        return typed_schema("number");
    } else if constexpr (std::is_enum_v<T>) {
        return enum_schema(enum_entries<T>());
    } else if constexpr (std::is_same_v<T, std::string>) {
        return typed_schema("string");
    } else if constexpr (std::is_same_v<T, std::monostate>) {
        return typed_schema("null");
    } else if constexpr (is_optional<T>) {
        return nullable_schema(schema_for<typename T::value_type>(scope));
    } else if constexpr (is_variant<T>) {
        return [&]<class... A>(std::type_identity<std::variant<A...>>) {
            JsonArray alternatives;
            (alternatives.push_back(Json(schema_for<A>(scope))), ...);
            return any_of_schema(std::move(alternatives));
        }(std::type_identity<T>{});
    } else if constexpr (std::is_same_v<T, JsonArray>) {
        return typed_schema("array");
    } else if constexpr (is_vector<T>) {
        return array_schema(schema_for<typename T::value_type>(scope));
    } else if constexpr (is_array<T>) {
        auto schema = array_schema(schema_for<typename T::value_type>(scope));
        schema.insert_or_assign("minItems", std::tuple_size_v<T>);
        schema.insert_or_assign("maxItems", std::tuple_size_v<T>);
        return schema;
    } else if constexpr (std::is_same_v<T, JsonObject>) {
        return typed_schema("object");
    } else if constexpr (is_string_map<T>) {
        auto schema = typed_schema("object");
        schema.insert_or_assign("additionalProperties", schema_for<typename T::mapped_type>(scope));
        return schema;
    } else if constexpr (is_json_struct<T>) {
        return struct_schema<T>(scope);
    }
}

JsonObject finish_schema(JsonObject schema, SchemaScope scope);

}  // namespace detail

/// Returns the JSON Schema of `T` (see json_convert.hpp for the types).
///
/// A field is required unless it has a default:
/// - numbers, booleans and enums have one if the struct specifies one: `int days = 3;`, also `int from = 0;`
///   or `bool all{};`, but not `int days;`;
/// - std::string, containers and Json have one if it is not empty: `std::string unit = "c";`. An empty
///   one (`std::string city;`, `= ""`) is required, because C++ cannot distinguish the two. For a field that
///   may be empty use std::optional or make_optional();
/// - std::variant likewise, by its first alternative (std::monostate counts as a default);
/// - a nested struct is required if one of its own fields is;
/// - std::optional is never required, and may be null.
///
/// A struct may describe and constrain its fields in a static member function describe_fields(FieldNotes&).
///
/// Defaults are written as "default". Enums are lists of their enumerators' names, nested structs are written inline
/// (one that contains itself as "$ref"), maps have "additionalProperties", variants "anyOf". Integers have the
/// bounds of their type, except those of `int` and of 64 bits.
template <class T>
Json json_schema_of() {
    detail::SchemaScope scope;
    scope.root_is_struct = detail::is_json_struct<T>;
    auto schema = detail::schema_for<T>(scope);
    return Json(detail::finish_schema(std::move(schema), std::move(scope)));
}

/// Sets the description of the field at `path` ("city", "where.city", "items[].name"; "" is the whole schema). Throws
/// Error (invalid_argument) that lists the existing fields if there is no such field.
void describe(Json& schema, std::string_view path, std::string_view text);

/// Makes the field at `path` optional; if it is missing, validation inserts `default_value` (nothing if null). Throws
/// like describe().
void make_optional(Json& schema, std::string_view path, Json default_value = nullptr);

/// Makes the field at `path` required and removes its default. Throws like describe().
void make_required(Json& schema, std::string_view path);

}  // namespace cubepi
