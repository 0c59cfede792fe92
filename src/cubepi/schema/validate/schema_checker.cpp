#include <cubepi/schema/validate/schema_checker.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <utility>

#include <boost/json.hpp>

#include <cubepi/core/support/json_member.hpp>
#include <cubepi/schema/json/utf8.hpp>

namespace cubepi::detail {
namespace {

// Several schemas may be nested at each level of a value, whose depth parse_json() limits.
constexpr int deepest_check = 1000;

std::string join(const std::vector<std::string_view>& words, std::string_view separator) {
    std::string text;
    for (const auto word : words) {
        if (!text.empty()) text += separator;
        text += word;
    }
    return text;
}

std::string list_values(const JsonArray& values) {
    std::string text;
    for (const auto& value : values) {
        if (!text.empty()) text += ", ";
        text += quote_value(value);
    }
    return text;
}

// Compares like JSON Schema: 1 and 1.0 are equal.
bool equal_values(const Json& a, const Json& b) {
    if (a.is_number() && b.is_number())
        return a == b ||
               ((a.is_double() || b.is_double()) && a.to_number<double>() == b.to_number<double>());
    const auto* array = a.if_array();
    const auto* other_array = b.if_array();
    if (array && other_array)
        return std::equal(array->begin(), array->end(), other_array->begin(), other_array->end(),
                          equal_values);
    const auto* object = a.if_object();
    const auto* other_object = b.if_object();
    if (object && other_object) {
        return object->size() == other_object->size() &&
               std::all_of(object->begin(), object->end(), [&](const auto& entry) {
                   const Json* other = other_object->if_contains(entry.key());
                   return other && equal_values(entry.value(), *other);
               });
    }
    return a == b;
}

bool contains_value(const JsonArray& values, const Json& value) {
    return std::any_of(values.begin(), values.end(),
                       [&](const Json& item) { return equal_values(item, value); });
}

unsigned types_of(const Json& value) {
    switch (value.kind()) {
        case boost::json::kind::null: return json_types::null;
        case boost::json::kind::bool_: return json_types::boolean;
        case boost::json::kind::int64:
        case boost::json::kind::uint64: return json_types::integer | json_types::number;
        case boost::json::kind::double_:
            // An integer beyond 64 bits is not valid, because no reader could represent it.
            return json_types::number |
                   (integer_from_number(value).is_null() ? 0U : json_types::integer);
        case boost::json::kind::string: return json_types::string;
        case boost::json::kind::array: return json_types::array;
        case boost::json::kind::object: return json_types::object;
    }
    return 0;
}

std::size_t count_characters(std::string_view text) {
    std::size_t count = 0;
    for (std::size_t at = 0; at < text.size(); at += utf8_char(text, at).length) ++count;
    return count;
}

// Tolerates the rounding of decimal fractions: 0.3 is a multiple of 0.1.
bool is_multiple(double number, double step) {
    const double quotient = number / step;
    if (std::isinf(quotient)) return std::fmod(number, step) == 0;
    constexpr double tolerance = 4 * std::numeric_limits<double>::epsilon();
    return std::fabs(quotient - std::round(quotient)) <= tolerance * std::fabs(quotient);
}

bool holds(LimitRule::Compares compares, double measured, double limit) {
    switch (compares) {
        case LimitRule::Compares::at_least: return measured >= limit;
        case LimitRule::Compares::more_than: return measured > limit;
        case LimitRule::Compares::at_most: return measured <= limit;
        case LimitRule::Compares::less_than: return measured < limit;
        case LimitRule::Compares::multiple_of: return is_multiple(measured, limit);
    }
    return true;
}

std::string limit_words(const SchemaNode::Limit& limit) {
    std::string words;
    switch (limit.rule->compares) {
        case LimitRule::Compares::at_least: words = "at least "; break;
        case LimitRule::Compares::more_than: words = "more than "; break;
        case LimitRule::Compares::at_most: words = "at most "; break;
        case LimitRule::Compares::less_than: words = "less than "; break;
        case LimitRule::Compares::multiple_of: words = "a multiple of "; break;
    }
    words += quote_value(*limit.source);
    switch (limit.rule->measures) {
        case LimitRule::Measures::number: break;
        case LimitRule::Measures::characters: words += " characters"; break;
        case LimitRule::Measures::items: words += " items"; break;
        case LimitRule::Measures::fields: words += " fields"; break;
    }
    return words;
}

// Returns the types that a schema allows, for a message.
std::string type_words(const SchemaNode& schema) {
    const auto& node = schema.resolved();
    const auto types = node.type_names();
    if (!types.empty()) return join(types, " or ");
    if (node.choices) return "one of " + list_values(*node.choices);
    if (node.constant) return quote_value(*node.constant);
    std::string words;
    if (node.combined) {
        for (const auto* group : {&node.combined->any, &node.combined->one}) {
            for (const auto* alternative : *group) {
                const auto inner = alternative->resolved().type_names();
                if (inner.empty()) return "any of the allowed forms";
                words += (words.empty() ? "" : " or ") + join(inner, " or ");
            }
        }
    }
    return words.empty() ? "any value" : words;
}

// Returns the tags that one alternative of a union allows for its property `name`.
JsonArray tags_of(const SchemaNode& alternative, std::string_view name) {
    const auto* property = alternative.fields ? alternative.fields->property(name) : nullptr;
    if (!property) return {};
    if (property->constant) return JsonArray(1, *property->constant);
    return property->choices ? *property->choices : JsonArray();
}

}  // namespace

// A schema and the value that it is applied to.
struct SchemaChecker::Visit {
    SchemaChecker& checker;
    const SchemaNode& node;
    const Json& value;
    const ValuePath& path;
    const Scope* scope;
    Evaluated* evaluated;
    Issues* issues;  // null: the first failure ends the check
    bool ok = true;

