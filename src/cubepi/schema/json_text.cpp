#include <cubepi/schema/json_text.hpp>

#include <cmath>
#include <string_view>

#include <cubepi/schema/python_json.hpp>

namespace cubepi {

namespace {

void append(std::string& out, const Json& value);

void append(std::string& out, const JsonObject& object) {
    out += '{';
    bool first = true;
    for (const auto& [key, item] : object) {
        if (!first) out += ',';
        first = false;
        out += boost::json::serialize(boost::json::string_view(key));
        out += ':';
        append(out, item);
    }
    out += '}';
}

void append(std::string& out, const Json& value) {
    if (const JsonObject* object = value.if_object()) return append(out, *object);
    if (const JsonArray* array = value.if_array()) {
        out += '[';
        for (std::size_t i = 0; i < array->size(); ++i) {
            if (i > 0) out += ',';
            append(out, (*array)[i]);
        }
        out += ']';
    } else if (!value.is_double()) {
        out += boost::json::serialize(value);
    } else if (std::isfinite(value.get_double())) {
        append_python_number(out, value.get_double());
    } else {
        out += "null";
    }
}

}  // namespace

std::string json_text(const Json& value) {
    std::string out;
    append(out, value);
    return out;
}

std::string json_text(const JsonObject& value) {
    std::string out;
    append(out, value);
    return out;
}

}  // namespace cubepi
