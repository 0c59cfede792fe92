#include <cubepi/provider/anthropic/schema.hpp>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <cubepi/core/support/json_member.hpp>
#include <cubepi/provider/tool_schema.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi::detail {

namespace {

constexpr std::array<std::string_view, 3> compositions{"anyOf", "oneOf", "allOf"};

void describe(JsonObject& schema, const std::string& more) {
    Json& text = schema["description"];
    if (!text.is_string() || text.get_string().empty()) {
        text = more;
    } else {
        text.get_string().append("\n");
        text.get_string().append(more);
    }
}

/// Returns the target of a reference into the schema itself; null for other references.
const JsonObject* target_of(const JsonObject& root, const Json& reference) {
    if (!reference.is_string()) return nullptr;
    const std::string_view text = reference.get_string();
    for (const std::string_view where : {"$defs", "definitions"}) {
        const std::string prefix = "#/" + std::string(where) + "/";
        const JsonObject* all = text.starts_with(prefix) ? object_member(root, where) : nullptr;
        if (all) return object_member(*all, text.substr(prefix.size()));
    }
    return nullptr;
}

/// An alternative with its reference followed once; it may still be composed itself.
JsonObject resolved(const JsonObject& root, const Json& schema) {
    const JsonObject* object = schema.if_object();
    if (!object) return {};
    const Json* reference = object->if_contains("$ref");
    if (!reference) return *object;
    const JsonObject* target = target_of(root, *reference);
    JsonObject made = target ? *target : JsonObject();
    for (const auto& [key, value] : *object) {
        if (key != "$ref") made.insert_or_assign(key, value);
    }
    return made;
}

bool lists(const JsonArray& names, const Json& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

JsonArray required_of(const JsonObject& schema) {
    const Json* names = schema.if_contains("required");
    const JsonArray* array = names ? names->if_array() : nullptr;
    return array ? *array : JsonArray();
}

/// Makes one object of a composed schema. Every property that any part knows may be given; required is what all
/// parts of allOf, or each alternative, require.
class Flattener {
public:
    explicit Flattener(JsonObject root) : root_(std::move(root)) {}

    JsonObject run(std::vector<std::string>& changes) {
        JsonObject made = resolved(root_, root_);
        for (int depth = 0; depth < max_depth && composition_of(made); ++depth) fold(made, changes);
        for (const char* defs : {"$defs", "definitions"}) {
            if (const Json* all = root_.if_contains(defs)) made.insert_or_assign(defs, *all);
        }
        made["type"] = "object";
        if (!made.contains("properties")) made["properties"] = JsonObject();
        return made;
    }

private:
    static constexpr int max_depth = 8;

    static const char* composition_of(const JsonObject& schema) {
        for (const std::string_view key : compositions) {
            if (schema.contains(key)) return key.data();
        }
        return nullptr;
    }

    void fold(JsonObject& made, std::vector<std::string>& changes) {
        const std::string key = composition_of(made);
        const Json parts = made.at(key);
        made.erase(key);
        const bool all = key == "allOf";
        JsonArray required = required_of(made);
        JsonArray common;
        bool first = true;
        if (parts.is_array()) {
            for (const Json& part : parts.get_array()) {
                const JsonObject one = resolved(root_, part);
                take_properties(made, one);
                JsonArray names = required_of(one);
                if (all || first) {
                    for (Json& name : names) common.push_back(std::move(name));
                } else {
                    keep_those_in(common, names);
                }
                first = false;
            }
        }
        for (Json& name : common) {
            if (!lists(required, name)) required.push_back(std::move(name));
        }
        if (!required.empty()) made["required"] = std::move(required);
        if (!all) {
            describe(made, "The arguments must match " +
                               std::string(key == "anyOf" ? "at least one" : "exactly one") +
                               " of these JSON Schemas: " + json_text(Json(parts)));
        }
        changes.push_back("'" + key + "' at the top of its schema became one object");
    }

    static void keep_those_in(JsonArray& names, const JsonArray& others) {
        JsonArray common;
        for (const Json& name : names) {
            if (lists(others, name)) common.push_back(name);
        }
        names = std::move(common);
    }

    static void take_properties(JsonObject& made, const JsonObject& part) {
        const JsonObject* properties = object_member(part, "properties");
        if (properties) {
            Json& own = made["properties"];
            if (!own.is_object()) own = JsonObject();
            for (const auto& [name, schema] : *properties) {
                if (!own.get_object().contains(name)) own.get_object()[name] = schema;
            }
        }
        for (const std::string_view key : compositions) {
            if (part.contains(key) && !made.contains(key)) made[key] = part.at(key);
        }
    }

    JsonObject root_;
};

/// Limits that structured outputs refuse (docs.claude.com, "Structured outputs", JSON Schema limitations).
bool is_refused_limit(std::string_view key) {
    for (const std::string_view one : {"minimum",
                                       "maximum",
                                       "exclusiveMinimum",
                                       "exclusiveMaximum",
                                       "multipleOf",
                                       "minLength",
                                       "maxLength",
                                       "maxItems",
                                       "uniqueItems",
                                       "contains",
                                       "minContains",
                                       "maxContains",
                                       "minProperties",
                                       "maxProperties",
                                       "patternProperties",
                                       "propertyNames",
                                       "unevaluatedProperties",
                                       "unevaluatedItems",
                                       "dependentRequired",
                                       "dependentSchemas",
                                       "if",
                                       "then",
                                       "else",
                                       "not"}) {
        if (key == one) return true;
    }
    return false;
}

/// Lowers the schema of an answer, place by place.
class FormatLowering {
public:
    std::vector<std::string> changes;

    Json lower(const Json& schema) {
        if (!schema.is_object()) return schema;
        JsonObject made;
        JsonObject limits;
        for (const auto& [key, value] : schema.get_object()) {
            const bool many = key == "minItems" && value != Json(0) && value != Json(1);
            if (is_refused_limit(key) || many) {
                limits[key] = value;
            } else {
                made[key == "oneOf" ? "anyOf" : std::string_view(key)] = member(key, value);
            }
        }
        close(made);
        if (!limits.empty()) {
            for (const auto& [key, value] : limits) changes.emplace_back(key);
            describe(made, "Must hold as in JSON Schema: " + json_text(Json(limits)));
        }
        return made;
    }

private:
    Json member(std::string_view key, const Json& value) {
        if (key == "items") return lower(value);
        if ((key == "anyOf" || key == "oneOf" || key == "allOf" || key == "prefixItems") &&
            value.is_array()) {
            JsonArray list;
            for (const Json& item : value.get_array()) list.push_back(lower(item));
            return list;
        }
        if ((key == "properties" || key == "$defs" || key == "definitions") && value.is_object()) {
            JsonObject map;
            for (const auto& [name, item] : value.get_object()) map[name] = lower(item);
            return map;
        }
        return value;
    }

    void close(JsonObject& schema) {
        const bool object = schema.contains("properties") ||
                            (schema.contains("type") && schema.at("type") == Json("object"));
        if (!object) return;
        const Json* open = schema.if_contains("additionalProperties");
        if (open && *open != Json(false)) changes.emplace_back("additionalProperties");
        schema["additionalProperties"] = false;
    }
};

}  // namespace

AnthropicSchema lower_anthropic_tool(const Json& schema, SchemaDialect dialect) {
    AnthropicSchema made;
    made.schema = lower_tool_schema(schema, dialect);
    JsonObject& object = made.schema.get_object();
    const bool composed = std::any_of(compositions.begin(), compositions.end(),
                                      [&](std::string_view key) { return object.contains(key); });
    if (composed || object.contains("$ref")) made.schema = Flattener(object).run(made.changes);
    return made;
}

AnthropicSchema lower_anthropic_format(const Json& schema) {
    FormatLowering lowering;
    AnthropicSchema made;
    made.schema = lowering.lower(schema);
    made.changes = std::move(lowering.changes);
    std::sort(made.changes.begin(), made.changes.end());
    made.changes.erase(std::unique(made.changes.begin(), made.changes.end()), made.changes.end());
    return made;
}

}  // namespace cubepi::detail
