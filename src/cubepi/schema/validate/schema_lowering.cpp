#include <cubepi/schema/validate/schema_lowering.hpp>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/schema/detail/value_path.hpp>
#include <cubepi/schema/validate/schema_nodes.hpp>
#include <cubepi/schema/validate/schema_pattern.hpp>

namespace cubepi::detail {
namespace {

constexpr int deepest_schema = 200;

[[noreturn]] void refuse(const std::string& pointer, const std::string& reason) {
    throw Error(ErrorCode::invalid_argument,
                "the JSON Schema is not valid at " +
                    (pointer.empty() ? std::string("its root") : pointer) + ": " + reason);
}

std::string below(const std::string& pointer, std::string_view key) {
    std::string result = pointer + '/';
    for (const char c : key) {
        if (c == '~') {
            result += "~0";
        } else if (c == '/') {
            result += "~1";
        } else {
            result += c;
        }
    }
    return result;
}

bool one_of(std::string_view word, std::initializer_list<std::string_view> words) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

void put(JsonObject& object, std::string_view key, Json value) {
    object.insert_or_assign(boost::json::string_view(key.data(), key.size()), std::move(value));
}

// valijson does not support unsigned numbers.
Json without_unsigned(Json value) {
    if (value.is_uint64()) {
        const auto number = value.get_uint64();
        constexpr auto highest =
            static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
        value = static_cast<std::int64_t>(std::min(number, highest));
    } else if (auto* array = value.if_array()) {
        for (auto& item : *array) item = without_unsigned(std::move(item));
    } else if (auto* object = value.if_object()) {
        for (auto& entry : *object) entry.value() = without_unsigned(std::move(entry.value()));
    }
    return value;
}

// A search for a schema that applies itself to the same value ("$ref": "#" in its own "allOf"), which would never end.
class CircleFinder {
public:
    explicit CircleFinder(const Json& root) : root_(root) {}

    void visit(const Json& schema, const std::string& pointer) {
        const auto* object = schema.if_object();
        if (!object || done_.count(object) != 0) return;
        if (!open_.insert(object).second) refuse(pointer, "the schema contains itself without end");
        const auto reference = string_member(*object, "$ref");
        if (!reference.empty()) {
            if (const Json* target = find_reference(root_, reference))
                visit(*target, below(pointer, "$ref"));
        }
        for (const std::string_view key : {"allOf", "anyOf", "oneOf"}) {
            if (const auto* parts = array_member(*object, key)) {
                for (const auto& part : *parts) visit(part, below(pointer, key));
            }
        }
        for (const std::string_view key : {"not", "if", "then", "else"}) {
            if (const auto* part = member(*object, key)) visit(*part, below(pointer, key));
        }
        for (const std::string_view key : {"dependencies", "dependentSchemas"}) {
            if (const auto* parts = object_member(*object, key)) {
                for (const auto& part : *parts) visit(part.value(), below(pointer, key));
            }
        }
        open_.erase(object);
        done_.insert(object);
    }

private:
    const Json& root_;
    std::set<const JsonObject*> open_;
    std::set<const JsonObject*> done_;
};

class Lowering {
public:
    explicit Lowering(const Json& root) : root_(root), circles_(root) {}

    LoweredSchema run() {
        LoweredSchema result;
        result.schema = lower(root_, "", 0);
        result.pattern_properties = std::move(pattern_properties_);
        return result;
    }

private:
    Json lower(const Json& schema, const std::string& pointer, int depth) {
        if (depth > deepest_schema) refuse(pointer, "nested too deeply");
        if (schema.is_bool()) return schema;
        const auto* object = schema.if_object();
        if (!object)
            refuse(pointer, "expected an object or a boolean, found " + describe_value(schema));
        circles_.visit(schema, pointer);

        JsonObject result;
        for (const auto& entry : *object) {
            const auto key = view(entry.key());
            lower_keyword(key, entry.value(), below(pointer, key), depth, *object, result);
        }
        move_reference(*object, result, pointer);
        return Json(std::move(result));
    }

