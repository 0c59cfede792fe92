#pragma once

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <boost/container/small_vector.hpp>

#include <cubepi/core/json.hpp>
#include <cubepi/schema/python_json.hpp>

// Writing JSON in one line. A style has the texts `comma` and `colon`, and the functions `string` and `number` for strings and doubles.

namespace cubepi::detail {

/// Appends the JSON escape of a character by its code: \uXXXX, or two of them.
inline void append_unicode_escape(std::string& out, std::uint32_t code) {
    if (code >= 0x10000U) {
        append_unicode_escape(out, 0xD800U + ((code - 0x10000U) >> 10U));
        code = 0xDC00U + ((code - 0x10000U) & 0x3FFU);
    }
    out += "\\u";
    for (unsigned shift = 16; shift > 0;) {
        shift -= 4;
        out += "0123456789abcdef"[(code >> shift) & 15U];
    }
}

/// Appends the JSON escape of `c`: a quote, a backslash or a control character.
inline void append_json_escape(std::string& out, char c) {
    switch (c) {
        case '"': out += "\\\""; return;
        case '\\': out += "\\\\"; return;
        case '\b': out += "\\b"; return;
        case '\f': out += "\\f"; return;
        case '\n': out += "\\n"; return;
        case '\r': out += "\\r"; return;
        case '\t': out += "\\t"; return;
        default: append_unicode_escape(out, static_cast<unsigned char>(c));
    }
}

/// Appends a double; null if JSON does not support it.
inline void append_finite_number(std::string& out, double number) {
    if (std::isfinite(number)) {
        append_python_number(out, number);
    } else {
        out += "null";
    }
}

/// Writes without recursion: tools and callers may nest values deeper than the stack is.
template <class Style>
class JsonWriter {
public:
    explicit JsonWriter(std::string& out) : out_(out) {}

    void write(const Json& value) {
        begin(value);
        finish();
    }
    void write(const JsonObject& object) {
        open(Level{&object, nullptr, 0});
        finish();
    }
    void write(const JsonArray& array) {
        open(Level{nullptr, &array, 0});
        finish();
    }

private:
    struct Level {
        const JsonObject* object;  ///< null: an array
        const JsonArray* array;
        std::size_t next;
    };

    void open(Level level) {
        out_ += level.object ? '{' : '[';
        levels_.push_back(level);
    }

    void begin(const Json& value) {
        const auto append_integer = [this](auto number) {
            char text[24];
            out_.append(text, std::to_chars(text, text + sizeof text, number).ptr);
        };
        switch (value.kind()) {
            case boost::json::kind::null: out_ += "null"; return;
            case boost::json::kind::bool_: out_ += value.get_bool() ? "true" : "false"; return;
            case boost::json::kind::int64: return append_integer(value.get_int64());
            case boost::json::kind::uint64: return append_integer(value.get_uint64());
            case boost::json::kind::double_: return Style::number(out_, value.get_double());
            case boost::json::kind::string: return Style::string(out_, value.get_string());
            case boost::json::kind::array: return open(Level{nullptr, &value.get_array(), 0});
            case boost::json::kind::object: return open(Level{&value.get_object(), nullptr, 0});
        }
    }

    void finish() {
        while (!levels_.empty()) {
            Level& level = levels_.back();
            const std::size_t at = level.next++;
            if (at == (level.object ? level.object->size() : level.array->size())) {
                out_ += level.object ? '}' : ']';
                levels_.pop_back();
                continue;
            }
            if (at != 0) out_ += Style::comma;
            if (level.array) {
                begin((*level.array)[at]);
                continue;
            }
            const auto& member = level.object->begin()[static_cast<std::ptrdiff_t>(at)];
            Style::string(out_, member.key());
            out_ += Style::colon;
            begin(member.value());
        }
    }

    std::string& out_;
    boost::container::small_vector<Level, 16> levels_;
};

template <class Style, class Value>
void write_json(std::string& out, const Value& value) {
    JsonWriter<Style>(out).write(value);
}

}  // namespace cubepi::detail
