#pragma once

#include <string>
#include <string_view>

#include <cubepi/core/json.hpp>

namespace cubepi::detail {

/// A field inside a schema.
struct Place {
    JsonObject* owner =
        nullptr;  ///< the object schema that has the field; null for the root or items
    JsonObject* field = nullptr;
    std::string name;
};

/// Returns the field at `path`. Throws Error(invalid_argument) that lists the existing fields if there is none.
Place find_place(Json& schema, std::string_view path);
/// Follows "$ref" to "#" and "#/$defs/NAME"; null: another reference.
JsonObject* resolve(JsonObject& root, JsonObject* schema);
/// Makes a field of `owner` optional.
void drop_required(JsonObject& owner, const std::string& name);

}  // namespace cubepi::detail
