#include <cubepi/schema/constraints.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/schema/fields/field_place.hpp>
#include <cubepi/schema/json_schema.hpp>

namespace cubepi {

namespace detail {

namespace {

/// The kind of values that a keyword applies to; empty: any.
std::string_view kind_of_keyword(std::string_view keyword) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 13> kinds{{
        {"minimum", "number"},
        {"maximum", "number"},
        {"exclusiveMinimum", "number"},
        {"exclusiveMaximum", "number"},
        {"multipleOf", "number"},
        {"minLength", "string"},
        {"maxLength", "string"},
        {"pattern", "string"},
        {"format", "string"},
        {"minItems", "array"},
        {"maxItems", "array"},
        {"uniqueItems", "array"},
        {"enum", "value"},
    }};
    for (const auto& [name, kind] : kinds) {
        if (name == keyword) return kind;
    }
    return {};
}

bool takes_kind(const JsonObject& schema, std::string_view kind) {
    const Json* type = schema.if_contains("type");
    if (!type || !type->is_string()) return true;
    const std::string_view name(type->get_string());
    if (kind == "value") return name != "null";
    return name == kind || (kind == "number" && name == "integer");
}

/// Adds the keyword to the schema, or to its alternatives of the right kind. Returns false if there is none.
bool put_keyword(JsonObject& root, JsonObject* schema, std::string_view keyword,
                 const Json& value) {
    schema = resolve(root, schema);
    if (!schema) return false;
    const std::string_view kind = kind_of_keyword(keyword);
    Json* alternatives = kind.empty() ? nullptr : schema->if_contains("anyOf");
    if (!alternatives || !alternatives->is_array()) {
        if (!kind.empty() && !takes_kind(*schema, kind)) return false;
        (*schema)[keyword] = value;
        return true;
    }
    bool put = false;
    for (Json& alternative : alternatives->get_array()) {
        if (alternative.is_object())
            put = put_keyword(root, &alternative.get_object(), keyword, value) || put;
    }
    return put;
}

bool has_choice(JsonObject& root, JsonObject* schema, std::string_view value) {
    schema = resolve(root, schema);
    if (!schema) return false;
    if (const Json* choices = schema->if_contains("enum"); choices && choices->is_array()) {
        const JsonArray& all = choices->get_array();
        return std::find(all.begin(), all.end(), Json(value)) != all.end();
    }
    Json* alternatives = schema->if_contains("anyOf");
    if (!alternatives || !alternatives->is_array()) return false;
    JsonArray& all = alternatives->get_array();
    return std::any_of(all.begin(), all.end(), [&](Json& alternative) {
        return alternative.is_object() && has_choice(root, &alternative.get_object(), value);
    });
}

void add_value_text(JsonObject& root, JsonObject& field, std::string_view path,
                    const std::pair<std::string, std::string>& value) {
    if (!has_choice(root, &field, value.first)) {
        throw Error(ErrorCode::invalid_argument, "the field \"" + std::string(path) +
                                                     "\" has no value \"" + value.first +
                                                     "\" to describe");
    }
    std::string text;
    if (const Json* old = field.if_contains("description"); old && old->is_string())
        text = std::string(old->get_string()) + "; ";
    field["description"] = text + value.first + ": " + value.second;
}

}  // namespace

}  // namespace detail

Constraints&& Constraints::format(std::string_view name) && {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 7> patterns{{
        {"date", "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$"},
        {"time",
         "^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})?$"},
        {"date-time",
         "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-"
         "9]"
         "(\\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$"},
        {"email", "^[^@ ]+@[^@ ]+\\.[^@ ]+$"},
        {"uuid", "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"},
        {"ipv4", "^((25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])(\\.|$)){4}$"},
        {"uri", "^[A-Za-z][A-Za-z0-9+.-]*:[^ ]+$"},
    }};
    keywords_["format"] = name;
    for (const auto& [format, expression] : patterns) {
        if (format == name && !keywords_.contains("pattern")) keywords_["pattern"] = expression;
    }
    return std::move(*this);
}

Constraints&& Constraints::example(Json value) && {
    Json& examples = keywords_["examples"];
    if (!examples.is_array()) examples.emplace_array();
    examples.get_array().push_back(std::move(value));
    return std::move(*this);
}

Constraints&& Constraints::describe_value(std::string_view value, std::string_view text) && {
    value_texts_.emplace_back(value, text);
    return std::move(*this);
}

void constrain(Json& schema, std::string_view path, const Constraints& constraints) {
    const detail::Place place = detail::find_place(schema, path);
    JsonObject& root = schema.get_object();
    for (const auto& [keyword, value] : constraints.keywords()) {
        if (detail::put_keyword(root, place.field, keyword, value)) continue;
        throw Error(ErrorCode::invalid_argument, "the constraint " + std::string(keyword) +
                                                     " does not apply to the field \"" +
                                                     std::string(path) + "\", which is not a " +
                                                     std::string(detail::kind_of_keyword(keyword)));
    }
    for (const auto& value : constraints.value_texts())
        detail::add_value_text(root, *place.field, path, value);
    if (constraints.keywords().contains("default") && place.owner)
        detail::drop_required(*place.owner, place.name);
}

FieldNotes& FieldNotes::describe(std::string_view path, std::string_view text) {
    cubepi::describe(schema_, path, text);
    return *this;
}

FieldNotes& FieldNotes::constrain(std::string_view path, const Constraints& constraints) {
    cubepi::constrain(schema_, path, constraints);
    return *this;
}

}  // namespace cubepi
