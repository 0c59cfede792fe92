#include <cubepi/schema/validate.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <boost/json.hpp>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_memory.hpp>
#include <cubepi/schema/issue.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/schema/python_json.hpp>
#include <cubepi/schema/support/issue_text.hpp>
#include <cubepi/schema/validate/schema_checker.hpp>

namespace cubepi {

namespace {

constexpr std::string_view whole_value = "<root>";
constexpr std::size_t most_issues = 20;
constexpr std::size_t longest_path = 200;
constexpr std::size_t longest_message = 600;
constexpr std::size_t longest_quote = 80;
constexpr std::size_t most_forms = 5;
constexpr std::size_t most_issues_of_a_form = 3;

std::string with_lines(std::string text, const std::vector<SchemaIssue>& issues) {
    const std::size_t shown = std::min(issues.size(), most_issues);
    for (std::size_t i = 0; i < shown; ++i) text += "\n- " + detail::issue_text(issues[i]);
    if (shown < issues.size()) {
        const bool counted = issues.size() < detail::most_explained_issues;
        text += "\n- and " + (counted ? std::to_string(issues.size() - shown) : "many") +
                " more problems";
    }
    return text;
}

}  // namespace

ValidationError::ValidationError(std::string_view about, std::vector<SchemaIssue> issues)
    : Error(ErrorCode::validation, with_lines(std::string(about), issues)),
      issues_(std::move(issues)) {}

std::string format_issues(std::string_view tool_name, const std::vector<SchemaIssue>& issues) {
    std::string header = "Invalid arguments for tool '";
    header += tool_name;
    header += "':";
    return with_lines(std::move(header), issues);
}

}  // namespace cubepi

namespace cubepi::detail {

std::string abbreviated(std::string_view text, std::size_t limit) {
    if (text.size() <= limit) return std::string(text);
    while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0U) == 0x80U) --limit;
    return std::string(text.substr(0, limit)) + "...";
}

std::string issue_text(const SchemaIssue& issue) {
    const std::string about = abbreviated(issue.message, longest_message);
    return issue.path == whole_value ? about : abbreviated(issue.path, longest_path) + ": " + about;
}

std::string ValuePath::to_string() const {
    if (!parent) return std::string(whole_value);
    std::string text = parent->parent ? parent->to_string() : std::string();
    if (is_index) {
        text += '[' + std::to_string(index) + ']';
    } else {
        if (!text.empty()) text += '.';
        text += key;
    }
    return text;
}

std::string quote_value(const Json& value) {
    if (const auto* text = value.if_string()) {
        return json_text(
            Json(abbreviated(std::string_view(text->data(), text->size()), longest_quote)));
    }
    if (value.is_double()) return to_python_json(value);
    if (value.is_structured()) return describe_value(value);
    return json_text(value);
}

std::string describe_value(const Json& value) {
    switch (value.kind()) {
        case boost::json::kind::null: return "null";
        case boost::json::kind::bool_: return "boolean " + quote_value(value);
        case boost::json::kind::int64:
        case boost::json::kind::uint64: return "integer " + quote_value(value);
        case boost::json::kind::double_: return "number " + quote_value(value);
        case boost::json::kind::string: return "string " + quote_value(value);
        case boost::json::kind::array: {
            const auto size = value.get_array().size();
            return "array of " + std::to_string(size) + (size == 1 ? " item" : " items");
        }
        case boost::json::kind::object: {
            const auto size = value.get_object().size();
            return "object with " + std::to_string(size) + (size == 1 ? " field" : " fields");
        }
    }
    return "value";
}

SchemaIssue wrong_type_issue(const ValuePath& path, std::string expected, const Json& found) {
    auto text = describe_value(found);
    auto message = "expected " + expected + ", found " + text;
    return SchemaIssue{path.to_string(), std::move(expected), std::move(text), std::move(message)};
}

SchemaIssue missing_issue(const ValuePath& path, std::string expected) {
    return SchemaIssue{path.to_string(), std::move(expected), "nothing", "field required"};
}

SchemaIssue unexpected_issue(const ValuePath& path, const Json& found) {
    return SchemaIssue{path.to_string(), "no such field", describe_value(found),
                       "unexpected field"};
}

SchemaIssue not_one_of_issue(const ValuePath& path, const std::string& choices, const Json& found) {
    auto text = describe_value(found);
    auto message = "must be one of " + choices + "; found " + text;
    return SchemaIssue{path.to_string(), "one of " + choices, std::move(text), std::move(message)};
}

