#include <cubepi/checkpoint/format/server_json.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

#include <cubepi/net/utf8.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi::detail {

namespace {

bool has_nul(std::string_view text) { return text.find('\0') != std::string_view::npos; }

std::string without_nul(std::string_view text) {
    std::string result;
    for (const char c : text) {
        if (c == '\0') {
            result += "\xef\xbf\xbd";
        } else {
            result += c;
        }
    }
    return result;
}

void append_object(std::string& out, const JsonObject& object);

void append(std::string& out, const Json& value) {
    switch (value.kind()) {
        case boost::json::kind::object: append_object(out, value.get_object()); break;
        case boost::json::kind::array: {
            out += '[';
            bool first = true;
            for (const Json& item : value.get_array()) {
                if (!std::exchange(first, false)) out += ", ";
                append(out, item);
            }
            out += ']';
            break;
        }
        case boost::json::kind::string:
            append_python_string(out, without_nul(value.get_string()));
            break;
        case boost::json::kind::double_:
            if (!std::isfinite(value.get_double())) {
                out += "null";
                break;
            }
            [[fallthrough]];
        default: append_python_json(out, value);
    }
}

void append_object(std::string& out, const JsonObject& object) {
    out += '{';
    bool first = true;
    for (const auto& [key, value] : object) {
        if (!std::exchange(first, false)) out += ", ";
        append_python_string(out, without_nul(key));
        out += ": ";
        append(out, value);
    }
    out += '}';
}

/// jsonb sorts keys by length, then by bytes; so does MySQL.
bool key_before(std::string_view a, std::string_view b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
}

bool survives(const JsonObject& object) {
    std::string_view last;
    bool first = true;
    for (const auto& [name, value] : object) {
        const std::string_view key = name;
        if (has_nul(key) || !survives_server_json(value)) return false;
        if (!std::exchange(first, false) && !key_before(last, key)) return false;
        last = key;
    }
    return true;
}

/// A number with an exponent is written without it; there is no negative zero.
bool survives(double number) {
    if (!std::isfinite(number) || (number == 0 && std::signbit(number))) return false;
    std::string text;
    append_python_number(text, number);
    return text.find('e') == std::string::npos;
}

bool same_number(const Json& a, const Json& b) {
    if (a.is_double() || b.is_double()) return a.to_number<double>() == b.to_number<double>();
    return a == b;
}

bool same_object(const JsonObject& column, const JsonObject& exact) {
    // Keys that differ only in U+0000 are one key of the column.
    JsonObject nearest;
    for (const auto& [key, value] : exact) nearest[without_nul(key)] = value;
    return column.size() == nearest.size() &&
           std::all_of(column.begin(), column.end(), [&](const auto& member) {
               const Json* value = nearest.if_contains(member.key());
               return value && is_server_json_of(member.value(), *value);
           });
}

bool same_array(const JsonArray& column, const JsonArray& exact) {
    return column.size() == exact.size() &&
           std::equal(column.begin(), column.end(), exact.begin(), is_server_json_of);
}

/// Takes the members that the column still has, in the exact order, then those that CubePi added.
JsonObject merged(const JsonObject& column, const JsonObject& exact) {
    JsonObject result;
    for (const auto& [key, value] : exact) {
        const Json* stored = column.if_contains(without_nul(key));
        if (stored) result[key] = is_server_json_of(*stored, value) ? value : *stored;
    }
    for (const auto& [key, value] : column) {
        const std::string_view name = key;
        const auto is_known = [&](const auto& one) { return without_nul(one.key()) == name; };
        if (std::none_of(exact.begin(), exact.end(), is_known)) result[key] = value;
    }
    return result;
}

}  // namespace

std::string server_text(std::string_view text) {
    return without_nul(is_utf8(text) ? std::string(text) : replace_broken_utf8(text));
}

std::string server_json_text(const Json& value) {
    std::string text;
    append(text, value);
    return text;
}

std::string server_json_text(const JsonObject& value) {
    std::string text;
    append_object(text, value);
    return text;
}

bool survives_server_json(const Json& value) {
    switch (value.kind()) {
        case boost::json::kind::object: return survives(value.get_object());
        case boost::json::kind::array: {
            const JsonArray& array = value.get_array();
            return std::all_of(array.begin(), array.end(), survives_server_json);
        }
        case boost::json::kind::string: return !has_nul(value.get_string());
        case boost::json::kind::double_: return survives(value.get_double());
        default: return true;
    }
}

bool is_server_json_of(const Json& column, const Json& exact) {
    if (exact.is_double() && !std::isfinite(exact.get_double())) return column.is_null();
    if (column.is_number() && exact.is_number()) return same_number(column, exact);
    if (column.is_object() && exact.is_object())
        return same_object(column.get_object(), exact.get_object());
    if (column.is_array() && exact.is_array())
        return same_array(column.get_array(), exact.get_array());
    if (column.is_string() && exact.is_string())
        return column.get_string() == without_nul(exact.get_string());
    return column == exact;
}

Json exact_json(Json column, const std::optional<std::string>& exact_text) {
    if (!exact_text) return column;
    const Json exact = parse_lenient(*exact_text);
    if (column.is_object() && exact.is_object())
        return merged(column.get_object(), exact.get_object());
    return is_server_json_of(column, exact) ? exact : column;
}

}  // namespace cubepi::detail