    void lower_keyword(std::string_view key, const Json& value, const std::string& pointer,
                       int depth, const JsonObject& schema, JsonObject& result) {
        if (key == "type") {
            check_type(value, pointer);
            put(result, key, value);
        } else if (key == "enum") {
            if (!value.is_array())
                refuse(pointer, "expected a list, found " + describe_value(value));
            put(result, key, without_unsigned(value));
        } else if (key == "const") {
            put(result, key, without_unsigned(value));
        } else if (key == "required") {
            check_names(value, pointer);
            put(result, key, value);
        } else if (one_of(key, {"properties", "patternProperties", "$defs", "definitions"})) {
            put(result, key, lower_members(key, value, pointer, depth));
        } else if (one_of(key, {"allOf", "anyOf", "oneOf"})) {
            if (!value.is_array() || value.get_array().empty())
                refuse(pointer, "expected a list of schemas");
            put(result, key, lower_list(value.get_array(), pointer, depth));
        } else if (one_of(key, {"additionalProperties", "contains", "propertyNames", "not", "if",
                                "then", "else"})) {
            put(result, key, lower(value, pointer, depth + 1));
        } else if (one_of(key, {"items", "prefixItems", "additionalItems"})) {
            lower_items(key, value, pointer, depth, schema, result);
        } else if (one_of(key, {"dependencies", "dependentRequired", "dependentSchemas"})) {
            lower_dependencies(value, pointer, depth, result);
        } else {
            lower_limit(key, value, pointer, schema, result);
        }
    }

    static void check_type(const Json& value, const std::string& pointer) {
        const auto known = [&](const Json& item) {
            if (!item.is_string() ||
                !one_of(view(item.get_string()),
                        {"string", "integer", "number", "boolean", "array", "object", "null"})) {
                refuse(pointer, quote_value(item) + " is not a type");
            }
        };
        if (const auto* list = value.if_array()) {
            for (const auto& item : *list) known(item);
        } else {
            known(value);
        }
    }

    static void check_names(const Json& value, const std::string& pointer) {
        const auto* list = value.if_array();
        if (!list) refuse(pointer, "expected a list of names, found " + describe_value(value));
        for (const auto& item : *list) {
            if (!item.is_string())
                refuse(pointer, "expected a list of names, found " + describe_value(item));
        }
    }

    Json lower_members(std::string_view key, const Json& value, const std::string& pointer,
                       int depth) {
        const auto* members = value.if_object();
        if (!members) refuse(pointer, "expected an object, found " + describe_value(value));
        JsonObject result;
        for (const auto& entry : *members) {
            const auto name = view(entry.key());
            if (key == "patternProperties") {
                check_pattern(name, below(pointer, name));
                pattern_properties_.emplace_back(name);
            }
            put(result, name, lower(entry.value(), below(pointer, name), depth + 1));
        }
        return Json(std::move(result));
    }

    Json lower_list(const JsonArray& list, const std::string& pointer, int depth) {
        JsonArray result;
        for (std::size_t i = 0; i < list.size(); ++i) {
            result.push_back(lower(list[i], below(pointer, std::to_string(i)), depth + 1));
        }
        return Json(std::move(result));
    }

    // "prefixItems" and "items" of newer drafts are "items" and "additionalItems" in draft 7. prefixItems itself is
    // preserved for references into it.
    void lower_items(std::string_view key, const Json& value, const std::string& pointer, int depth,
                     const JsonObject& schema, JsonObject& result) {
        const bool newer = schema.contains("prefixItems");
        Json lowered = value.is_array() ? lower_list(value.get_array(), pointer, depth)
                                        : lower(value, pointer, depth + 1);
        if (key == "prefixItems") {
            put(result, "items", lowered);
            put(result, key, std::move(lowered));
        } else if (newer && key == "items") {
            put(result, "additionalItems", std::move(lowered));
        } else if (!newer) {
            put(result, key, std::move(lowered));
        }
    }

