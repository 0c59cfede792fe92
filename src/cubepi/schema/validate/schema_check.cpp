#include <cubepi/schema/validate/schema_check.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include <cubepi/core/support/json_member.hpp>
#include <cubepi/schema/validate/schema_nodes.hpp>

namespace cubepi::detail {
namespace {

SchemaIssue plain_issue(const ValuePath& path, std::string expected, const Json& found) {
    return wrong_type_issue(path, std::move(expected), found);
}

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

bool contains_value(const JsonArray& values, const Json& value) {
    return std::any_of(values.begin(), values.end(), [&](const Json& item) {
        return item == value || (item.is_number() && value.is_number() &&
                                 item.to_number<double>() == value.to_number<double>());
    });
}

bool matches_any_pattern(const JsonObject* patterns, std::string_view name) {
    if (!patterns) return false;
    return std::any_of(patterns->begin(), patterns->end(),
                       [&](const auto& entry) { return pattern_found(view(entry.key()), name); });
}

// Returns the tags that one alternative of a union allows for its property `name`.
std::vector<Json> tags_of(const JsonObject& alternative, std::string_view name) {
    const auto* properties = object_member(alternative, "properties");
    const auto* property = properties ? object_member(*properties, name) : nullptr;
    if (!property) return {};
    if (const auto* constant = member(*property, "const")) return {*constant};
    const auto* choices = array_member(*property, "enum");
    if (!choices) return {};
    return std::vector<Json>(choices->begin(), choices->end());
}

}  // namespace

const JsonObject* SchemaChecker::resolved(const Json& schema) const {
    const Json* node = follow_references(root_, schema);
    return node ? node->if_object() : nullptr;
}

bool SchemaChecker::fits(const Json& schema, const Json& value) {
    Issues issues;
    check(schema, value, ValuePath{}, issues);
    return issues.empty();
}

void SchemaChecker::check(const Json& schema, const Json& value, const ValuePath& path,
                          Issues& issues) {
    if (steps_ <= 0 || --steps_ == 0) return;
    if (const auto* allowed = schema.if_bool()) {
        if (!*allowed) issues.push_back(plain_issue(path, "no value", value));
        return;
    }
    const auto* object = schema.if_object();
    if (!object) return;
    if (member(*object, "$ref")) {
        if (const Json* target = follow_references(root_, schema))
            check(*target, value, path, issues);
    }
    if (!check_type(*object, value, path, issues)) return;
    if (!check_choices(*object, value, path, issues)) return;
    if (value.is_number()) check_number(*object, value, path, issues);
    if (const auto* text = value.if_string()) check_string(*object, view(*text), path, issues);
    if (const auto* array = value.if_array()) check_array(*object, *array, path, issues);
    if (const auto* fields = value.if_object()) {
        check_object(*object, *fields, path, issues);
        check_dependencies(*object, value, path, issues);
    }
    check_combined(*object, value, path, issues);
}

bool SchemaChecker::check_type(const JsonObject& schema, const Json& value, const ValuePath& path,
                               Issues& issues) {
    const auto types = allowed_types(schema);
    if (types.empty()) return true;
    for (const auto type : types) {
        if (has_type(value, type)) return true;
    }
    issues.push_back(wrong_type_issue(path, join(types, " or "), value));
    return false;
}

bool SchemaChecker::check_choices(const JsonObject& schema, const Json& value,
                                  const ValuePath& path, Issues& issues) {
    const auto* choices = array_member(schema, "enum");
    if (choices && !contains_value(*choices, value)) {
        issues.push_back(not_one_of_issue(path, list_values(*choices), value));
        return false;
    }
    if (const auto* constant = member(schema, "const")) {
        const JsonArray single(1, *constant);
        if (!contains_value(single, value)) {
            issues.push_back(plain_issue(path, quote_value(*constant), value));
            return false;
        }
    }
    return true;
}

void SchemaChecker::check_number(const JsonObject& schema, const Json& value, const ValuePath& path,
                                 Issues& issues) {
    const double number = value.to_number<double>();
    const auto bound = [&](std::string_view key, std::string_view words, auto&& broken) {
        const auto* limit = member(schema, key);
        if (limit && limit->is_number() && broken(limit->to_number<double>())) {
            issues.push_back(plain_issue(path, std::string(words) + quote_value(*limit), value));
        }
    };
    const auto flag = [&](std::string_view key) { return flag_member(schema, key); };
    const bool above = flag("exclusiveMinimum");
    const bool below = flag("exclusiveMaximum");
    bound("minimum", above ? "more than " : "at least ",
          [&](double limit) { return above ? number <= limit : number < limit; });
    bound("maximum", below ? "less than " : "at most ",
          [&](double limit) { return below ? number >= limit : number > limit; });
    bound("exclusiveMinimum", "more than ", [&](double limit) { return number <= limit; });
    bound("exclusiveMaximum", "less than ", [&](double limit) { return number >= limit; });
    bound("multipleOf", "a multiple of ", [&](double step) {
        return std::fabs(std::remainder(number, step)) > std::numeric_limits<double>::epsilon();
    });
}

void SchemaChecker::check_string(const JsonObject& schema, std::string_view text,
                                 const ValuePath& path, Issues& issues) {
    const auto* shortest = member(schema, "minLength");
    const auto* longest = member(schema, "maxLength");
    if (shortest || longest) {
        const auto length = static_cast<double>(count_characters(text));
        const Json found(boost::json::string_view(text.data(), text.size()));
        if (shortest && shortest->is_number() && length < shortest->to_number<double>()) {
            issues.push_back(
                plain_issue(path, "at least " + quote_value(*shortest) + " characters", found));
        }
        if (longest && longest->is_number() && length > longest->to_number<double>()) {
            issues.push_back(
                plain_issue(path, "at most " + quote_value(*longest) + " characters", found));
        }
    }
    if (const auto pattern = string_member(schema, "pattern"); !pattern.empty()) {
        if (!pattern_found(pattern, text)) {
            issues.push_back(plain_issue(path, "text that matches " + std::string(pattern),
                                         Json(boost::json::string_view(text.data(), text.size()))));
        }
    }
}

void SchemaChecker::check_array(const JsonObject& schema, const JsonArray& array,
                                const ValuePath& path, Issues& issues) {
    const auto size = static_cast<double>(array.size());
    const auto found = [&] { return Json(array); };
    if (const auto* least = member(schema, "minItems"); least && least->is_number()) {
        if (size < least->to_number<double>()) {
            issues.push_back(
                plain_issue(path, "at least " + quote_value(*least) + " items", found()));
        }
    }
    if (const auto* most = member(schema, "maxItems"); most && most->is_number()) {
        if (size > most->to_number<double>()) {
            issues.push_back(
                plain_issue(path, "at most " + quote_value(*most) + " items", found()));
        }
    }
    if (flag_member(schema, "uniqueItems")) {
        for (std::size_t i = 1; i < array.size() && steps_ > 0; ++i) {
            steps_ -= static_cast<int>(std::min<std::size_t>(i / 16, 1000));
            const auto here = array.begin() + static_cast<std::ptrdiff_t>(i);
            if (std::find(array.begin(), here, *here) != here) {
                issues.push_back(plain_issue(path.item(i), "no duplicate item", array[i]));
            }
        }
    }
    if (const auto* wanted = member(schema, "contains")) {
        if (std::none_of(array.begin(), array.end(),
                         [&](const Json& item) { return fits(*wanted, item); })) {
            issues.push_back(plain_issue(path, "an item that fits \"contains\"", found()));
        }
    }
    check_items(schema, array, path, issues);
}

void SchemaChecker::check_items(const JsonObject& schema, const JsonArray& array,
                                const ValuePath& path, Issues& issues) {
    const auto* items = member(schema, "items");
    const auto* first = array_member(schema, "prefixItems");
    const Json* rest = items;
    if (!first && items && items->is_array()) {
        first = &items->get_array();
        rest = member(schema, "additionalItems");
    }
    const std::size_t first_count = first ? first->size() : 0;
    for (std::size_t i = 0; i < array.size(); ++i) {
        const Json* item_schema = i < first_count ? &(*first)[i] : rest;
        if (!item_schema || item_schema->is_array()) continue;
        if (i >= first_count && item_schema->is_bool() && !item_schema->get_bool()) {
            issues.push_back(plain_issue(path, "at most " + std::to_string(first_count) + " items",
                                         Json(array)));
            return;
        }
        check(*item_schema, array[i], path.item(i), issues);
    }
}

void SchemaChecker::check_object(const JsonObject& schema, const JsonObject& object,
                                 const ValuePath& path, Issues& issues) {
    const auto* properties = object_member(schema, "properties");
    if (const auto* required = array_member(schema, "required")) {
        for (const auto& name : *required) {
            if (!name.is_string() || object.contains(name.get_string())) continue;
            const auto* property =
                properties ? member(*properties, view(name.get_string())) : nullptr;
            issues.push_back(
                missing_issue(path.child(view(name.get_string())),
                              property ? type_words(*property) : std::string("any value")));
        }
    }
    check_properties(schema, object, path, issues);
    const auto size = static_cast<double>(object.size());
    if (const auto* least = member(schema, "minProperties"); least && least->is_number()) {
        if (size < least->to_number<double>()) {
            issues.push_back(
                plain_issue(path, "at least " + quote_value(*least) + " fields", Json(object)));
        }
    }
    if (const auto* most = member(schema, "maxProperties"); most && most->is_number()) {
        if (size > most->to_number<double>()) {
            issues.push_back(
                plain_issue(path, "at most " + quote_value(*most) + " fields", Json(object)));
        }
    }
    if (const auto* names = member(schema, "propertyNames")) {
        for (const auto& entry : object) {
            const Json name(entry.key());
            if (!fits(*names, name)) {
                issues.push_back(
                    plain_issue(path.child(view(entry.key())), "another field name", name));
            }
        }
    }
}

void SchemaChecker::check_properties(const JsonObject& schema, const JsonObject& object,
                                     const ValuePath& path, Issues& issues) {
    const auto* properties = object_member(schema, "properties");
    const auto* patterns = object_member(schema, "patternProperties");
    const auto* additional = member(schema, "additionalProperties");
    for (const auto& entry : object) {
        const auto name = view(entry.key());
        const auto here = path.child(name);
        const auto* property = properties ? member(*properties, name) : nullptr;
        if (property) check(*property, entry.value(), here, issues);
        if (patterns) {
            for (const auto& pattern : *patterns) {
                if (pattern_found(view(pattern.key()), name))
                    check(pattern.value(), entry.value(), here, issues);
            }
        }
        if (!additional || property || matches_any_pattern(patterns, name)) continue;
        if (additional->is_bool()) {
            if (!additional->get_bool()) issues.push_back(unexpected_issue(here, entry.value()));
        } else {
            check(*additional, entry.value(), here, issues);
        }
    }
}

void SchemaChecker::check_dependencies(const JsonObject& schema, const Json& value,
                                       const ValuePath& path, Issues& issues) {
    const auto& object = value.get_object();
    for (const std::string_view keyword :
         {"dependencies", "dependentRequired", "dependentSchemas"}) {
        const auto* dependencies = object_member(schema, keyword);
        if (!dependencies) continue;
        for (const auto& entry : *dependencies) {
            if (!object.contains(entry.key())) continue;
            if (const auto* names = entry.value().if_array()) {
                for (const auto& name : *names) {
                    if (name.is_string() && !object.contains(name.get_string())) {
                        issues.push_back(
                            missing_issue(path.child(view(name.get_string())), "any value"));
                    }
                }
            } else {
                check(entry.value(), value, path, issues);
            }
        }
    }
}

void SchemaChecker::check_combined(const JsonObject& schema, const Json& value,
                                   const ValuePath& path, Issues& issues) {
    if (const auto* all = array_member(schema, "allOf")) {
        for (const auto& part : *all) check(part, value, path, issues);
    }
    if (const auto* any = array_member(schema, "anyOf"))
        check_alternatives(*any, false, value, path, issues);
    if (const auto* one = array_member(schema, "oneOf"))
        check_alternatives(*one, true, value, path, issues);
    if (const auto* unwanted = member(schema, "not"); unwanted && fits(*unwanted, value)) {
        issues.push_back(plain_issue(path, "a value that does not fit \"not\"", value));
    }
    if (const auto* condition = member(schema, "if")) {
        const auto* branch = member(schema, fits(*condition, value) ? "then" : "else");
        if (branch) check(*branch, value, path, issues);
    }
}

void SchemaChecker::check_alternatives(const JsonArray& schemas, bool exactly_one,
                                       const Json& value, const ValuePath& path, Issues& issues) {
    std::size_t fitting = 0;
    std::vector<Issues> of_right_kind;
    const auto here = path.to_string();
    for (const auto& schema : schemas) {
        Issues found;
        check(schema, value, path, found);
        if (found.empty()) {
            ++fitting;
        } else if (found.front().path != here) {
            of_right_kind.push_back(std::move(found));
        }
    }
    if (fitting == 1 || (fitting > 1 && !exactly_one)) return;
    if (fitting > 1) {
        issues.push_back(plain_issue(path,
                                     "exactly one of " + std::to_string(schemas.size()) +
                                         " forms (" + std::to_string(fitting) + " fit)",
                                     value));
        return;
    }
    if (check_tagged(schemas, value, path, issues)) return;
    if (of_right_kind.size() == 1) {
        for (auto& issue : of_right_kind.front()) issues.push_back(std::move(issue));
        return;
    }
    std::set<std::string> words;
    for (const auto& schema : schemas) words.insert(type_words(schema));
    std::string expected;
    for (const auto& word : words) expected += (expected.empty() ? "" : " or ") + word;
    issues.push_back(of_right_kind.empty() ? plain_issue(path, expected, value)
                                           : no_form_issue(path, expected, of_right_kind, value));
}

// Checks a union whose alternatives are identified by one property ("kind": "cat"): only the issues of the selected
// alternative are reported.
bool SchemaChecker::check_tagged(const JsonArray& schemas, const Json& value, const ValuePath& path,
                                 Issues& issues) {
    const auto* object = value.if_object();
    const auto* first = schemas.empty() ? nullptr : resolved(schemas.front());
    const auto* properties = first ? object_member(*first, "properties") : nullptr;
    if (!object || !properties || schemas.size() < 2) return false;
    for (const auto& candidate : *properties) {
        const auto name = view(candidate.key());
        JsonArray tags;
        const Json* meant = nullptr;
        const Json* tag = member(*object, name);
        bool all_tagged = true;
        for (const auto& schema : schemas) {
            const auto* alternative = resolved(schema);
            const auto own = alternative ? tags_of(*alternative, name) : std::vector<Json>();
            all_tagged = all_tagged && !own.empty();
            for (const auto& item : own) {
                if (tag && item == *tag) meant = &schema;
                tags.push_back(item);
            }
        }
        if (!all_tagged) continue;
        if (!tag) {
            auto issue = missing_issue(path.child(name), "one of " + list_values(tags));
            issue.message += ", one of " + list_values(tags);
            issues.push_back(std::move(issue));
        } else if (!meant) {
            issues.push_back(not_one_of_issue(path.child(name), list_values(tags), *tag));
        } else {
            check(*meant, value, path, issues);
        }
        return true;
    }
    return false;
}

std::string SchemaChecker::type_words(const Json& schema) const {
    const auto* object = resolved(schema);
    if (!object) return "any value";
    const auto types = allowed_types(*object);
    if (!types.empty()) return join(types, " or ");
    if (const auto* choices = array_member(*object, "enum"))
        return "one of " + list_values(*choices);
    if (const auto* constant = member(*object, "const")) return quote_value(*constant);
    std::string words;
    for (const std::string_view group : {"anyOf", "oneOf"}) {
        const auto* alternatives = array_member(*object, group);
        if (!alternatives) continue;
        for (const auto& alternative : *alternatives) {
            const auto* inner = resolved(alternative);
            const auto inner_types =
                inner ? allowed_types(*inner) : std::vector<std::string_view>();
            if (inner_types.empty()) return "any of the allowed forms";
            words += (words.empty() ? "" : " or ") + join(inner_types, " or ");
        }
    }
    return words.empty() ? "any value" : words;
}

}  // namespace cubepi::detail
