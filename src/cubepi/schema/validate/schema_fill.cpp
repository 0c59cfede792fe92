#include <cubepi/schema/validate/schema_fill.hpp>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/schema/detail/value_path.hpp>
#include <cubepi/schema/validate/schema_check.hpp>
#include <cubepi/schema/validate/schema_nodes.hpp>

namespace cubepi::detail {
namespace {

class Filler {
public:
    explicit Filler(const Json& root) : root_(root), checker_(root) {}

    // Without `coerce`, only defaults are inserted and 3.0 becomes 3.
    void fill(const Json& schema, Json& value, bool coerce) {
        if (--steps_ <= 0) return;
        const auto* object = schema.if_object();
        if (!object) return;
        if (member(*object, "$ref")) {
            if (const Json* target = follow_references(root_, schema)) fill(*target, value, coerce);
        }
        convert(allowed_types(*object), value, coerce);
        if (auto* fields = value.if_object()) fill_object(*object, *fields, coerce);
        if (auto* items = value.if_array()) fill_items(*object, *items, coerce);
        if (const auto* all = array_member(*object, "allOf")) {
            for (const auto& part : *all) fill(part, value, coerce);
        }
        for (const std::string_view group : {"anyOf", "oneOf"}) {
            if (const auto* alternatives = array_member(*object, group)) {
                fill_alternative(*alternatives, value, coerce);
            }
        }
    }

private:
    static bool allows(const std::vector<std::string_view>& types, std::string_view type) {
        return std::find(types.begin(), types.end(), type) != types.end();
    }

    static void convert(const std::vector<std::string_view>& types, Json& value, bool coerce) {
        if (types.empty()) return;
        if (value.is_double()) {
            if (!allows(types, "integer") || allows(types, "number")) return;
            Json whole = integer_from_number(value);
            if (!whole.is_null()) value = std::move(whole);
            return;
        }
        if (!coerce || !value.is_string() || allows(types, "string")) return;
        const auto text = view(value.get_string());
        Json result;
        if (allows(types, "integer")) result = integer_from_number(number_from_text(text));
        if (result.is_null() && allows(types, "number")) result = number_from_text(text);
        if (result.is_null() && allows(types, "boolean")) result = boolean_from_text(text);
        if (!result.is_null()) value = std::move(result);
    }

    const Json* default_of(const Json& property) const {
        const auto* object = property.if_object();
        if (!object) return nullptr;
        if (const auto* value = member(*object, "default")) return value;
        const Json* target = follow_references(root_, property);
        const auto* resolved = target ? target->if_object() : nullptr;
        return resolved ? member(*resolved, "default") : nullptr;
    }

    void fill_object(const JsonObject& schema, JsonObject& fields, bool coerce) {
        const auto* properties = object_member(schema, "properties");
        const auto* additional = member(schema, "additionalProperties");
        if (additional && additional->is_object()) {
            for (auto& field : fields) {
                if (properties && properties->contains(field.key())) continue;
                fill(*additional, field.value(), coerce);
            }
        }
        if (!properties) return;
        for (const auto& property : *properties) {
            if (auto* present = fields.if_contains(property.key())) {
                fill(property.value(), *present, coerce);
            } else if (const auto* value = default_of(property.value())) {
                auto& added = fields[property.key()];
                added = *value;
                fill(property.value(), added, coerce);
            }
        }
    }

    void fill_items(const JsonObject& schema, JsonArray& items, bool coerce) {
        const auto* rest = member(schema, "items");
        const auto* first = array_member(schema, "prefixItems");
        if (!first && rest && rest->is_array()) {
            first = &rest->get_array();
            rest = member(schema, "additionalItems");
        }
        const std::size_t first_count = first ? first->size() : 0;
        for (std::size_t i = 0; i < items.size(); ++i) {
            if (i < first_count) {
                fill((*first)[i], items[i], coerce);
            } else if (rest) {
                fill(*rest, items[i], coerce);
            }
        }
    }

    void fill_alternative(const JsonArray& alternatives, Json& value, bool coerce) {
        if (take_fitting(alternatives, value, false)) return;
        if (coerce) take_fitting(alternatives, value, true);
    }

    bool take_fitting(const JsonArray& alternatives, Json& value, bool coerce) {
        for (const auto& alternative : alternatives) {
            if (steps_ <= 0) return false;
            Json candidate = value;
            fill(alternative, candidate, coerce);
            if (checker_.fits(alternative, candidate) && checker_.complete()) {
                value = std::move(candidate);
                return true;
            }
        }
        return false;
    }

    const Json& root_;
    SchemaChecker checker_;
    int steps_ = 100000;
};

}  // namespace

void fill_value(const Json& root, Json& value) { Filler(root).fill(root, value, true); }

}  // namespace cubepi::detail
