#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <cubepi/core/json.hpp>

// Members of JSON objects whose form is not guaranteed (responses, files): a member of another type counts as absent. The
// results refer to the object.

namespace cubepi::detail {

inline const JsonObject* object_member(const JsonObject& object, std::string_view key) noexcept {
    const Json* value = object.if_contains(key);
    return value ? value->if_object() : nullptr;
}

inline const JsonArray* array_member(const JsonObject& object, std::string_view key) noexcept {
    const Json* value = object.if_contains(key);
    return value ? value->if_array() : nullptr;
}

/// Returns an empty view if there is no such string.
inline std::string_view string_member(const JsonObject& object, std::string_view key) noexcept {
    const Json* value = object.if_contains(key);
    return value && value->is_string() ? std::string_view(value->get_string()) : std::string_view();
}

/// Like string_member(), as a copy.
inline std::string text_member(const JsonObject& object, std::string_view key) {
    return std::string(string_member(object, key));
}

inline std::optional<std::int64_t> integer_member(const JsonObject& object,
                                                  std::string_view key) noexcept {
    const Json* value = object.if_contains(key);
    return value && value->is_int64() ? std::optional(value->get_int64()) : std::nullopt;
}

inline bool flag_member(const JsonObject& object, std::string_view key,
                        bool fallback = false) noexcept {
    const Json* value = object.if_contains(key);
    return value && value->is_bool() ? value->get_bool() : fallback;
}

}  // namespace cubepi::detail