SchemaIssue no_form_issue(const ValuePath& path, std::string expected,
                          const std::vector<std::vector<SchemaIssue>>& forms, const Json& found) {
    auto issue = wrong_type_issue(path, std::move(expected), found);
    issue.message = "fits none of the " + std::to_string(forms.size()) + " allowed forms";
    for (std::size_t i = 0; i < std::min(forms.size(), most_forms); ++i) {
        issue.message += i == 0 ? ": " : "; ";
        issue.message += "form " + std::to_string(i + 1) + ": ";
        const auto& problems = forms[i];
        for (std::size_t k = 0; k < std::min(problems.size(), most_issues_of_a_form); ++k) {
            if (k > 0) issue.message += ", ";
            issue.message += abbreviated(problems[k].path, 60) + " (" +
                             abbreviated(problems[k].message, 100) + ")";
        }
        if (problems.size() > most_issues_of_a_form) issue.message += ", ...";
    }
    return issue;
}

Json integer_from_number(const Json& value) {
    if (value.is_int64() || value.is_uint64()) return value;
    if (!value.is_double()) return nullptr;
    const double number = value.get_double();
    if (!std::isfinite(number) || number != std::trunc(number)) return nullptr;
    constexpr double two_to_63 = 9223372036854775808.0;
    if (number >= -two_to_63 && number < two_to_63) return static_cast<std::int64_t>(number);
    if (number >= two_to_63 && number < 2 * two_to_63) return static_cast<std::uint64_t>(number);
    return nullptr;
}

Json number_from_text(std::string_view text) {
    if (text.empty() || text.size() > 400) return nullptr;
    const char first = text.front();
    const char last = text.back();
    if (first != '-' && (first < '0' || first > '9')) return nullptr;
    if (last < '0' || last > '9') return nullptr;
    JsonTextError error;
    Json value = parse_json(text, error);
    return value.is_number() ? value : Json();
}

Json boolean_from_text(std::string_view text) {
    if (text == "true") return true;
    if (text == "false") return false;
    return nullptr;
}

}  // namespace cubepi::detail

namespace cubepi {

namespace {

using detail::SchemaNode;
namespace json_types = detail::json_types;

// The decision must hold for large values. Defaults and the reasons of a failure are conveniences.
constexpr std::size_t most_steps_to_decide = 10000000;
constexpr int most_steps_to_fill = 100000;
constexpr std::size_t most_steps_to_explain = 100000;
constexpr int deepest_fill = 2000;
// A default is copied to each place that lacks it, so a small schema could fill the memory.
constexpr std::size_t most_default_bytes = std::size_t{8} << 20U;

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

    bool defaults_are_too_large() const { return defaults_are_too_large_; }

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
        spend(rules.property_nodes.size() / 16);
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
            } else if (default_value && can_add(*default_value)) {
                auto& added = object[key];
                added = *default_value;
                fill(property, added, coerce);
            }
        }
    }

    bool can_add(const Json& default_value) {
        if (defaults_are_too_large_) return false;
        const std::size_t bytes = detail::json_memory(default_value);
        defaults_are_too_large_ = bytes > default_bytes_;
        if (defaults_are_too_large_) {
            steps_ = 0;
        } else {
            default_bytes_ -= bytes;
        }
        return !defaults_are_too_large_;
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
            spend(detail::json_memory(value) / 1024);
            Json candidate = value;
            fill(*alternative, candidate, coerce);
            if (checker_.fits(*alternative, candidate)) {
                value = std::move(candidate);
                return true;
            }
        }
        return false;
    }

    void spend(std::size_t steps) {
        steps_ -= static_cast<int>(std::min<std::size_t>(steps, most_steps_to_fill));
    }

    detail::SchemaChecker checker_{most_steps_to_fill};
    int steps_ = most_steps_to_fill;
    int depth_ = 0;
    std::size_t default_bytes_ = most_default_bytes;
    bool defaults_are_too_large_ = false;
};

SchemaIssue root_issue(std::string message) {
    return SchemaIssue{std::string(whole_value), "a value that fits the schema", "another",
                       std::move(message)};
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
    Filler filler;
    filler.fill(schema, value, true);
    if (filler.defaults_are_too_large()) {
        return {root_issue("cannot be checked: the defaults of its schema have more than " +
                           std::to_string(most_default_bytes) + " bytes together")};
    }
    detail::SchemaChecker decide(most_steps_to_decide);
    if (decide.fits(schema, value)) return {};
    if (!decide.problem().empty())
        return {root_issue("cannot be checked: " + std::string(decide.problem()))};
    auto issues = detail::SchemaChecker(most_steps_to_explain).explain(schema, value);
    if (issues.empty()) issues.push_back(root_issue("does not fit the schema"));
    return issues;
}

}  // namespace cubepi
