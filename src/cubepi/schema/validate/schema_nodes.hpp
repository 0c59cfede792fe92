#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/core/support/json_member.hpp>

// Access to the parts of a JSON Schema, shared by all code that walks one.

namespace cubepi::detail {

inline std::string_view view(const boost::json::string& text) {
    return std::string_view(text.data(), text.size());
}
inline std::string_view view(boost::json::string_view text) {
    return std::string_view(text.data(), text.size());
}

const Json* member(const JsonObject& object, std::string_view key);

/// Returns the schema to which `reference` ("#/...") refers inside `root`, or nullptr.
const Json* find_reference(const Json& root, std::string_view reference);

/// Follows "$ref" from `node` to a schema without one. Returns nullptr if it is unresolved or circular.
const Json* follow_references(const Json& root, const Json& node);

/// Returns the names in "type"; empty if every type is allowed.
std::vector<std::string_view> allowed_types(const JsonObject& schema);

/// Returns true if `value` is of the JSON Schema type `type` ("integer" also accepts 3.0).
bool has_type(const Json& value, std::string_view type);

/// Returns true if `pattern` (ECMAScript) matches in `text`; false also if the search would take too long. Throws
/// std::exception if the pattern is invalid.
bool pattern_found(std::string_view pattern, std::string_view text);

/// Returns the number of Unicode code points in `text`.
std::size_t count_characters(std::string_view text);

}  // namespace cubepi::detail
