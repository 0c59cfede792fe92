#pragma once

#include <chrono>
#include <exception>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>

#include <cubepi/core/task.hpp>

#include "scenario.hpp"

namespace conformance {

// Reading JSON with a fault that names the place.

inline const JsonObject& as_object(const Json& value, std::string_view where) {
    if (const JsonObject* object = value.if_object()) return *object;
    throw BadFile(std::string(where) + ": an object was expected");
}

inline const JsonArray& as_array(const Json& value, std::string_view where) {
    if (const JsonArray* array = value.if_array()) return *array;
    throw BadFile(std::string(where) + ": a list was expected");
}

inline std::string as_text(const Json& value, std::string_view where) {
    if (const auto* text = value.if_string()) return std::string(*text);
    throw BadFile(std::string(where) + ": a string was expected");
}

inline std::int64_t as_number(const Json& value, std::string_view where) {
    if (const auto* number = value.if_int64()) return *number;
    throw BadFile(std::string(where) + ": an integer was expected");
}

inline bool as_flag(const Json& value, std::string_view where) {
    if (const auto* flag = value.if_bool()) return *flag;
    throw BadFile(std::string(where) + ": true or false was expected");
}

inline std::string text_or(const JsonObject& object, std::string_view key, std::string_view other) {
    const Json* value = object.if_contains(key);
    return value && !value->is_null() ? as_text(*value, key) : std::string(other);
}

inline std::int64_t number_or(const JsonObject& object, std::string_view key, std::int64_t other) {
    const Json* value = object.if_contains(key);
    return value && !value->is_null() ? as_number(*value, key) : other;
}

inline bool flag_or(const JsonObject& object, std::string_view key, bool other) {
    const Json* value = object.if_contains(key);
    return value && !value->is_null() ? as_flag(*value, key) : other;
}

inline void only_keys(const JsonObject& object, std::string_view where,
                      std::initializer_list<std::string_view> known) {
    for (const auto& [key, value] : object) {
        bool found = false;
        for (const std::string_view name : known) found = found || name == std::string_view(key);
        if (!found)
            throw BadFile(std::string(where) + ": unknown key \"" + std::string(key) + "\"");
    }
}

/// Thrown by a rule of the scenario in a hook.
class HookFault : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// Thrown by the acting listener.
class ListenerFault : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// Thrown by the scenario's failing append.
class StoreFault : public cubepi::CheckpointerError {
public:
    using CheckpointerError::CheckpointerError;
};

/// Thrown by a tool of the scenario.
class ToolFault : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// The category of the exception of a step (README.md, section 3.1).
std::string category_of(const std::exception_ptr& failure);

/// Runs a task on an event loop of its own on this thread and rethrows its exception. Returns false if it has not ended within
/// `limit`: the loop and its objects are then leaked, because their state is unknown.
bool run_within(cubepi::Task<> task, std::chrono::steady_clock::duration limit);

/// Converts the text to upper case as Unicode defines it, for a scenario's `upper`.
std::string upper_case(const std::string& text);

}  // namespace conformance