    template <class MakeIssue>
    void fail(MakeIssue&& make_issue) {
        ok = false;
        if (done()) return;
        issues->push_back(make_issue());
        // The texts may be as long as the value's keys, or the schema.
        const SchemaIssue& issue = issues->back();
        checker.spend((sizeof issue + issue.path.size() + issue.expected.size() +
                       issue.found.size() + issue.message.size()) /
                      64);
    }
    void expect(std::string expected) {
        fail([&] { return wrong_type_issue(path, std::move(expected), value); });
    }
    bool done() const {
        return !ok && (!issues || issues->size() >= most_explained_issues || checker.steps_ == 0);
    }
    // For work that grows with the schema and is not a check() of its own.
    bool spend(std::size_t steps) {
        if (!checker.spend(steps)) ok = false;
        return checker.steps_ > 0;
    }
    void mark(std::size_t position) {
        if (evaluated) (*evaluated)[position] = true;
    }
};

bool SchemaChecker::fits(const SchemaNode& schema, const Json& value) {
    return check(schema, value, ValuePath{}, nullptr, nullptr, nullptr) && problem_.empty();
}

SchemaChecker::Issues SchemaChecker::explain(const SchemaNode& schema, const Json& value) {
    Issues issues;
    check(schema, value, ValuePath{}, nullptr, nullptr, &issues);
    Issues distinct;
    for (auto& issue : issues) {
        if (std::find(distinct.begin(), distinct.end(), issue) == distinct.end())
            distinct.push_back(std::move(issue));
    }
    return distinct;
}

bool SchemaChecker::spend(std::size_t steps) {
    steps_ -= std::min(steps, steps_);
    if (steps_ == 0) problem_ = "it takes too many steps";
    return steps_ > 0;
}

bool SchemaChecker::check(const SchemaNode& node, const Json& value, const ValuePath& path,
                          const Scope* scope, Evaluated* evaluated, Issues* issues) {
    if (!spend(1)) return false;
    if (depth_ >= deepest_check) {
        problem_ = "it is nested too deeply";
        return false;
    }
    const Scope entered{scope, node.resource};
    const bool outside = !scope || scope->resource != node.resource;
    Evaluated own;
    const bool looks_at_rest =
        (node.items && node.items->unevaluated) || (node.fields && node.fields->unevaluated);
    if (looks_at_rest && !evaluated && value.is_structured()) {
        own.resize(value.is_array() ? value.get_array().size() : value.get_object().size());
        evaluated = &own;
    }
    Visit visit{*this, node, value, path, outside ? &entered : scope, evaluated, issues};
    ++depth_;
    if (node.accepts_nothing()) {
        visit.expect("no value");
    } else if (node.keywords) {
        if (node.reference) require(visit, *node.reference);
        if (!visit.done() && check_type(visit) && check_choices(visit)) check_by_type(visit);
    }
    --depth_;
    return visit.ok;
}

void SchemaChecker::check_by_type(Visit& visit) {
    const auto& node = visit.node;
    if (node.dynamic_reference) {
        const SchemaNode* target = node.dynamic_reference;
        // The outermost scope that has the anchor wins, so that an extending schema replaces that of its base.
        for (const Scope* scope = node.dynamic_anchor.empty() ? nullptr : visit.scope; scope;
             scope = scope->outer) {
            const auto found = scope->resource->dynamic_anchors.find(node.dynamic_anchor);
            if (found != scope->resource->dynamic_anchors.end()) target = found->second;
        }
        require(visit, *target);
    }
    if (!visit.done() && !node.limits.empty()) check_limits(visit);
    if (visit.done()) return;
    if (const auto* text = visit.value.if_string(); text && node.pattern) {
        if (!node.pattern->found_in(*text))
            visit.expect("text that matches " + std::string(node.pattern_text));
    }
    if (visit.done()) return;
    if (const auto* array = visit.value.if_array(); array && node.items) check_items(visit, *array);
    if (visit.done()) return;
    if (const auto* object = visit.value.if_object(); object && node.fields)
        check_fields(visit, *object);
    if (!visit.done() && node.combined) check_combined(visit);
    if (!visit.done()) check_unevaluated(visit);
}

// Applies another schema to the same value.
bool SchemaChecker::apply(Visit& visit, const SchemaNode& schema, Issues* issues) {
    Evaluated own(visit.evaluated ? visit.evaluated->size() : 0);
    const bool ok = check(schema, visit.value, visit.path, visit.scope,
                          visit.evaluated ? &own : nullptr, issues);
    if (ok) {
        for (std::size_t i = 0; i < own.size(); ++i) {
            if (own[i]) visit.mark(i);
        }
    }
    return ok;
}

void SchemaChecker::require(Visit& visit, const SchemaNode& schema) {
    if (!apply(visit, schema, visit.issues)) visit.ok = false;
}

bool SchemaChecker::child_fits(const Visit& visit, const SchemaNode& schema, const Json& value) {
    return check(schema, value, visit.path, visit.scope, nullptr, nullptr);
}

void SchemaChecker::check_child(Visit& visit, const SchemaNode& schema, const Json& value,
                                const ValuePath& path) {
    if (!check(schema, value, path, visit.scope, nullptr, visit.issues)) visit.ok = false;
}

bool SchemaChecker::check_type(Visit& visit) {
    if (visit.node.types == json_types::any) return true;
    if ((visit.node.types & types_of(visit.value)) != 0) return true;
    visit.fail([&] {
        return wrong_type_issue(visit.path, join(visit.node.type_names(), " or "), visit.value);
    });
    return false;
}

bool SchemaChecker::check_choices(Visit& visit) {
    const auto& node = visit.node;
    if (node.choices && !visit.spend(node.choices->size() / 16)) return false;
    if (node.choices && !contains_value(*node.choices, visit.value)) {
        visit.fail(
            [&] { return not_one_of_issue(visit.path, list_values(*node.choices), visit.value); });
        return false;
    }
    if (node.constant && !equal_values(*node.constant, visit.value)) {
        visit.expect(quote_value(*node.constant));
        return false;
    }
    return true;
}

void SchemaChecker::check_limits(Visit& visit) {
    const auto measure = [&](LimitRule::Measures measures) {
        const Json& value = visit.value;
        switch (measures) {
            case LimitRule::Measures::number:
                if (value.is_number()) return value.to_number<double>();
                break;
            case LimitRule::Measures::characters:
                if (const auto* text = value.if_string())
                    return static_cast<double>(count_characters(*text));
                break;
            case LimitRule::Measures::items:
                if (const auto* array = value.if_array()) return static_cast<double>(array->size());
                break;
            case LimitRule::Measures::fields:
                if (const auto* object = value.if_object())
                    return static_cast<double>(object->size());
                break;
        }
        return std::numeric_limits<double>::quiet_NaN();
    };
    for (const auto& limit : visit.node.limits) {
        const double measured = measure(limit.rule->measures);
        if (!std::isnan(measured) && !holds(limit.rule->compares, measured, limit.value))
            visit.expect(limit_words(limit));
    }
}

void SchemaChecker::check_items(Visit& visit, const JsonArray& array) {
    const auto& items = *visit.node.items;
    if (items.unique) check_unique(visit, array);
    if (items.contains && !visit.done()) check_contained(visit, array);
    const std::size_t first_count = items.first.size();
    for (std::size_t i = 0; i < array.size() && !visit.done(); ++i) {
        const auto* schema = i < first_count ? items.first[i] : items.rest;
        if (!schema) return;
        if (i >= first_count && schema->accepts_nothing()) {
            visit.expect("at most " + std::to_string(first_count) + " items");
            return;
        }
        visit.mark(i);
        check_child(visit, *schema, array[i], visit.path.item(i));
    }
}

void SchemaChecker::check_unique(Visit& visit, const JsonArray& array) {
    for (std::size_t i = 1; i < array.size() && !visit.done(); ++i) {
        if (!visit.spend(i / 16)) return;
        for (std::size_t k = 0; k < i; ++k) {
            if (!equal_values(array[k], array[i])) continue;
            visit.fail([&] {
                return wrong_type_issue(visit.path.item(i), "no duplicate item", array[i]);
            });
            break;
        }
    }
}

void SchemaChecker::check_contained(Visit& visit, const JsonArray& array) {
    const auto& items = *visit.node.items;
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < array.size(); ++i) {
        if (!child_fits(visit, *items.contains, array[i])) continue;
        ++count;
        visit.mark(i);
    }
    if (count < items.least_contained) {
        visit.expect(items.least_contained == 1
                         ? std::string("an item that fits \"contains\"")
                         : "at least " + std::to_string(items.least_contained) +
                               " items that fit \"contains\"");
    } else if (items.most_contained && count > *items.most_contained) {
        visit.expect("at most " + std::to_string(*items.most_contained) +
                     " items that fit \"contains\"");
    }
}

