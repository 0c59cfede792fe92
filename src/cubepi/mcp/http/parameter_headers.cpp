#include <cubepi/mcp/http/parameter_headers.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/base64.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/core/support/parsed_number.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi::detail {

namespace {

constexpr std::string_view annotation = "x-mcp-header";
constexpr std::string_view encoding_begin = "=?base64?";
constexpr std::string_view encoding_end = "?=";

// The keywords whose values are schemas, or lists or maps of schemas. Those of other keywords are data.
constexpr std::array<std::string_view, 12> schema_keywords = {"items",
                                                              "contains",
                                                              "unevaluatedItems",
                                                              "additionalProperties",
                                                              "propertyNames",
                                                              "unevaluatedProperties",
                                                              "not",
                                                              "if",
                                                              "then",
                                                              "else",
                                                              "contentSchema",
                                                              "additionalItems"};
constexpr std::array<std::string_view, 4> list_keywords = {"allOf", "anyOf", "oneOf",
                                                           "prefixItems"};
constexpr std::array<std::string_view, 4> map_keywords = {"patternProperties", "dependentSchemas",
                                                          "$defs", "definitions"};

template <std::size_t size>
bool contains(const std::array<std::string_view, size>& words, std::string_view word) {
    return std::ranges::find(words, word) != words.end();
}

/// Walks the schemas in a schema. The parser limits their depth, and no reference is followed.
class HeaderSearch {
public:
    std::vector<McpHeaderParameter> found;

    /// `path` is null once a schema is not reached by `properties` alone.
    void visit(const Json& json, std::vector<std::string>* path) {
        const JsonObject* schema = json.if_object();
        if (!schema) return;
        if (const Json* header = schema->if_contains(annotation)) add(*schema, *header, path);
        for (const auto& member : *schema) {
            const std::string_view keyword = member.key();
            const Json& value = member.value();
            if (keyword == "properties") {
                visit_properties(value, path);
            } else if (contains(schema_keywords, keyword)) {
                visit_all(value);
            } else if (contains(list_keywords, keyword)) {
                visit_all(value);
            } else if (contains(map_keywords, keyword) && value.is_object()) {
                for (const auto& entry : value.get_object()) visit(entry.value(), nullptr);
            }
        }
    }

private:
    [[noreturn]] static void fail(const std::string& reason) {
        throw Error(ErrorCode::validation, "the annotation x-mcp-header " + reason);
    }

    void visit_all(const Json& value) {
        if (const JsonArray* list = value.if_array()) {
            for (const Json& one : *list) visit(one, nullptr);
        } else {
            visit(value, nullptr);
        }
    }

    void visit_properties(const Json& value, std::vector<std::string>* path) {
        const JsonObject* properties = value.if_object();
        if (!properties) return;
        for (const auto& entry : *properties) {
            if (!path) {
                visit(entry.value(), nullptr);
                continue;
            }
            path->emplace_back(entry.key());
            visit(entry.value(), path);
            path->pop_back();
        }
    }

    void add(const JsonObject& schema, const Json& header, const std::vector<std::string>* path) {
        if (!path || path->empty()) fail("is not on a property that has a fixed place");
        if (!header.is_string()) fail("is not a text");
        const std::string name(header.get_string());
        if (!is_http_token(name)) fail("is not a valid name of a header");
        const std::string_view type = string_member(schema, "type");
        if (type != "string" && type != "integer" && type != "boolean")
            fail("is on a property whose type is not string, integer or boolean");
        if (!names_.insert(lower_case(name)).second) fail("occurs twice with the name " + name);
        McpHeaderParameter parameter;
        parameter.header = name;
        parameter.path = *path;
        found.push_back(std::move(parameter));
    }

