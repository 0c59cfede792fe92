#include <cubepi/schema/json_text.hpp>

#include <algorithm>
#include <cmath>
#include <string_view>

#include <cubepi/schema/python_json.hpp>

namespace cubepi {

namespace {

bool has_double(const JsonObject& object);

bool has_double(const Json& value) {
    if (const JsonObject* object = value.if_object()) return has_double(*object);
    const JsonArray* array = value.if_array();
    if (!array) return value.is_double();
    return std::any_of(array->begin(), array->end(),
                       [](const Json& item) { return has_double(item); });
}

bool has_double(const JsonObject& object) {
    return std::any_of(object.begin(), object.end(),
                       [](const auto& member) { return has_double(member.value()); });
}

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

// Boost.JSON is faster with what it writes as we do.

std::string json_text(const Json& value) {
    if (!has_double(value)) return boost::json::serialize(value);
    std::string out;
    append(out, value);
    return out;
}

std::string json_text(const JsonObject& value) {
    if (!has_double(value)) return boost::json::serialize(value);
    std::string out;
    append(out, value);
    return out;
}

}  // namespace cubepi