void SchemaChecker::check_fields(Visit& visit, const JsonObject& object) {
    const auto& fields = *visit.node.fields;
    if (fields.required) {
        for (const auto& name : *fields.required) {
            if (object.contains(name.get_string())) continue;
            visit.fail([&] {
                const auto* property = fields.property(name.get_string());
                return missing_issue(visit.path.child(name.get_string()),
                                     property ? type_words(*property) : std::string("any value"));
            });
            if (visit.done()) return;
        }
    }
    if (!visit.done()) check_each_field(visit, object);
    if (!visit.done()) check_dependencies(visit, object);
}

void SchemaChecker::check_each_field(Visit& visit, const JsonObject& object) {
    const auto& fields = *visit.node.fields;
    std::size_t position = 0;
    for (const auto& entry : object) {
        const std::string_view name(entry.key());
        const auto here = visit.path.child(name);
        bool known = false;
        const auto apply_to_field = [&](const SchemaNode& schema) {
            known = true;
            visit.mark(position);
            check_child(visit, schema, entry.value(), here);
        };
        if (const auto* property = fields.property(name)) apply_to_field(*property);
        if (!visit.spend(fields.patterns.size())) return;
        for (const auto& [pattern, schema] : fields.patterns) {
            if (!visit.done() && pattern.found_in(name)) apply_to_field(*schema);
        }
        if (fields.additional && !known) {
            if (fields.additional->accepts_nothing()) {
                visit.fail([&] { return unexpected_issue(here, entry.value()); });
            } else {
                apply_to_field(*fields.additional);
            }
        }
        if (fields.names && !visit.done() && !child_fits(visit, *fields.names, Json(name)))
            visit.fail([&] { return wrong_type_issue(here, "another field name", Json(name)); });
        if (visit.done()) return;
        ++position;
    }
}

