#include <cubepi/schema/detail/json_reader.hpp>

#include <cmath>

namespace cubepi::detail {
namespace {

// Returns the integer that `json` represents, or null.
Json as_integer(const Json& json, bool coerce) {
    if (json.is_int64() || json.is_uint64()) return json;
    if (!coerce) return nullptr;
    if (const auto* text = json.if_string()) {
        return integer_from_number(number_from_text(std::string_view(text->data(), text->size())));
    }
    return integer_from_number(json);
}

SchemaIssue out_of_range(const ValuePath& path, const std::string& low, const std::string& high,
                         const Json& json) {
    return wrong_type_issue(path, "integer from " + low + " to " + high, json);
}

}  // namespace

bool read_boolean(const Json& json, bool& value, const ValuePath& path, ReadContext& context) {
    Json found = json.is_bool() ? json : Json();
    if (const auto* text = json.if_string(); text && context.coerce) {
        found = boolean_from_text(std::string_view(text->data(), text->size()));
    }
    if (!found.is_bool()) return context.fail(wrong_type_issue(path, "boolean", json));
    value = found.get_bool();
    return true;
}

bool read_signed(const Json& json, std::int64_t low, std::int64_t high, std::int64_t& value,
                 const ValuePath& path, ReadContext& context) {
    const Json number = as_integer(json, context.coerce);
    if (number.is_null()) return context.fail(wrong_type_issue(path, "integer", json));
    boost::system::error_code error;
    const auto whole = number.to_number<std::int64_t>(error);
    if (error || whole < low || whole > high) {
        return context.fail(out_of_range(path, std::to_string(low), std::to_string(high), json));
    }
    value = whole;
    return true;
}

bool read_unsigned(const Json& json, std::uint64_t high, std::uint64_t& value,
                   const ValuePath& path, ReadContext& context) {
    const Json number = as_integer(json, context.coerce);
    if (number.is_null()) return context.fail(wrong_type_issue(path, "integer", json));
    boost::system::error_code error;
    const auto whole = number.to_number<std::uint64_t>(error);
    if (error || whole > high) {
        return context.fail(out_of_range(path, "0", std::to_string(high), json));
    }
    value = whole;
    return true;
}

bool read_double(const Json& json, double limit, double& value, const ValuePath& path,
                 ReadContext& context) {
    Json number = json;
    if (const auto* text = json.if_string(); text && context.coerce) {
        number = number_from_text(std::string_view(text->data(), text->size()));
    }
    if (!number.is_number()) return context.fail(wrong_type_issue(path, "number", json));
    const double found = number.to_number<double>();
    if (!std::isfinite(found) || std::fabs(found) > limit) {
        return context.fail(wrong_type_issue(path, "number within range", json));
    }
    value = found;
    return true;
}

bool read_string(const Json& json, std::string& value, const ValuePath& path,
                 ReadContext& context) {
    const auto* text = json.if_string();
    if (!text) return context.fail(wrong_type_issue(path, "string", json));
    value.assign(text->data(), text->size());
    return true;
}

bool read_enum(const Json& json, const std::vector<EnumEntry>& entries, long long& value,
               const ValuePath& path, ReadContext& context) {
    if (const auto* text = json.if_string()) {
        for (const auto& entry : entries) {
            if (entry.name == std::string_view(text->data(), text->size())) {
                value = entry.value;
                return true;
            }
        }
    }
    std::string choices;
    for (const auto& entry : entries) {
        if (!choices.empty()) choices += ", ";
        choices += '"';
        choices += entry.name;
        choices += '"';
    }
    return context.fail(not_one_of_issue(path, choices, json));
}

const JsonObject* read_object(const Json& json, const ValuePath& path, ReadContext& context) {
    const auto* object = json.if_object();
    if (!object) context.fail(wrong_type_issue(path, "object", json));
    return object;
}

const JsonArray* read_array(const Json& json, const ValuePath& path, ReadContext& context) {
    const auto* array = json.if_array();
    if (!array) context.fail(wrong_type_issue(path, "array", json));
    return array;
}

std::vector<EnumEntry> parse_enum_spelling(std::string_view spelling, long long first) {
    std::vector<EnumEntry> entries;
    for_each_enum_name(spelling, [&](std::string_view name, long long index) {
        entries.push_back(EnumEntry{.name = name, .value = first + index});
    });
    return entries;
}

}  // namespace cubepi::detail
