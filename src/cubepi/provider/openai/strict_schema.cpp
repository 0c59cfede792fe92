#include <cubepi/provider/openai/strict_schema.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include <cubepi/provider/tool_schema.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi::detail {

namespace {

bool is_one_of(std::string_view key, std::initializer_list<std::string_view> all) {
    return std::find(all.begin(), all.end(), key) != all.end();
}

bool lists(const Json* names, std::string_view name) {
    if (!names || !names->is_array()) return false;
    const JsonArray& all = names->get_array();
    return std::find(all.begin(), all.end(), Json(name)) != all.end();
}

bool allows_null(const Json& schema) {
    const JsonObject* object = schema.if_object();
    if (!object) return false;
    const Json* type = object->if_contains("type");
    if (type) return *type == Json("null") || lists(type, "null");
    if (const Json* values = object->if_contains("enum"); values && values->is_array()) {
        const JsonArray& all = values->get_array();
        return std::find(all.begin(), all.end(), Json(nullptr)) != all.end();
    }
    const Json* alternatives = object->if_contains("anyOf");
    if (!alternatives || !alternatives->is_array()) return object->empty();
    const JsonArray& all = alternatives->get_array();
    return std::any_of(all.begin(), all.end(), allows_null);
}

/// Thrown and caught here alone: the schema has a word that cannot be expressed.
struct NotStrict {};

void describe(JsonObject& schema, const std::string& more) {
    const Json* old = schema.if_contains("description");
    std::string text;
    if (old && old->is_string()) text = std::string(old->get_string()) + " ";
    schema["description"] = text + more;
}

JsonObject lower(const Json& schema);

Json lower_property(const Json& property, bool required) {
    JsonObject made = lower(property);
    const Json* normal = property.get_object().if_contains("default");
    if (normal && !normal->is_null()) {
        describe(made, "Default: " + to_python_json(*normal) + ".");
        return made;
    }
    if (required || allows_null(property)) return made;
    JsonObject null;
    null["type"] = "null";
    JsonArray alternatives;
    alternatives.push_back(std::move(made));
    alternatives.push_back(std::move(null));
    JsonObject nullable;
    nullable["anyOf"] = std::move(alternatives);
    return nullable;
}

void lower_object(const JsonObject& schema, JsonObject& made) {
    const Json* properties = schema.if_contains("properties");
    const Json* open = schema.if_contains("additionalProperties");
    if (!properties || !properties->is_object()) throw NotStrict();
    if (open && *open != Json(false)) throw NotStrict();
    const Json* required = schema.if_contains("required");
    JsonObject lowered;
    JsonArray names;
    for (const auto& [name, property] : properties->get_object()) {
        if (!property.is_object()) throw NotStrict();
        lowered[name] = lower_property(property, lists(required, name));
        names.emplace_back(name);
    }
    made["properties"] = std::move(lowered);
    made["required"] = std::move(names);
    made["additionalProperties"] = false;
}

JsonObject lower(const Json& schema) {
    const JsonObject* object = schema.if_object();
    if (!object || object->empty()) throw NotStrict();
    JsonObject made;
    for (const auto& [key, value] : *object) {
        if (is_one_of(key, {"type", "enum", "const", "description", "pattern", "minimum", "maximum",
                            "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems",
                            "maxItems"})) {
            made[key] = value;
        } else if (key == "format") {
            if (is_strict_format(value)) made[key] = value;
        } else if (key == "items") {
            made[key] = lower(value);
        } else if (key == "anyOf" && value.is_array()) {
            JsonArray all;
            for (const Json& one : value.get_array()) all.push_back(lower(one));
            made[key] = std::move(all);
        } else if (!is_one_of(key,
                              {"properties", "required", "additionalProperties", "default", "title",
                               "examples", "minLength", "maxLength", "uniqueItems", "minProperties",
                               "maxProperties", "$schema", "$id", "$comment"})) {
            throw NotStrict();
        }
    }
    const Json* type = object->if_contains("type");
    const bool is_object = (type && (*type == Json("object") || lists(type, "object"))) ||
                           object->contains("properties");
    if (is_object) lower_object(*object, made);
    const Json* format = object->if_contains("format");
    if (format && format->is_string() && !is_strict_format(*format))
        describe(made, "Format: " + std::string(format->get_string()) + ".");
    if (type && *type == Json("array") && !object->contains("items")) throw NotStrict();
    const bool says_something = made.contains("type") || made.contains("enum") ||
                                made.contains("const") || made.contains("anyOf");
    if (!says_something) throw NotStrict();
    return made;
}

}  // namespace

bool is_strict_format(const Json& format) {
    return format.is_string() &&
           is_one_of(format.get_string(), {"date-time", "time", "date", "duration", "email",
                                           "hostname", "ipv4", "ipv6", "uuid"});
}

std::optional<Json> strict_schema(const Json& schema) {
    try {
        return Json(lower(lower_tool_schema(schema, SchemaDialect::inline_refs)));
    } catch (const NotStrict&) {
        return std::nullopt;
    }
}

void drop_added_nulls(Json& value, const Json& schema) {
    const JsonObject* object = schema.if_object();
    if (!object) return;
    if (const Json* all = object->if_contains("anyOf"); all && all->is_array()) {
        for (const Json& one : all->get_array()) drop_added_nulls(value, one);
    }
    if (value.is_array()) {
        const Json* items = object->if_contains("items");
        if (!items) return;
        for (Json& item : value.get_array()) drop_added_nulls(item, *items);
        return;
    }
    const Json* properties = object->if_contains("properties");
    if (!value.is_object() || !properties || !properties->is_object()) return;
    const Json* required = object->if_contains("required");
    for (const auto& [name, property] : properties->get_object()) {
        Json* given = value.get_object().if_contains(name);
        if (!given) continue;
        if (given->is_null() && !lists(required, name) && !allows_null(property)) {
            value.get_object().stable_erase(name);
        } else {
            drop_added_nulls(*given, property);
        }
    }
}

}  // namespace cubepi::detail
