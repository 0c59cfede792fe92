#pragma once

#include <cstddef>

#include <cubepi/core/json.hpp>

namespace cubepi::detail {

std::size_t json_memory(const Json& value);

/// Estimates the memory of a JSON value.
inline std::size_t json_memory(const JsonObject& object) {
    std::size_t size = 0;
    for (const auto& [key, value] : object)
        size += 2 * sizeof(void*) + key.size() + json_memory(value);
    return size;
}

inline std::size_t json_memory(const Json& value) {
    std::size_t size = sizeof(Json);
    if (const auto* text = value.if_string()) size += text->size();
    if (const auto* object = value.if_object()) size += json_memory(*object);
    if (const auto* array = value.if_array()) {
        for (const Json& item : *array) size += json_memory(item);
    }
    return size;
}

}  // namespace cubepi::detail
