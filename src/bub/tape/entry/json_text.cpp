#include <bub/tape/entry/json_text.hpp>

#include <cmath>

#include <cubepi/net/utf8.hpp>
#include <cubepi/schema/json/json_escape.hpp>
#include <cubepi/schema/python_json.hpp>

namespace bub::detail {

namespace {

bool stands_for_itself(char c) {
    return static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\';
}

void append_list(std::string& out, const cubepi::JsonArray& list) {
    out += '[';
    bool first = true;
    for (const cubepi::Json& item : list) {
        if (!first) out += ", ";
        first = false;
        append_json_text(out, item);
    }
    out += ']';
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
    std::string repaired;
    if (!cubepi::is_utf8(text)) {
        repaired = cubepi::replace_broken_utf8(text);
        text = repaired;
    }
    out += '"';
    std::size_t from = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (stands_for_itself(text[at])) continue;
        out.append(text, from, at - from);
        cubepi::detail::append_json_escape(out, text[at]);
        from = at + 1;
    }
    out.append(text, from, text.size() - from);
    out += '"';
}

void append_json_text(std::string& out, const cubepi::JsonObject& value) {
    out += '{';
    bool first = true;
    for (const auto& [key, item] : value) {
        if (!first) out += ", ";
        first = false;
        append_json_string(out, key);
        out += ": ";
        append_json_text(out, item);
    }
    out += '}';
}

void append_json_text(std::string& out, const cubepi::Json& value) {
    switch (value.kind()) {
        case boost::json::kind::object: append_json_text(out, value.get_object()); return;
        case boost::json::kind::array: append_list(out, value.get_array()); return;
        case boost::json::kind::string: append_json_string(out, value.get_string()); return;
        case boost::json::kind::double_:
            // A value that JSON does not support would make the line unreadable for all readers except Python.
            if (!std::isfinite(value.get_double())) {
                out += "null";
                return;
            }
            [[fallthrough]];
        default: cubepi::append_python_json(out, value);
    }
}

}  // namespace bub::detail
