#include <cubepi/schema/validate.hpp>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <boost/json.hpp>

#include <cubepi/core/error.hpp>
#include <cubepi/schema/issue.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/schema/validate/compiled_schema.hpp>
#include <cubepi/schema/validate/schema_checker.hpp>

namespace cubepi {
namespace {

using detail::SchemaNode;
namespace json_types = detail::json_types;

// The decision must hold for large values. Defaults and the reasons of a failure are conveniences.
constexpr int most_steps_to_decide = 10000000;
constexpr int most_steps_to_fill = 100000;
constexpr int most_steps_to_explain = 100000;
constexpr int deepest_fill = 2000;

// Inserts defaults and converts values; see JsonSchema::validate. Values that match nothing stay unchanged.
class Filler {
public:
    // Without `coerce`, only defaults are inserted and 3.0 becomes 3.
    void fill(const SchemaNode& node, Json& value, bool coerce) {
        if (--steps_ <= 0 || depth_ >= deepest_fill) return;
        ++depth_;
        fill_value(node, value, coerce);
        --depth_;
    }

private:
    void fill_value(const SchemaNode& node, Json& value, bool coerce) {
        if (node.reference) fill(*node.reference, value, coerce);
        convert(node.types, value, coerce);
        if (auto* object = value.if_object(); object && node.fields)
            fill_object(*node.fields, *object, coerce);
        if (auto* array = value.if_array(); array && node.items)
            fill_items(*node.items, *array, coerce);
        if (!node.combined) return;
        for (const auto* part : node.combined->all) fill(*part, value, coerce);
        fill_alternative(node.combined->any, value, coerce);
        fill_alternative(node.combined->one, value, coerce);
    }

    static void convert(unsigned types, Json& value, bool coerce) {
        if (types == json_types::any) return;
        const auto allows = [&](unsigned type) { return (types & type) != 0; };
        if (value.is_double()) {
            if (!allows(json_types::integer) || allows(json_types::number)) return;
            Json whole = detail::integer_from_number(value);
            if (!whole.is_null()) value = std::move(whole);
            return;
        }
        if (!coerce || !value.is_string() || allows(json_types::string)) return;
        const std::string_view text(value.get_string());
        Json result;
        if (allows(json_types::integer))
            result = detail::integer_from_number(detail::number_from_text(text));
        if (result.is_null() && allows(json_types::number)) result = detail::number_from_text(text);
        if (result.is_null() && allows(json_types::boolean))
            result = detail::boolean_from_text(text);
        if (!result.is_null()) value = std::move(result);
    }

    void fill_object(const SchemaNode::Fields& rules, JsonObject& object, bool coerce) {
        if (rules.additional && rules.additional->keywords) {
            for (auto& field : object) {
                if (!rules.property(field.key())) fill(*rules.additional, field.value(), coerce);
            }
        }
        for (std::size_t i = 0; i < rules.property_nodes.size(); ++i) {
            const auto& property = *rules.property_nodes[i];
            const auto key = (rules.properties->begin() + static_cast<std::ptrdiff_t>(i))->key();
            const Json* default_value =
                property.default_value ? property.default_value : property.resolved().default_value;
            auto* present = object.if_contains(key);
            // Models send null for a parameter that they leave out.
            if (coerce && present && present->is_null() && !rules.requires_field(key) &&
                !checker_.fits(property, *present)) {
                object.stable_erase(key);
                present = nullptr;
            }
            if (present) {
                fill(property, *present, coerce);
            } else if (default_value) {
                auto& added = object[key];
                added = *default_value;
                fill(property, added, coerce);
            }
        }
    }

    void fill_items(const SchemaNode::Items& rules, JsonArray& array, bool coerce) {
        for (std::size_t i = 0; i < array.size(); ++i) {
            const auto* schema = i < rules.first.size() ? rules.first[i] : rules.rest;
            if (schema) fill(*schema, array[i], coerce);
        }
    }

    void fill_alternative(const std::vector<const SchemaNode*>& alternatives, Json& value,
                          bool coerce) {
        if (take_fitting(alternatives, value, false)) return;
        if (coerce) take_fitting(alternatives, value, true);
    }

    bool take_fitting(const std::vector<const SchemaNode*>& alternatives, Json& value,
                      bool coerce) {
        for (const auto* alternative : alternatives) {
            if (steps_ <= 0) return false;
            Json candidate = value;
            fill(*alternative, candidate, coerce);
            if (checker_.fits(*alternative, candidate)) {
                value = std::move(candidate);
                return true;
            }
        }
        return false;
    }

    detail::SchemaChecker checker_{most_steps_to_fill};
    int steps_ = most_steps_to_fill;
    int depth_ = 0;
};

SchemaIssue root_issue(std::string message) {
    return SchemaIssue{"<root>", "a value that fits the schema", "another", std::move(message)};
}

}  // namespace

struct JsonSchema::State {
    explicit State(Json given) : source(std::move(given)) {}

    const SchemaNode& compiled() {
        if (const auto* done = ready.load(std::memory_order_acquire)) return done->root();
        const std::lock_guard lock(mutex);
        if (!schema) schema = std::make_unique<const detail::CompiledSchema>(source);
        ready.store(schema.get(), std::memory_order_release);
        return schema->root();
    }

    const Json source;
    std::mutex mutex;
    std::unique_ptr<const detail::CompiledSchema> schema;
    std::atomic<const detail::CompiledSchema*> ready{nullptr};
};

JsonSchema::JsonSchema(Json schema) : state_(std::make_shared<State>(std::move(schema))) {}
JsonSchema::~JsonSchema() = default;

const Json& JsonSchema::source() const noexcept { return state_->source; }
std::shared_ptr<const Json> JsonSchema::shared_source() const noexcept {
    return std::shared_ptr<const Json>(state_, &state_->source);
}

void JsonSchema::compile() const { state_->compiled(); }

std::vector<SchemaIssue> JsonSchema::validate(Json& value) const {
    const SchemaNode& schema = state_->compiled();
    if (is_nested_deeper(value, max_json_depth))
        return {root_issue("nested deeper than " + std::to_string(max_json_depth) + " levels")};
    Filler().fill(schema, value, true);
    detail::SchemaChecker decide(most_steps_to_decide);
    if (decide.fits(schema, value)) return {};
    if (!decide.problem().empty())
        return {root_issue("cannot be checked: " + std::string(decide.problem()))};
    auto issues = detail::SchemaChecker(most_steps_to_explain).explain(schema, value);
    if (issues.empty()) issues.push_back(root_issue("does not fit the schema"));
    return issues;
}

}  // namespace cubepi
