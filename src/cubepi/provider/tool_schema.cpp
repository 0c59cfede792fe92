#include <cubepi/provider/tool_schema.hpp>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/json_memory.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi {

namespace {

using detail::object_member;

bool is_one_of(std::string_view key, std::initializer_list<std::string_view> all) {
    return std::find(all.begin(), all.end(), key) != all.end();
}

bool lists(const JsonArray& names, const Json& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

bool lists(const Json* names, std::string_view name) {
    return names && names->is_array() && lists(names->get_array(), Json(name));
}

/// Returns the target of a reference into the schema itself; null for other references.
const Json* definition(const JsonObject& root, std::string_view reference) {
    for (const std::string_view where : {"$defs", "definitions"}) {
        const std::string prefix = "#/" + std::string(where) + "/";
        if (!reference.starts_with(prefix)) continue;
        const JsonObject* all = object_member(root, where);
        return all ? all->if_contains(reference.substr(prefix.size())) : nullptr;
    }
    return nullptr;
}

constexpr std::array<std::string_view, 3> compositions{"anyOf", "oneOf", "allOf"};

bool is_composed(const JsonObject& schema) {
    return schema.contains("$ref") ||
           std::any_of(compositions.begin(), compositions.end(),
                       [&](std::string_view key) { return schema.contains(key); });
}

bool holds_schema(std::string_view key) {
    return is_one_of(key, {"items", "additionalProperties", "not", "if", "then", "else", "contains",
                           "propertyNames", "unevaluatedProperties", "unevaluatedItems"});
}

bool holds_schema_list(std::string_view key) {
    return key == "anyOf" || key == "oneOf" || key == "allOf" || key == "prefixItems";
}

bool holds_schema_map(std::string_view key) {
    return key == "properties" || key == "patternProperties" || key == "dependentSchemas" ||
           key == "$defs" || key == "definitions";
}

/// Replaces references by what they name. A definition that refers to itself stays a reference, and so do references
/// beyond a size and a depth, because nested ones grow exponentially; then the definitions stay too.
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
        const Json* target = definition(root_, reference);
        const bool recursive = std::find(open_.begin(), open_.end(), reference) != open_.end();
        if (!target || recursive || open_.size() >= deepest_reference || !can_add(*target)) {
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

    bool can_add(const Json& target) {
        if (bytes_left_ == 0) return false;
        const std::size_t bytes = detail::json_memory(target);
        const bool fits = bytes <= bytes_left_;
        bytes_left_ = fits ? bytes_left_ - bytes : 0;
        return fits;
    }

    static constexpr std::size_t deepest_reference = 32;

    const JsonObject& root_;
    std::vector<std::string> open_;
    std::size_t bytes_left_ = std::size_t{1} << 20U;
    bool has_reference_ = false;
};

bool allows_null(const Json& schema) {
    const JsonObject* object = schema.if_object();
    if (!object) return false;
    const Json* type = object->if_contains("type");
    if (type) return *type == Json("null") || lists(type, "null");
    if (const Json* values = object->if_contains("enum"); values && values->is_array())
        return lists(values->get_array(), Json(nullptr));
    const Json* alternatives = object->if_contains("anyOf");
    if (!alternatives || !alternatives->is_array()) return object->empty();
    const JsonArray& all = alternatives->get_array();
    return std::any_of(all.begin(), all.end(), allows_null);
}

/// Thrown and caught here alone: the schema has a word that cannot be expressed.
struct NotStrict {};

void add_sentence(JsonObject& schema, const std::string& more) {
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
        add_sentence(made, "Default: " + to_python_json(*normal) + ".");
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
            if (detail::is_strict_format(value)) made[key] = value;
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
    if (format && format->is_string() && !detail::is_strict_format(*format))
        add_sentence(made, "Format: " + std::string(format->get_string()) + ".");
    if (type && *type == Json("array") && !object->contains("items")) throw NotStrict();
    const bool says_something = made.contains("type") || made.contains("enum") ||
                                made.contains("const") || made.contains("anyOf");
    if (!says_something) throw NotStrict();
    return made;
}

void add_line(JsonObject& schema, const std::string& more) {
    Json& text = schema["description"];
    if (!text.is_string() || text.get_string().empty()) {
        text = more;
    } else {
        text.get_string().append("\n");
        text.get_string().append(more);
    }
}

/// An alternative with its reference followed once; it may still be composed itself.
JsonObject resolved(const JsonObject& root, const Json& schema) {
    const JsonObject* object = schema.if_object();
    if (!object) return {};
    const Json* reference = object->if_contains("$ref");
    if (!reference) return *object;
    const Json* target =
        reference->is_string() ? definition(root, reference->get_string()) : nullptr;
    JsonObject made = target && target->is_object() ? target->get_object() : JsonObject();
    for (const auto& [key, value] : *object) {
        if (key != "$ref") made.insert_or_assign(key, value);
    }
    return made;
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
                // Each part may refer to one long list. The arguments are validated against all of them anyway.
                if (names.size() > names_left_) names.clear();
                names_left_ -= names.size();
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
            add_line(made, "The arguments must match " +
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
    std::size_t names_left_ = 2000;
};

/// Limits that structured outputs refuse (docs.claude.com, "Structured outputs", JSON Schema limitations).
bool is_refused_limit(std::string_view key) {
    return is_one_of(key, {"minimum",
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
                           "not"});
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
            add_line(made, "Must hold as in JSON Schema: " + json_text(Json(limits)));
        }
        return made;
    }

private:
    Json member(std::string_view key, const Json& value) {
        if (key == "items") return lower(value);
        if (holds_schema_list(key) && value.is_array()) {
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
    if (!object.contains("type") && !is_composed(object)) {
        object["type"] = "object";
        if (!object.contains("properties")) object["properties"] = JsonObject();
    }
    return result;
}

namespace detail {

bool is_strict_schema(const Json& schema) {
    if (schema.is_array()) {
        const JsonArray& all = schema.get_array();
        return std::all_of(all.begin(), all.end(), is_strict_schema);
    }
    if (!schema.is_object()) return true;
    const JsonObject& object = schema.get_object();
    if (const Json* properties = object.if_contains("properties");
        properties && properties->is_object()) {
        const Json* closed = object.if_contains("additionalProperties");
        const Json* required = object.if_contains("required");
        if (!closed || *closed != Json(false) || !required || !required->is_array()) return false;
        for (const auto& [name, value] : properties->get_object()) {
            if (!lists(required, name) || !is_strict_schema(value)) return false;
        }
    } else if (const Json* type = object.if_contains("type"); type && *type == Json("object")) {
        return false;
    }
    for (const std::string_view key : {"items", "anyOf"}) {
        const Json* inner = object.if_contains(key);
        if (inner && !is_strict_schema(*inner)) return false;
    }
    for (const std::string_view key : {"$defs", "definitions"}) {
        const Json* inner = object.if_contains(key);
        if (!inner || !inner->is_object()) continue;
        for (const auto& [name, value] : inner->get_object()) {
            if (!is_strict_schema(value)) return false;
        }
    }
    const Json* text_format = object.if_contains("format");
    if (text_format && !is_strict_format(*text_format)) return false;
    // Words that strict mode does not know.
    for (const std::string_view key : {"oneOf", "allOf", "not", "if", "patternProperties",
                                       "dependentSchemas", "default", "uniqueItems"}) {
        if (object.contains(key)) return false;
    }
    return true;
}

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

AnthropicSchema lower_anthropic_tool(const Json& schema, SchemaDialect dialect) {
    AnthropicSchema made;
    made.schema = lower_tool_schema(schema, dialect);
    JsonObject& object = made.schema.get_object();
    if (is_composed(object)) made.schema = Flattener(object).run(made.changes);
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

}  // namespace detail

}  // namespace cubepi