void SchemaChecker::check_dependencies(Visit& visit, const JsonObject& object) {
    if (!visit.spend(visit.node.fields->required_with.size() / 16)) return;
    for (const auto& [name, others] : visit.node.fields->required_with) {
        if (!object.contains(name)) continue;
        for (const auto& other : *others) {
            if (object.contains(other.get_string())) continue;
            visit.fail(
                [&] { return missing_issue(visit.path.child(other.get_string()), "any value"); });
            if (visit.done()) return;
        }
    }
    for (const auto& [name, schema] : visit.node.fields->schemas_with) {
        if (!visit.done() && object.contains(name)) require(visit, *schema);
    }
}

void SchemaChecker::check_combined(Visit& visit) {
    const auto& combined = *visit.node.combined;
    for (const auto* schema : combined.all) {
        if (!visit.done()) require(visit, *schema);
    }
    if (!visit.done() && !combined.any.empty()) check_alternatives(visit, combined.any, false);
    if (!visit.done() && !combined.one.empty()) check_alternatives(visit, combined.one, true);
    if (visit.done()) return;
    if (combined.unwanted && child_fits(visit, *combined.unwanted, visit.value))
        visit.expect("a value that does not fit \"not\"");
    if (combined.condition && !visit.done()) {
        const bool met = apply(visit, *combined.condition, nullptr);
        const auto* branch = met ? combined.then_branch : combined.else_branch;
        if (branch) require(visit, *branch);
    }
}

