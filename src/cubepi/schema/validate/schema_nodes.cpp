#include <cubepi/schema/validate/schema_nodes.hpp>

#include <cmath>
#include <utility>

#include <boost/json.hpp>

#include <cubepi/schema/detail/value_path.hpp>
#include <cubepi/schema/json/utf8.hpp>
#include <cubepi/schema/validate/schema_pattern.hpp>

namespace cubepi::detail {

const Json* member(const JsonObject& object, std::string_view key) {
    return object.if_contains(boost::json::string_view(key.data(), key.size()));
}

const Json* find_reference(const Json& root, std::string_view reference) {
    if (reference.empty() || reference.front() != '#') return nullptr;
    const auto pointer = reference.substr(1);
    if (!pointer.empty() && pointer.front() != '/') return nullptr;
    boost::json::error_code error;
    const Json* found =
        root.find_pointer(boost::json::string_view(pointer.data(), pointer.size()), error);
    return error ? nullptr : found;
}

const Json* follow_references(const Json& root, const Json& node) {
    const Json* current = &node;
    for (int hops = 0; current && hops < 64; ++hops) {
        const auto* object = current->if_object();
        const auto* reference = object ? member(*object, "$ref") : nullptr;
        if (!reference) return current;
        current =
            reference->is_string() ? find_reference(root, view(reference->get_string())) : nullptr;
    }
    return nullptr;
}

std::vector<std::string_view> allowed_types(const JsonObject& schema) {
    std::vector<std::string_view> types;
    const auto* type = member(schema, "type");
    if (!type) return types;
    if (type->is_string()) types.push_back(view(type->get_string()));
    if (const auto* list = type->if_array()) {
        for (const auto& item : *list) {
            if (item.is_string()) types.push_back(view(item.get_string()));
        }
    }
    return types;
}

bool has_type(const Json& value, std::string_view type) {
    if (type == "null") return value.is_null();
    if (type == "boolean") return value.is_bool();
    if (type == "string") return value.is_string();
    if (type == "array") return value.is_array();
    if (type == "object") return value.is_object();
    if (type == "number") return value.is_number();
    if (type == "integer") {
        // An integer beyond 64 bits is not valid, because no reader could represent it.
        return !integer_from_number(value).is_null();
    }
    return false;
}

bool pattern_found(std::string_view pattern, std::string_view text) {
    return SchemaPattern(pattern).found_in(text);
}

std::size_t count_characters(std::string_view text) {
    std::size_t count = 0;
    for (std::size_t at = 0; at < text.size(); at += utf8_char(text, at).length) ++count;
    return count;
}

}  // namespace cubepi::detail
