#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/json.hpp>

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

}  // namespace cubepi
