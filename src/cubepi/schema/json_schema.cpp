#include <cubepi/schema/json_schema.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/schema/fields/field_place.hpp>

namespace cubepi {
namespace detail {
namespace {

// Extracts "Node" from "... T = cubepi::Node]" or "... T = cubepi::Node; std::string_view = ...]".
std::string short_type_name(std::string_view spelled) {
    auto start = spelled.find("T = ");
    start = start == std::string_view::npos ? 0 : start + 4;
    auto name = spelled.substr(start, spelled.find_first_of(";]", start) - start);
    const auto colon = name.rfind(':');
    if (colon != std::string_view::npos) name.remove_prefix(colon + 1);
    std::string result;
    for (const char c : name) {
        const bool plain =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        result += plain ? c : '_';
    }
    return result;
}

}  // namespace

Json SchemaScope::reference_to(const void* type) {
    for (std::size_t i = 0; i < open.size(); ++i) {
        if (open[i].type != type) continue;
        open[i].referenced = true;
        JsonObject reference;
        reference["$ref"] = i == 0 && root_is_struct ? std::string("#") : "#/$defs/" + open[i].name;
        return Json(std::move(reference));
    }
    return nullptr;
}

void SchemaScope::enter(const void* type, std::string_view spelled_name) {
    auto name = short_type_name(spelled_name);
    const auto taken = [&] {
        return definitions.contains(name) ||
               std::any_of(open.begin(), open.end(),
                           [&](const Entry& entry) { return entry.name == name; });
    };
    while (taken()) name += '_';
    open.push_back(Entry{type, std::move(name), false});
}

JsonObject SchemaScope::leave(JsonObject schema) {
    const Entry entry = std::move(open.back());
    open.pop_back();
    const bool is_root = open.empty() && root_is_struct;
    if (!entry.referenced || is_root) return schema;
    definitions.insert_or_assign(entry.name, std::move(schema));
    JsonObject reference;
    reference["$ref"] = "#/$defs/" + entry.name;
    return reference;
}

JsonObject typed_schema(std::string_view type) {
    JsonObject schema;
    schema["type"] = boost::json::string_view(type.data(), type.size());
    return schema;
}

JsonObject nullable_schema(JsonObject schema) {
    if (schema.empty()) return schema;
    JsonArray alternatives;
    alternatives.push_back(Json(std::move(schema)));
    alternatives.push_back(Json(typed_schema("null")));
    return any_of_schema(std::move(alternatives));
}

JsonObject any_of_schema(JsonArray alternatives) {
    JsonObject schema;
    schema["anyOf"] = std::move(alternatives);
    return schema;
}

JsonObject enum_schema(const std::vector<EnumEntry>& entries) {
    JsonArray names;
    for (const auto& entry : entries) {
        names.emplace_back(boost::json::string_view(entry.name.data(), entry.name.size()));
    }
    JsonObject schema = typed_schema("string");
    schema["enum"] = std::move(names);
    return schema;
}

JsonObject array_schema(JsonObject items) {
    JsonObject schema = typed_schema("array");
    schema["items"] = std::move(items);
    return schema;
}

void add_property(JsonObject& properties, JsonArray& required, std::string_view name,
                  JsonObject schema, bool is_required, const Json* default_value) {
    const boost::json::string_view key(name.data(), name.size());
    // A default that JSON cannot represent (infinity) is omitted from the schema; the struct still has it.
    const Json* type = schema.if_contains("type");
    const bool unsaid =
        default_value && default_value->is_null() && type && *type == Json("number");
    if (default_value && !unsaid) schema["default"] = *default_value;
    properties.insert_or_assign(key, std::move(schema));
    if (is_required) required.emplace_back(key);
}

JsonObject finish_schema(JsonObject schema, SchemaScope scope) {
    if (!scope.definitions.empty()) schema["$defs"] = std::move(scope.definitions);
    return schema;
}

namespace {

Place find_field(Json& schema, std::string_view path) {
    auto place = find_place(schema, path);
    if (!place.owner) {
        throw Error(
            ErrorCode::invalid_argument,
            "\"" + std::string(path) + "\" is not a field, so it cannot be required or optional");
    }
    return place;
}

}  // namespace
}  // namespace detail

void describe(Json& schema, std::string_view path, std::string_view text) {
    auto place = detail::find_place(schema, path);
    (*place.field)["description"] = boost::json::string_view(text.data(), text.size());
}

void make_optional(Json& schema, std::string_view path, Json default_value) {
    auto place = detail::find_field(schema, path);
    detail::drop_required(*place.owner, place.name);
    if (!default_value.is_null()) (*place.field)["default"] = std::move(default_value);
}

void make_required(Json& schema, std::string_view path) {
    auto place = detail::find_field(schema, path);
    place.field->erase("default");
    detail::drop_required(*place.owner, place.name);
    auto& required = (*place.owner)["required"];
    if (!required.is_array()) required.emplace_array();
    required.get_array().emplace_back(place.name);
}

}  // namespace cubepi