    std::set<std::string> names_;
};

/// Returns null if the argument is absent.
const Json* argument_at(const JsonObject& arguments, const std::vector<std::string>& path) {
    const JsonObject* object = &arguments;
    const Json* value = nullptr;
    for (const std::string& name : path) {
        if (!object) return nullptr;
        value = object->if_contains(name);
        object = value ? value->if_object() : nullptr;
        if (!value) return nullptr;
    }
    return value && !value->is_null() ? value : nullptr;
}

/// Returns nothing for lists and objects, which have no form in a header.
std::optional<std::string> header_text(const Json& value) {
    if (value.is_string()) return std::string(value.get_string());
    if (value.is_bool()) return std::string(value.get_bool() ? "true" : "false");
    if (value.is_number()) return json_text(value);
    return std::nullopt;
}

int sextet(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == '+') return 62;
    return c == '/' ? 63 : -1;
}

}  // namespace

std::string encode_mcp_header(std::string_view value) {
    const bool is_printable =
        std::ranges::all_of(value, [](char c) { return c >= 0x20 && c <= 0x7E; });
    const bool has_blank = value.starts_with(' ') || value.ends_with(' ');
    const bool looks_encoded = value.starts_with(encoding_begin) && value.ends_with(encoding_end);
    if (is_printable && !has_blank && !looks_encoded) return std::string(value);
    return std::string(encoding_begin) + base64(value) + std::string(encoding_end);
}

std::optional<std::string> decode_mcp_header(std::string_view value) {
    if (!value.starts_with(encoding_begin) || !value.ends_with(encoding_end) ||
        value.size() < encoding_begin.size() + encoding_end.size()) {
        return std::string(value);
    }
    value.remove_prefix(encoding_begin.size());
    value.remove_suffix(encoding_end.size());
    std::string text;
    unsigned bits = 0;
    int count = 0;
    for (const char c : value.substr(0, value.find('='))) {
        const int six = sextet(c);
        if (six < 0) return std::nullopt;
        bits = bits << 6U | static_cast<unsigned>(six);
        count += 6;
        if (count < 8) continue;
        count -= 8;
        text += static_cast<char>(bits >> static_cast<unsigned>(count) & 0xFFU);
    }
    // Only the canonical form is accepted.
    if (base64(text) != value || !is_utf8(text)) return std::nullopt;
    return text;
}

std::vector<McpHeaderParameter> header_parameters(const Json& input_schema) {
    HeaderSearch search;
    std::vector<std::string> path;
    search.visit(input_schema, &path);
    return std::move(search.found);
}

void add_parameter_headers(HttpHeaders& headers, const std::vector<McpHeaderParameter>& parameters,
                           const JsonObject& arguments) {
    for (const McpHeaderParameter& parameter : parameters) {
        const Json* value = argument_at(arguments, parameter.path);
        const std::optional<std::string> text = value ? header_text(*value) : std::nullopt;
        if (text) headers.set("Mcp-Param-" + parameter.header, encode_mcp_header(*text));
    }
}

std::string check_parameter_headers(const HttpHeaders& headers,
                                    const std::vector<McpHeaderParameter>& parameters,
                                    const JsonObject& arguments) {
    for (const McpHeaderParameter& parameter : parameters) {
        const std::string name = "Mcp-Param-" + parameter.header;
        const std::string* sent = headers.find(name);
        const Json* value = argument_at(arguments, parameter.path);
        const std::optional<std::string> expected = value ? header_text(*value) : std::nullopt;
        if (!sent && !expected) continue;
        if (!sent) return "the header " + name + " is missing";
        const std::optional<std::string> decoded = decode_mcp_header(*sent);
        if (!decoded) return "the header " + name + " is not encoded correctly";
        if (!expected) return "the header " + name + " has no argument";
        if (*decoded == *expected) continue;
        const bool is_equal_number =
            value->is_number() && parsed_number<double>(*decoded) &&
            parsed_number<double>(*decoded) == parsed_number<double>(*expected);
        if (!is_equal_number) return "the header " + name + " differs from its argument";
    }
    return {};
}

}  // namespace cubepi::detail
