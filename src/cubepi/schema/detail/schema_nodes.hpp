#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/json.hpp>

// How the parts of a JSON Schema are found; shared by everything that walks one.

namespace cubepi::detail {

inline std::string_view view(const boost::json::string& text) {
    return std::string_view(text.data(), text.size());
}
inline std::string_view view(boost::json::string_view text) {
    return std::string_view(text.data(), text.size());
}

const Json* member(const JsonObject& object, std::string_view key);
const JsonObject* object_member(const JsonObject& object, std::string_view key);
const JsonArray* array_member(const JsonObject& object, std::string_view key);
/// An empty view when there is no such string.
std::string_view string_member(const JsonObject& object, std::string_view key);

/// The schema that `reference` ("#/...") names inside `root`, or nullptr.
const Json* find_reference(const Json& root, std::string_view reference);

/// Follows "$ref" from `node` to a schema without one. nullptr when it leads nowhere or in a circle.
const Json* follow_references(const Json& root, const Json& node);

/// The names in "type"; empty when every type is allowed.
std::vector<std::string_view> allowed_types(const JsonObject& schema);

/// Whether `value` is of the JSON Schema type `type` ("integer" also takes 3.0).
bool has_type(const Json& value, std::string_view type);

/// Whether `pattern` (ECMAScript) is found in `text`. False as well where the search would take too long.
/// Throws std::exception for a pattern that is none.
bool pattern_found(std::string_view pattern, std::string_view text);

/// Unicode code points in `text`.
std::size_t count_characters(std::string_view text);

}  // namespace cubepi::detail
