#include "compare.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace conformance {

namespace {

using cubepi::Json;
using cubepi::JsonArray;
using cubepi::JsonObject;

constexpr std::string_view placeholder = "<ignored>";

std::vector<std::string> segments(std::string_view pointer) {
    std::vector<std::string> parts;
    while (!pointer.empty()) {
        pointer.remove_prefix(1);
        const std::size_t end = std::min(pointer.find('/'), pointer.size());
        std::string part;
        for (std::size_t i = 0; i < end; ++i) {
            const bool escape = pointer[i] == '~' && i + 1 < end;
            part += escape ? (pointer[++i] == '1' ? '/' : '~') : pointer[i];
        }
        parts.push_back(std::move(part));
        pointer.remove_prefix(end);
    }
    return parts;
}

std::optional<std::size_t> index_of(const std::string& part, std::size_t size) {
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    if (error != std::errc() || end != part.data() + part.size() || index >= size)
        return std::nullopt;
    return index;
}

void blank(Json& value, const std::vector<std::string>& parts, std::size_t at) {
    if (at == parts.size()) {
        value = placeholder;
        return;
    }
    const std::string& part = parts[at];
    if (JsonObject* object = value.if_object()) {
        if (part == "*") {
            for (auto& [key, child] : *object) blank(child, parts, at + 1);
        } else if (Json* child = object->if_contains(part)) {
            blank(*child, parts, at + 1);
        } else if (at + 1 == parts.size()) {
            (*object)[part] = placeholder;
        }
    } else if (JsonArray* array = value.if_array()) {
        if (part == "*") {
            for (Json& child : *array) blank(child, parts, at + 1);
        } else if (const auto index = index_of(part, array->size())) {
            blank((*array)[*index], parts, at + 1);
        }
    }
}

bool is_number(const Json& value) {
    return value.is_int64() || value.is_uint64() || value.is_double();
}

bool same_number(const Json& a, const Json& b) {
    if (a.is_double() || b.is_double()) return a.to_number<double>() == b.to_number<double>();
    return a == b;
}

std::string escaped(std::string_view key) {
    std::string text;
    for (const char c : key) {
        if (c == '~') {
            text += "~0";
        } else if (c == '/') {
            text += "~1";
        } else {
            text += c;
        }
    }
    return text;
}

std::string shown(const Json& value) { return boost::json::serialize(value); }

void collect(const Json& want, const Json& got, const std::string& at,
             std::vector<std::string>& found) {
    const auto add = [&](const std::string& where, const std::string& w, const std::string& g) {
        found.push_back(where + ": want " + w + ", got " + g);
    };
    if (want.is_object() && got.is_object()) {
        for (const auto& [key, value] : want.get_object()) {
            const std::string where = at + "/" + escaped(key);
            if (const Json* other = got.get_object().if_contains(key)) {
                collect(value, *other, where, found);
            } else {
                add(where, shown(value), "nothing");
            }
        }
        for (const auto& [key, value] : got.get_object()) {
            if (!want.get_object().contains(key))
                add(at + "/" + escaped(key), "nothing", shown(value));
        }
    } else if (want.is_array() && got.is_array()) {
        const JsonArray& a = want.get_array();
        const JsonArray& b = got.get_array();
        for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
            const std::string where = at + "/" + std::to_string(i);
            if (i >= a.size()) {
                add(where, "nothing", shown(b[i]));
            } else if (i >= b.size()) {
                add(where, shown(a[i]), "nothing");
            } else {
                collect(a[i], b[i], where, found);
            }
        }
    } else if (is_number(want) && is_number(got) ? !same_number(want, got) : want != got) {
        add(at, shown(want), shown(got));
    }
}

}  // namespace

void blank_out(Json& value, const std::vector<std::string>& ignore) {
    for (const std::string& pointer : ignore) blank(value, segments(pointer), 0);
}

void remove_at(Json& value, std::string_view pointer) {
    const std::vector<std::string> parts = segments(pointer);
    if (parts.empty()) {
        value = nullptr;
        return;
    }
    Json* at = &value;
    for (std::size_t i = 0; i + 1 < parts.size() && at; ++i) {
        if (JsonObject* object = at->if_object()) {
            at = object->if_contains(parts[i]);
        } else if (JsonArray* array = at->if_array()) {
            const auto index = index_of(parts[i], array->size());
            at = index ? &(*array)[*index] : nullptr;
        } else {
            at = nullptr;
        }
    }
    if (!at) return;
    if (JsonObject* object = at->if_object()) {
        object->erase(parts.back());
    } else if (JsonArray* array = at->if_array()) {
        // The element remains, so that later pointers stay valid.
        if (const auto index = index_of(parts.back(), array->size()))
            (*array)[*index] = placeholder;
    }
}

std::vector<std::string> differences(const Json& want, const Json& got, const std::string& at) {
    std::vector<std::string> found;
    collect(want, got, at, found);
    return found;
}

bool same_json(const Json& a, const Json& b) { return differences(a, b).empty(); }

}  // namespace conformance
