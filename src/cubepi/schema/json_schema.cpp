#include <cubepi/schema/json_schema.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>

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

}  // namespace detail

namespace {

// A field inside a schema.
struct Place {
    JsonObject* owner =
        nullptr;  // the object schema that has the field; null for the root or items
    JsonObject* field = nullptr;
    std::string name;
};

[[noreturn]] void throw_unknown(std::string_view path, const std::string& name,
                                const JsonObject* properties) {
    std::string message = "the schema has no field \"" + std::string(path) + '"';
    if (name != path) message += " (\"" + name + "\" does not exist)";
    if (properties && !properties->empty()) {
        message += "; fields there: ";
        bool first = true;
        for (const auto& property : *properties) {
            if (!first) message += ", ";
            message += std::string_view(property.key().data(), property.key().size());
            first = false;
        }
    }
    throw Error(ErrorCode::invalid_argument, message);
}

JsonObject* child_object(JsonObject& parent, std::string_view key) {
    auto* value = parent.if_contains(boost::json::string_view(key.data(), key.size()));
    return value ? value->if_object() : nullptr;
}

// Follows "$ref" to "#" and "#/$defs/NAME"; null: another reference.
JsonObject* resolve(JsonObject& root, JsonObject* schema) {
    for (int hops = 0; schema && hops < 16; ++hops) {
        const auto* reference = schema->if_contains("$ref");
        if (!reference || !reference->is_string()) return schema;
        const std::string_view target(reference->get_string().data(),
                                      reference->get_string().size());
        constexpr std::string_view prefix = "#/$defs/";
        if (target == "#") {
            schema = &root;
        } else if (target.substr(0, prefix.size()) == prefix) {
            auto* definitions = child_object(root, "$defs");
            schema =
                definitions ? child_object(*definitions, target.substr(prefix.size())) : nullptr;
        } else {
            return nullptr;
        }
    }
    return schema;
}

// Returns the part of `schema` that has `keyword` ("properties", "items"): itself or one of its alternatives.
JsonObject* part_with(JsonObject& root, JsonObject* schema, std::string_view keyword) {
    schema = resolve(root, schema);
    if (!schema) return nullptr;
    if (child_object(*schema, keyword)) return schema;
    for (const std::string_view group : {"anyOf", "oneOf", "allOf"}) {
        auto* alternatives =
            schema->if_contains(boost::json::string_view(group.data(), group.size()));
        if (!alternatives || !alternatives->is_array()) continue;
        for (auto& alternative : alternatives->get_array()) {
            auto* found =
                alternative.is_object() ? resolve(root, &alternative.get_object()) : nullptr;
            if (found && child_object(*found, keyword)) return found;
        }
    }
    return nullptr;
}

// Returns the field at `path`. Throws Error(invalid_argument) that lists the existing fields if there is none.
Place find_place(Json& schema, std::string_view path) {
    auto* root = schema.if_object();
    if (!root)
        throw Error(ErrorCode::invalid_argument,
                    "a schema must be a JSON object to describe its fields");
    Place place{nullptr, root, {}};
    std::string_view rest = path;
    while (!rest.empty()) {
        if (rest.substr(0, 2) == "[]") {
            auto* owner = part_with(*root, place.field, "items");
            if (!owner) throw_unknown(path, "[]", nullptr);
            place = Place{nullptr, child_object(*owner, "items"), {}};
            rest.remove_prefix(2);
        } else {
            const auto name = std::string(rest.substr(0, rest.find_first_of(".[")));
            auto* owner = part_with(*root, place.field, "properties");
            auto* properties = owner ? child_object(*owner, "properties") : nullptr;
            auto* field = properties ? child_object(*properties, name) : nullptr;
            if (!field || name.empty()) throw_unknown(path, name, properties);
            place = Place{owner, field, name};
            rest.remove_prefix(name.size());
        }
        if (rest.substr(0, 1) == ".") rest.remove_prefix(1);
    }
    return place;
}

// Makes a field of `owner` optional.
void drop_required(JsonObject& owner, const std::string& name) {
    auto* required = owner.if_contains("required");
    if (!required || !required->is_array()) return;
    auto& names = required->get_array();
    for (auto it = names.begin(); it != names.end();) {
        it = it->is_string() && it->get_string() == name ? names.erase(it) : it + 1;
    }
    if (names.empty()) owner.erase("required");
}

Place find_field(Json& schema, std::string_view path) {
    auto place = find_place(schema, path);
    if (!place.owner) {
        throw Error(
            ErrorCode::invalid_argument,
            "\"" + std::string(path) + "\" is not a field, so it cannot be required or optional");
    }
    return place;
}

// The kind of values that a keyword applies to; empty: any.
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

// Adds the keyword to the schema, or to its alternatives of the right kind. Returns false if there is none.
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

void describe(Json& schema, std::string_view path, std::string_view text) {
    auto place = find_place(schema, path);
    (*place.field)["description"] = boost::json::string_view(text.data(), text.size());
}

void make_optional(Json& schema, std::string_view path, Json default_value) {
    auto place = find_field(schema, path);
    drop_required(*place.owner, place.name);
    if (!default_value.is_null()) (*place.field)["default"] = std::move(default_value);
}

void make_required(Json& schema, std::string_view path) {
    auto place = find_field(schema, path);
    place.field->erase("default");
    drop_required(*place.owner, place.name);
    auto& required = (*place.owner)["required"];
    if (!required.is_array()) required.emplace_array();
    required.get_array().emplace_back(place.name);
}

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
    const Place place = find_place(schema, path);
    JsonObject& root = schema.get_object();
    for (const auto& [keyword, value] : constraints.keywords()) {
        if (put_keyword(root, place.field, keyword, value)) continue;
        throw Error(ErrorCode::invalid_argument, "the constraint " + std::string(keyword) +
                                                     " does not apply to the field \"" +
                                                     std::string(path) + "\", which is not a " +
                                                     std::string(kind_of_keyword(keyword)));
    }
    for (const auto& value : constraints.value_texts())
        add_value_text(root, *place.field, path, value);
    if (constraints.keywords().contains("default") && place.owner)
        drop_required(*place.owner, place.name);
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
