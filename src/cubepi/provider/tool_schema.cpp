#include <cubepi/provider/tool_schema.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace cubepi {

namespace {

bool holds_schema(std::string_view key) {
    for (const std::string_view one :
         {"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames",
          "unevaluatedProperties", "unevaluatedItems"}) {
        if (key == one) return true;
    }
    return false;
}

bool holds_schema_list(std::string_view key) {
    return key == "anyOf" || key == "oneOf" || key == "allOf" || key == "prefixItems";
}

bool holds_schema_map(std::string_view key) {
    return key == "properties" || key == "patternProperties" || key == "dependentSchemas" ||
           key == "$defs" || key == "definitions";
}

/// Replaces references by what they name. A definition that refers to itself stays a reference, and then the
/// definitions stay too.
class Inliner {
public:
    explicit Inliner(const JsonObject& root) : root_(root) {}

    Json run() {
        Json result = lower(root_);
        if (!has_reference_ && result.is_object()) {
            result.get_object().erase("$defs");
            result.get_object().erase("definitions");
        }
        return result;
    }

private:
    const Json* named_by(std::string_view reference) const {
        for (const std::string_view where : {"$defs", "definitions"}) {
            const std::string prefix = "#/" + std::string(where) + "/";
            if (!reference.starts_with(prefix)) continue;
            const Json* all = root_.if_contains(where);
            if (!all || !all->is_object()) return nullptr;
            return all->get_object().if_contains(reference.substr(prefix.size()));
        }
        return nullptr;
    }

    Json lower(const Json& schema) {
        if (!schema.is_object()) return schema;
        const JsonObject& object = schema.get_object();
        const Json* reference = object.if_contains("$ref");
        if (reference && reference->is_string())
            return follow(object, std::string(reference->get_string()));
        JsonObject result;
        for (const auto& [key, value] : object) result[key] = lower_member(key, value);
        return result;
    }

    Json lower_member(std::string_view key, const Json& value) {
        if (holds_schema(key)) return lower(value);
        if (holds_schema_list(key) && value.is_array()) {
            JsonArray list;
            for (const Json& item : value.get_array()) list.push_back(lower(item));
            return list;
        }
        if (holds_schema_map(key) && value.is_object()) {
            const bool definitions = key == "$defs" || key == "definitions";
            JsonObject map;
            for (const auto& [name, item] : value.get_object())
                map[name] = definitions ? item : lower(item);
            return map;
        }
        return value;
    }

    Json follow(const JsonObject& object, const std::string& reference) {
        const Json* target = named_by(reference);
        const bool recursive = std::find(open_.begin(), open_.end(), reference) != open_.end();
        if (!target || recursive) {
            has_reference_ = true;
            return object;
        }
        open_.push_back(reference);
        Json result = lower(*target);
        open_.pop_back();
        if (!result.is_object()) return result;
        for (const auto& [key, value] : object) {
            if (key != "$ref" && !result.get_object().contains(key))
                result.get_object()[key] = lower_member(key, value);
        }
        return result;
    }

    const JsonObject& root_;
    std::vector<std::string> open_;
    bool has_reference_ = false;
};

}  // namespace

Json lower_tool_schema(const Json& schema, SchemaDialect dialect) {
    if (!schema.is_object()) {
        JsonObject none;
        none["type"] = "object";
        none["properties"] = JsonObject();
        return none;
    }
    Json result =
        dialect == SchemaDialect::inline_refs ? Inliner(schema.get_object()).run() : schema;
    JsonObject& object = result.get_object();
    const bool composed = object.contains("anyOf") || object.contains("oneOf") ||
                          object.contains("allOf") || object.contains("$ref");
    if (!object.contains("type") && !composed) {
        object["type"] = "object";
        if (!object.contains("properties")) object["properties"] = JsonObject();
    }
    return result;
}

}  // namespace cubepi
