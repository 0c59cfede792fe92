#include <cubepi/schema/validate/simple_schema.hpp>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include <cubepi/schema/validate/schema_nodes.hpp>

namespace cubepi::detail {
namespace {

constexpr int deepest_simple_schema = 32;

constexpr unsigned null_type = 1;
constexpr unsigned boolean_type = 2;
constexpr unsigned integer_type = 4;
constexpr unsigned fraction_type = 8;
constexpr unsigned string_type = 16;
constexpr unsigned array_type = 32;
constexpr unsigned object_type = 64;
constexpr unsigned all_types = 127;

unsigned type_bits(std::string_view name) {
    if (name == "null") return null_type;
    if (name == "boolean") return boolean_type;
    if (name == "integer") return integer_type;
    if (name == "number") return integer_type | fraction_type;
    if (name == "string") return string_type;
    if (name == "array") return array_type;
    return object_type;
}

// 3.0 counts as a fraction here: if only integers are allowed it has to be converted.
unsigned type_bit(const Json& value) {
    switch (value.kind()) {
        case boost::json::kind::null: return null_type;
        case boost::json::kind::bool_: return boolean_type;
        case boost::json::kind::int64:
        case boost::json::kind::uint64: return integer_type;
        case boost::json::kind::double_: return fraction_type;
        case boost::json::kind::string: return string_type;
        case boost::json::kind::array: return array_type;
        case boost::json::kind::object: return object_type;
    }
    return 0;
}

bool is_understood(std::string_view keyword) {
    constexpr std::string_view judged[] = {
        "type",    "properties", "required", "additionalProperties", "items", "enum",
        "minimum", "maximum",    "anyOf"};
    constexpr std::string_view remarks[] = {"title",    "description", "default",  "examples",
                                            "$schema",  "format",      "$comment", "deprecated",
                                            "readOnly", "writeOnly"};
    return std::find(std::begin(judged), std::end(judged), keyword) != std::end(judged) ||
           std::find(std::begin(remarks), std::end(remarks), keyword) != std::end(remarks);
}

}  // namespace

std::unique_ptr<const SimpleSchema> SimpleSchema::compile(const Json& schema) {
    const auto* object = schema.if_object();
    auto compiled = std::make_unique<SimpleSchema>();
    if (!object || !compiled->read(*object, 0)) return nullptr;
    return compiled;
}

bool SimpleSchema::read(const JsonObject& schema, int depth) {
    if (depth > deepest_simple_schema) return false;
    for (const auto& entry : schema) {
        if (!is_understood(view(entry.key()))) return false;
    }
    read_type(schema);
    if (!read_properties(schema, depth)) return false;
    if (const auto* items = member(schema, "items")) {
        if (!items->is_object()) return false;
        items_.emplace_back();
        if (!items_.front().read(items->get_object(), depth + 1)) return false;
    }
    if (const auto* choices = array_member(schema, "enum")) {
        if (choices->empty()) return false;
        choices_.assign(choices->begin(), choices->end());
    }
    if (const auto* limit = member(schema, "minimum")) minimum_ = limit->to_number<double>();
    if (const auto* limit = member(schema, "maximum")) maximum_ = limit->to_number<double>();
    return read_alternatives(schema, depth);
}

void SimpleSchema::read_type(const JsonObject& schema) {
    const auto types = allowed_types(schema);
    types_ = types.empty() ? all_types : 0;
    for (const auto type : types) types_ |= type_bits(type);
}

bool SimpleSchema::read_properties(const JsonObject& schema, int depth) {
    if (const auto* additional = member(schema, "additionalProperties")) {
        if (!additional->is_bool()) return false;
        closed_ = !additional->get_bool();
    }
    const auto* required = array_member(schema, "required");
    std::size_t known = 0;
    if (const auto* properties = object_member(schema, "properties")) {
        for (const auto& entry : *properties) {
            const auto* inner = entry.value().if_object();
            Property property{.name = std::string(view(entry.key())), .schema = {}};
            if (!inner || !property.schema.read(*inner, depth + 1)) return false;
            if (const auto* value = member(*inner, "default")) {
                bool lacks_default = false;
                if (!property.schema.accepts(*value, lacks_default)) return false;
                property.has_default = true;
            }
            property.required =
                required && std::any_of(required->begin(), required->end(), [&](const Json& name) {
                    return name.get_string() == entry.key();
                });
            known += property.required ? 1 : 0;
            properties_.push_back(std::move(property));
        }
    }
    return !required || known == required->size();
}

bool SimpleSchema::read_alternatives(const JsonObject& schema, int depth) {
    const auto* any = array_member(schema, "anyOf");
    if (!any) return true;
    unsigned seen = 0;
    for (const auto& part : *any) {
        const auto* object = part.if_object();
        SimpleSchema alternative;
        if (!object || !alternative.read(*object, depth + 1)) return false;
        // With integers in one and fractions in another alternative, 3.0 is ambiguous.
        const bool number = (alternative.types_ & (integer_type | fraction_type)) != 0;
        const unsigned claimed = alternative.types_ | (number ? integer_type | fraction_type : 0U);
        if ((seen & claimed) != 0) return false;
        seen |= claimed;
        alternatives_.push_back(std::move(alternative));
    }
    return true;
}

bool SimpleSchema::accepts(const Json& value, bool& lacks_default) const {
    const unsigned type = type_bit(value);
    if ((types_ & type) == 0) return false;
    if (!choices_.empty() && std::find(choices_.begin(), choices_.end(), value) == choices_.end())
        return false;
    switch (type) {
        case integer_type:
        case fraction_type:
            if (!accepts_number(value)) return false;
            break;
        case object_type:
            if (!accepts_object(value.get_object(), lacks_default)) return false;
            break;
        case array_type:
            if (items_.empty()) break;
            for (const auto& item : value.get_array()) {
                if (!items_.front().accepts(item, lacks_default)) return false;
            }
            break;
        default: break;
    }
    if (alternatives_.empty()) return true;
    return std::any_of(
        alternatives_.begin(), alternatives_.end(),
        [&](const SimpleSchema& alternative) { return alternative.accepts(value, lacks_default); });
}

bool SimpleSchema::accepts_number(const Json& value) const {
    const double number = value.to_number<double>();
    return number >= minimum_ && number <= maximum_;
}

bool SimpleSchema::accepts_object(const JsonObject& object, bool& lacks_default) const {
    std::size_t matched = 0;
    for (const auto& property : properties_) {
        const auto* value = object.if_contains(
            boost::json::string_view(property.name.data(), property.name.size()));
        if (value) {
            ++matched;
            if (!property.schema.accepts(*value, lacks_default)) return false;
        } else if (property.has_default) {
            lacks_default = true;
        } else if (property.required) {
            return false;
        }
    }
    return !closed_ || matched == object.size();
}

}  // namespace cubepi::detail
