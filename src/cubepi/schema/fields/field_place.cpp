#include <cubepi/schema/fields/field_place.hpp>

#include <cubepi/core/error.hpp>

namespace cubepi::detail {

namespace {

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

}  // namespace

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

namespace {

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

}  // namespace

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

void drop_required(JsonObject& owner, const std::string& name) {
    auto* required = owner.if_contains("required");
    if (!required || !required->is_array()) return;
    auto& names = required->get_array();
    for (auto it = names.begin(); it != names.end();) {
        it = it->is_string() && it->get_string() == name ? names.erase(it) : it + 1;
    }
    if (names.empty()) owner.erase("required");
}

}  // namespace cubepi::detail
