#pragma once

#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include <cubepi/core/json.hpp>
#include <cubepi/schema/python_json.hpp>

// Writing JSON in one line. A style has the texts `comma` and `colon`, and the functions `string` and `number` for strings and doubles.

namespace cubepi::detail {

/// Appends a double; null if JSON does not support it.
inline void append_finite_number(std::string& out, double number) {
    if (std::isfinite(number)) {
        append_python_number(out, number);
    } else {
        out += "null";
    }
}

template <class Style>
void write_json(std::string& out, const Json& value);

template <class Style>
void write_json(std::string& out, const JsonObject& object) {
    out += '{';
    bool first = true;
    for (const auto& [key, item] : object) {
        if (!std::exchange(first, false)) out += Style::comma;
        Style::string(out, key);
        out += Style::colon;
        write_json<Style>(out, item);
    }
    out += '}';
}

template <class Style>
void write_json(std::string& out, const JsonArray& array) {
    out += '[';
    bool first = true;
    for (const Json& item : array) {
        if (!std::exchange(first, false)) out += Style::comma;
        write_json<Style>(out, item);
    }
    out += ']';
}

template <class Style>
void write_json(std::string& out, const Json& value) {
    const auto append_integer = [&out](auto number) {
        char text[24];
        out.append(text, std::to_chars(text, text + sizeof text, number).ptr);
    };
    switch (value.kind()) {
        case boost::json::kind::null: out += "null"; return;
        case boost::json::kind::bool_: out += value.get_bool() ? "true" : "false"; return;
        case boost::json::kind::int64: return append_integer(value.get_int64());
        case boost::json::kind::uint64: return append_integer(value.get_uint64());
        case boost::json::kind::double_: return Style::number(out, value.get_double());
        case boost::json::kind::string: return Style::string(out, value.get_string());
        case boost::json::kind::array: return write_json<Style>(out, value.get_array());
        case boost::json::kind::object: return write_json<Style>(out, value.get_object());
    }
}

}  // namespace cubepi::detail