void SchemaChecker::check_alternatives(Visit& visit, const std::vector<const SchemaNode*>& schemas,
                                       bool exactly_one) {
    std::size_t fitting = 0;
    std::vector<Issues> of_right_kind;
    for (const auto* schema : schemas) {
        Issues found;
        if (apply(visit, *schema, visit.issues ? &found : nullptr)) {
            ++fitting;
            if (!exactly_one && !visit.evaluated) break;
        } else if (!found.empty() && found.front().path != visit.path.to_string()) {
            of_right_kind.push_back(std::move(found));
        }
    }
    if (fitting == 1 || (fitting > 1 && !exactly_one)) return;
    if (fitting > 1) {
        visit.expect("exactly one of " + std::to_string(schemas.size()) + " forms (" +
                     std::to_string(fitting) + " fit)");
        return;
    }
    visit.ok = false;
    if (visit.done() || check_tagged(visit, schemas)) return;
    if (of_right_kind.size() == 1) {
        for (auto& issue : of_right_kind.front()) {
            if (!visit.done()) visit.issues->push_back(std::move(issue));
        }
        return;
    }
    std::set<std::string> words;
    for (const auto* schema : schemas) words.insert(type_words(*schema));
    std::string expected;
    for (const auto& word : words) expected += (expected.empty() ? "" : " or ") + word;
    if (of_right_kind.empty()) {
        visit.expect(expected);
    } else {
        visit.fail([&] { return no_form_issue(visit.path, expected, of_right_kind, visit.value); });
    }
}

// Explains a union whose alternatives are identified by one property ("kind": "cat"): only the issues of the selected
// alternative are reported.
bool SchemaChecker::check_tagged(Visit& visit, const std::vector<const SchemaNode*>& schemas) {
    const auto* object = visit.value.if_object();
    const auto& first = schemas.front()->resolved();
    if (!object || schemas.size() < 2 || !first.fields || !first.fields->properties) return false;
    for (const auto& candidate : *first.fields->properties) {
        const std::string_view name(candidate.key());
        const Json* tag = object->if_contains(name);
        JsonArray tags;
        const SchemaNode* meant = nullptr;
        bool all_tagged = true;
        for (const auto* schema : schemas) {
            const auto own = tags_of(schema->resolved(), name);
            if (!visit.spend(1 + own.size() / 16)) return true;
            all_tagged = all_tagged && !own.empty();
            if (tag && contains_value(own, *tag)) meant = schema;
            tags.insert(tags.end(), own.begin(), own.end());
        }
        if (!all_tagged) continue;
        if (!tag) {
            visit.fail([&] {
                auto issue = missing_issue(visit.path.child(name), "one of " + list_values(tags));
                issue.message += ", " + issue.expected;
                return issue;
            });
        } else if (!meant) {
            visit.fail(
                [&] { return not_one_of_issue(visit.path.child(name), list_values(tags), *tag); });
        } else {
            require(visit, *meant);
        }
        return true;
    }
    return false;
}

void SchemaChecker::check_unevaluated(Visit& visit) {
    const auto& node = visit.node;
    const auto* array = visit.value.if_array();
    if (const auto* schema = array && node.items ? node.items->unevaluated : nullptr) {
        for (std::size_t i = 0; i < array->size() && !visit.done(); ++i) {
            if ((*visit.evaluated)[i]) continue;
            visit.mark(i);
            check_child(visit, *schema, (*array)[i], visit.path.item(i));
        }
    }
    const auto* object = visit.value.if_object();
    if (const auto* schema = object && node.fields ? node.fields->unevaluated : nullptr) {
        std::size_t position = 0;
        for (const auto& entry : *object) {
            if (visit.done()) return;
            const auto here = visit.path.child(entry.key());
            if (!(*visit.evaluated)[position]) {
                visit.mark(position);
                if (schema->accepts_nothing()) {
                    visit.fail([&] { return unexpected_issue(here, entry.value()); });
                } else {
                    check_child(visit, *schema, entry.value(), here);
                }
            }
            ++position;
        }
    }
}

}  // namespace cubepi::detail