    void lower_dependencies(const Json& value, const std::string& pointer, int depth,
                            JsonObject& result) {
        const auto* members = value.if_object();
        if (!members) refuse(pointer, "expected an object, found " + describe_value(value));
        auto& merged = result["dependencies"];
        if (!merged.is_object()) merged.emplace_object();
        for (const auto& entry : *members) {
            const auto name = view(entry.key());
            const auto here = below(pointer, name);
            if (entry.value().is_array()) {
                check_names(entry.value(), here);
                put(merged.get_object(), name, entry.value());
            } else {
                put(merged.get_object(), name, lower(entry.value(), here, depth + 1));
            }
        }
    }

    void lower_limit(std::string_view key, const Json& value, const std::string& pointer,
                     const JsonObject& schema, JsonObject& result) {
        if (one_of(key, {"minLength", "maxLength", "minItems", "maxItems", "minProperties",
                         "maxProperties"})) {
            const Json whole = integer_from_number(value);
            boost::system::error_code error;
            const auto count = whole.is_null() ? -1 : whole.to_number<std::int64_t>(error);
            if (error || count < 0)
                refuse(pointer, "expected a number of 0 or more, found " + describe_value(value));
            put(result, key, count);
        } else if (one_of(key, {"minimum", "maximum"})) {
            check_number(value, pointer);
            const auto exclusive = key == "minimum" ? "exclusiveMinimum" : "exclusiveMaximum";
            const bool draft4 = flag_member(schema, exclusive);
            put(result, draft4 ? exclusive : key, value.to_number<double>());
        } else if (one_of(key, {"exclusiveMinimum", "exclusiveMaximum"})) {
            if (value.is_bool()) return;
            check_number(value, pointer);
            put(result, key, value.to_number<double>());
        } else if (key == "multipleOf") {
            check_number(value, pointer);
            if (!(value.to_number<double>() > 0)) refuse(pointer, "must be more than 0");
            put(result, key, value.to_number<double>());
        } else if (key == "uniqueItems") {
            if (!value.is_bool())
                refuse(pointer, "expected a boolean, found " + describe_value(value));
            put(result, key, value);
        } else if (key == "pattern") {
            if (!value.is_string())
                refuse(pointer, "expected a string, found " + describe_value(value));
            check_pattern(view(value.get_string()), pointer);
            put(result, pattern_keyword, value);
        }
    }

    static void check_number(const Json& value, const std::string& pointer) {
        if (!value.is_number())
            refuse(pointer, "expected a number, found " + describe_value(value));
    }

    static void check_pattern(std::string_view pattern, const std::string& pointer) {
        try {
            const SchemaPattern compiled(pattern);
        } catch (const std::exception& error) {
            refuse(pointer, "not a regular expression: " + std::string(error.what()));
        }
    }

    // Draft 7 ignores keywords next to "$ref"; newer drafts, and authors who write a "default" or a limit there, do
    // not.
    void move_reference(const JsonObject& schema, JsonObject& result,
                        const std::string& pointer) const {
        const auto* reference = member(schema, "$ref");
        if (!reference) return;
        const auto here = below(pointer, "$ref");
        if (!reference->is_string())
            refuse(here, "expected a string, found " + describe_value(*reference));
        if (!find_reference(root_, view(reference->get_string()))) {
            refuse(here, "there is no " + quote_value(*reference) +
                             " in this schema (references to other documents are not followed)");
        }
        JsonObject target;
        target["$ref"] = *reference;
        JsonArray all;
        all.push_back(Json(std::move(target)));
        if (auto* parts = result.if_contains("allOf"); parts && parts->is_array()) {
            for (auto& part : parts->get_array()) all.push_back(std::move(part));
        }
        put(result, "allOf", Json(std::move(all)));
    }

    const Json& root_;
    CircleFinder circles_;
    std::vector<std::string> pattern_properties_;
};

}  // namespace

LoweredSchema lower_schema(const Json& root) { return Lowering(root).run(); }

}  // namespace cubepi::detail
