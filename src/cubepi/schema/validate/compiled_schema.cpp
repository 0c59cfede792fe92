#include <cubepi/schema/validate/schema_checker.hpp>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <iterator>
#include <set>
#include <stdexcept>
#include <unordered_map>

#include <boost/json.hpp>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/bounded_regex.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/percent_decoded.hpp>
#include <cubepi/schema/issue.hpp>
#include <cubepi/schema/json/utf8.hpp>

namespace cubepi::detail {
namespace {

constexpr int deepest_schema = 200;
constexpr std::size_t longest_chain = 500;  // of schemas that apply to the same value

using Measures = LimitRule::Measures;
using Compares = LimitRule::Compares;

constexpr LimitRule limit_rules[] = {
    {"minimum", Measures::number, Compares::at_least},
    {"maximum", Measures::number, Compares::at_most},
    {"exclusiveMinimum", Measures::number, Compares::more_than},
    {"exclusiveMaximum", Measures::number, Compares::less_than},
    {"multipleOf", Measures::number, Compares::multiple_of},
    {"minLength", Measures::characters, Compares::at_least},
    {"maxLength", Measures::characters, Compares::at_most},
    {"minItems", Measures::items, Compares::at_least},
    {"maxItems", Measures::items, Compares::at_most},
    {"minProperties", Measures::fields, Compares::at_least},
    {"maxProperties", Measures::fields, Compares::at_most},
};

const LimitRule* limit_rule(std::string_view keyword) {
    const auto* found =
        std::find_if(std::begin(limit_rules), std::end(limit_rules),
                     [&](const LimitRule& rule) { return rule.keyword == keyword; });
    return found == std::end(limit_rules) ? nullptr : found;
}

// The bit of a type, or 0 if the word is not a type.
unsigned type_bit(std::string_view name) {
    if (name == "null") return json_types::null;
    if (name == "boolean") return json_types::boolean;
    if (name == "integer") return json_types::integer;
    if (name == "number") return json_types::number;
    if (name == "string") return json_types::string;
    if (name == "array") return json_types::array;
    if (name == "object") return json_types::object;
    return 0;
}

// A location inside the schema, written as a JSON pointer only in an error.
struct Where {
    const Where* parent = nullptr;
    std::string key;

    std::string pointer() const {
        if (!parent) return key;
        std::string text = parent->pointer() + '/';
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
};

[[noreturn]] void refuse(const std::string& pointer, const std::string& reason) {
    throw Error(ErrorCode::invalid_argument,
                "the JSON Schema is not valid at " +
                    (pointer.empty() ? std::string("its root") : pointer) + ": " + reason);
}

[[noreturn]] void refuse_other(const Where& where, std::string_view expected, const Json& found) {
    refuse(where.pointer(),
           "expected " + std::string(expected) + ", found " + describe_value(found));
}

// Returns `reference`, without a fragment, relative to `base` (RFC 3986, except that dot segments stay: URIs only have to
// be equal to those of the same schema).
std::string absolute_uri(const std::string& base, std::string_view reference) {
    const auto colon = reference.find(':');
    if (reference.empty()) return base;
    if (colon != std::string_view::npos && colon < reference.find('/'))
        return std::string(reference);
    const auto scheme = base.find("://");
    const auto path = base.find('/', scheme == std::string::npos ? 0 : scheme + 3);
    if (reference.front() == '/') return base.substr(0, path) + std::string(reference);
    const auto last = base.rfind('/');
    return (path == std::string::npos ? std::string() : base.substr(0, last + 1)) +
           std::string(reference);
}

std::wstring to_wide(std::string_view text) {
    std::wstring wide;
    wide.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
        const auto character = utf8_char(text, at);
        wide += static_cast<wchar_t>(character.code);
        at += character.length;
    }
    return wide;
}

// Translates ECMAScript's \uXXXX to \x{XXXX}.
std::string translate(std::string_view pattern) {
    std::string out;
    for (std::size_t at = 0; at < pattern.size(); ++at) {
        if (pattern[at] == '\\' && at + 1 < pattern.size()) {
            if (pattern[at + 1] == 'u' && hex4(pattern, at + 2) >= 0) {
                out += "\\x{" + std::string(pattern.substr(at + 2, 4)) + '}';
                at += 5;
                continue;
            }
            out += pattern[at++];
        }
        out += pattern[at];
    }
    return out;
}

template <class T>
T& ensure(std::unique_ptr<T>& group) {
    if (!group) group = std::make_unique<T>();
    return *group;
}

}  // namespace

class SchemaCompiler {
public:
    explicit SchemaCompiler(CompiledSchema& out) : out_(out) {}

    void run(const Json& root) {
        SchemaResource& document = out_.resources_.emplace_back();
        document.root = &root;
        node_of(root, Where{}, 0, document);
        // Resolving may compile schemas at locations that are not schemas by themselves.
        for (std::size_t i = 0; i < pending_.size(); ++i) resolve(i);
        for (const auto& pending : pending_) refuse_circles(*pending.node, pending.pointer);
    }

private:
    struct Pending {
        SchemaNode* node;
        SchemaResource* resource;
        std::string_view reference;
        std::string pointer;
        bool dynamic;
    };

    const SchemaNode* node_of(const Json& schema, const Where& where, int depth,
                              SchemaResource& parent) {
        if (const auto found = compiled_.find(&schema); found != compiled_.end())
            return found->second;
        if (depth > deepest_schema) refuse(where.pointer(), "nested too deeply");
        SchemaNode& node = out_.nodes_.emplace_back();
        compiled_.emplace(&schema, &node);
        node.resource = &parent;
        if (const auto* allowed = schema.if_bool()) {
            if (!*allowed) node.types = 0;
            return &node;
        }
        node.keywords = schema.if_object();
        if (!node.keywords) refuse_other(where, "an object or a boolean", schema);
        SchemaResource& resource = enter_resource(schema, node, parent);
        for (const auto& entry : *node.keywords) {
            const std::string_view key(entry.key());
            read(node, key, entry.value(), Where{&where, std::string(key)}, depth, resource);
        }
        return &node;
    }

    SchemaResource& enter_resource(const Json& schema, SchemaNode& node, SchemaResource& parent) {
        const auto id = string_member(*node.keywords, "$id");
        const auto uri = id.substr(0, id.find('#'));
        SchemaResource* resource = &parent;
        if (!uri.empty() && &schema != parent.root) {
            resource = &out_.resources_.emplace_back();
            resource->root = &schema;
        }
        if (!uri.empty()) {
            resource->base = absolute_uri(parent.base, uri);
            by_uri_.emplace(resource->base, resource);
        }
        node.resource = resource;
        // Drafts 6 and 7 write an anchor as an "$id".
        if (id.size() > 1 && id.front() == '#') resource->anchors.emplace(id.substr(1), &node);
        if (const auto name = string_member(*node.keywords, "$anchor"); !name.empty())
            resource->anchors.emplace(name, &node);
        if (const auto name = string_member(*node.keywords, "$dynamicAnchor"); !name.empty()) {
            resource->anchors.emplace(name, &node);
            resource->dynamic_anchors.emplace(name, &node);
        }
        return *resource;
    }

    void read(SchemaNode& node, std::string_view key, const Json& value, const Where& where,
              int depth, SchemaResource& resource) {
        const auto schema = [&] { return node_of(value, where, depth + 1, resource); };
        const auto schemas = [&] { return list_of(value, where, depth, resource); };
        const auto fields = [&]() -> SchemaNode::Fields& { return ensure(node.fields); };
        const auto items = [&]() -> SchemaNode::Items& { return ensure(node.items); };
        const auto combined = [&]() -> SchemaNode::Combined& { return ensure(node.combined); };
        if (key == "type") {
            read_type(node, value, where);
        } else if (key == "enum") {
            if (!value.is_array()) refuse_other(where, "a list", value);
            node.choices = &value.get_array();
        } else if (key == "const") {
            node.constant = &value;
        } else if (key == "default") {
            node.default_value = &value;
        } else if (key == "pattern") {
            if (!value.is_string()) refuse_other(where, "a string", value);
            node.pattern_text = value.get_string();
            node.pattern = pattern_of(node.pattern_text, where);
        } else if (key == "$ref" || key == "$dynamicRef") {
            if (!value.is_string()) refuse_other(where, "a string", value);
            pending_.push_back(
                {&node, &resource, value.get_string(), where.pointer(), key != "$ref"});
        } else if (key == "$defs" || key == "definitions") {
            each_member(value, where, [&](const Where& here, std::string_view, const Json& part) {
                node_of(part, here, depth + 1, resource);
            });
        } else if (key == "required") {
            fields().required = &names_of(value, where);
        } else if (key == "properties") {
            each_member(value, where, [&](const Where& here, std::string_view, const Json& part) {
                fields().property_nodes.push_back(node_of(part, here, depth + 1, resource));
            });
            fields().properties = &value.get_object();
        } else if (key == "patternProperties") {
            each_member(value, where,
                        [&](const Where& here, std::string_view name, const Json& part) {
                            fields().patterns.emplace_back(
                                pattern_of(name, here), node_of(part, here, depth + 1, resource));
                        });
        } else if (key == "additionalProperties") {
            fields().additional = schema();
        } else if (key == "propertyNames") {
            fields().names = schema();
        } else if (key == "unevaluatedProperties") {
            fields().unevaluated = schema();
        } else if (key == "dependencies" || key == "dependentRequired" ||
                   key == "dependentSchemas") {
            each_member(value, where,
                        [&](const Where& here, std::string_view name, const Json& part) {
                            if (part.is_array()) {
                                fields().required_with.emplace_back(name, &names_of(part, here));
                            } else {
                                fields().schemas_with.emplace_back(
                                    name, node_of(part, here, depth + 1, resource));
                            }
                        });
        } else if (key == "prefixItems" || (key == "items" && value.is_array())) {
            auto first = schemas();
            if (key == "prefixItems" || !node.keywords->contains("prefixItems"))
                items().first = std::move(first);
        } else if (key == "items") {
            items().rest = schema();
        } else if (key == "additionalItems") {
            const SchemaNode* rest = schema();
            if (array_member(*node.keywords, "items")) items().rest = rest;
        } else if (key == "unevaluatedItems") {
            items().unevaluated = schema();
        } else if (key == "contains") {
            items().contains = schema();
        } else if (key == "minContains") {
            items().least_contained = count_of(value, where);
        } else if (key == "maxContains") {
            items().most_contained = count_of(value, where);
        } else if (key == "uniqueItems") {
            if (!value.is_bool()) refuse_other(where, "a boolean", value);
            items().unique = value.get_bool();
        } else if (key == "allOf") {
            combined().all = some(schemas(), where);
        } else if (key == "anyOf") {
            combined().any = some(schemas(), where);
        } else if (key == "oneOf") {
            combined().one = some(schemas(), where);
        } else if (key == "not") {
            combined().unwanted = schema();
        } else if (key == "if") {
            combined().condition = schema();
        } else if (key == "then") {
            combined().then_branch = schema();
        } else if (key == "else") {
            combined().else_branch = schema();
        } else if (const auto* rule = limit_rule(key)) {
            read_limit(node, *rule, value, where);
        }
    }

    static void read_type(SchemaNode& node, const Json& value, const Where& where) {
        node.types = 0;
        const auto add = [&](const Json& item) {
            const unsigned bit = item.is_string() ? type_bit(item.get_string()) : 0;
            if (bit == 0) refuse(where.pointer(), quote_value(item) + " is not a type");
            node.types |= bit;
        };
        if (const auto* list = value.if_array()) {
            for (const auto& item : *list) add(item);
            if (list->empty()) node.types = json_types::any;
        } else {
            add(value);
        }
    }

    static void read_limit(SchemaNode& node, const LimitRule& rule, const Json& value,
                           const Where& where) {
        const LimitRule* applied = &rule;
        double limit = 0;
        if (rule.measures != Measures::number) {
            limit = static_cast<double>(count_of(value, where));
        } else {
            // Draft 4: a boolean, which says how to read "minimum".
            if (rule.keyword.substr(0, 9) == "exclusive" && value.is_bool()) return;
            if (!value.is_number()) refuse_other(where, "a number", value);
            limit = value.to_number<double>();
            if (rule.compares == Compares::multiple_of && !(limit > 0))
                refuse(where.pointer(), "must be more than 0");
            if (rule.compares == Compares::at_least &&
                flag_member(*node.keywords, "exclusiveMinimum"))
                applied = limit_rule("exclusiveMinimum");
            if (rule.compares == Compares::at_most &&
                flag_member(*node.keywords, "exclusiveMaximum"))
                applied = limit_rule("exclusiveMaximum");
        }
        node.limits.push_back({applied, &value, limit});
    }

    static std::uint64_t count_of(const Json& value, const Where& where) {
        const Json whole = integer_from_number(value);
        if (whole.is_null() || (whole.is_int64() && whole.get_int64() < 0))
            refuse_other(where, "a number of 0 or more", value);
        return whole.to_number<std::uint64_t>();
    }

    static const JsonArray& names_of(const Json& value, const Where& where) {
        const auto* list = value.if_array();
        if (!list) refuse_other(where, "a list of names", value);
        for (const auto& item : *list) {
            if (!item.is_string()) refuse_other(where, "a list of names", item);
        }
        return *list;
    }

    static SchemaPattern pattern_of(std::string_view pattern, const Where& where) {
        try {
            return SchemaPattern(pattern);
        } catch (const std::exception& error) {
            refuse(where.pointer(), "not a regular expression: " + std::string(error.what()));
        }
    }

    template <class F>
    static void each_member(const Json& value, const Where& where, F&& f) {
        const auto* members = value.if_object();
        if (!members) refuse_other(where, "an object", value);
        for (const auto& entry : *members) {
            const std::string_view name(entry.key());
            f(Where{&where, std::string(name)}, name, entry.value());
        }
    }

    std::vector<const SchemaNode*> list_of(const Json& value, const Where& where, int depth,
                                           SchemaResource& resource) {
        const auto* list = value.if_array();
        if (!list) refuse(where.pointer(), "expected a list of schemas");
        std::vector<const SchemaNode*> nodes;
        for (std::size_t i = 0; i < list->size(); ++i) {
            nodes.push_back(
                node_of((*list)[i], Where{&where, std::to_string(i)}, depth + 1, resource));
        }
        return nodes;
    }

    static std::vector<const SchemaNode*> some(std::vector<const SchemaNode*> nodes,
                                               const Where& where) {
        if (nodes.empty()) refuse(where.pointer(), "expected a list of schemas");
        return nodes;
    }

    void resolve(std::size_t index) {
        // By value: resolving may add references.
        const Pending pending = pending_[index];
        const SchemaNode* target = target_of(*pending.resource, pending.reference);
        if (!target) {
            refuse(pending.pointer,
                   "there is no " + quote_value(Json(pending.reference)) +
                       " in this schema (references to other documents are not followed)");
        }
        if (!pending.dynamic) {
            pending.node->reference = target;
            return;
        }
        pending.node->dynamic_reference = target;
        const auto fragment = pending.reference.substr(pending.reference.find('#') + 1);
        const auto& anchors = target->resource->dynamic_anchors;
        if (const auto found = anchors.find(fragment);
            found != anchors.end() && found->second == target)
            pending.node->dynamic_anchor = found->first;
    }

    const SchemaNode* target_of(SchemaResource& from, std::string_view reference) {
        const auto hash = std::min(reference.find('#'), reference.size());
        SchemaResource* resource = &from;
        if (hash > 0) {
            const auto found = by_uri_.find(absolute_uri(from.base, reference.substr(0, hash)));
            if (found == by_uri_.end()) return nullptr;
            resource = found->second;
        }
        const auto fragment =
            percent_decoded(reference.substr(std::min(hash + 1, reference.size())));
        if (!fragment) return nullptr;
        if (!fragment->empty() && fragment->front() != '/') {
            const auto found = resource->anchors.find(*fragment);
            return found == resource->anchors.end() ? nullptr : found->second;
        }
        boost::json::error_code error;
        const Json* schema = resource->root->find_pointer(*fragment, error);
        if (error || !schema) return nullptr;
        // Compiles a location that the walk did not reach, for example in an unknown keyword. An "$id" above it does not count.
        return node_of(*schema, Where{nullptr, std::string(reference)}, 0, *resource);
    }

    // Refuses a schema that applies itself to the same value ("$ref": "#" in its own "allOf"), which would never end. Every
    // circle has a reference, so that it suffices to start at those.
    void refuse_circles(const SchemaNode& node, const std::string& pointer) {
        if (done_.count(&node) != 0) return;
        if (!open_.insert(&node).second) refuse(pointer, "the schema contains itself without end");
        if (open_.size() > longest_chain) refuse(pointer, "the chain of references is too long");
        const auto visit = [&](const SchemaNode* part) {
            if (part) refuse_circles(*part, pointer);
        };
        visit(node.reference);
        if (node.fields) {
            for (const auto& dependency : node.fields->schemas_with) visit(dependency.second);
        }
        if (const auto* combined = node.combined.get()) {
            for (const auto* parts : {&combined->all, &combined->any, &combined->one}) {
                for (const auto* part : *parts) visit(part);
            }
            visit(combined->unwanted);
            visit(combined->condition);
            visit(combined->then_branch);
            visit(combined->else_branch);
        }
        open_.erase(&node);
        done_.insert(&node);
    }

    CompiledSchema& out_;
    std::unordered_map<const Json*, SchemaNode*> compiled_;
    std::map<std::string, SchemaResource*, std::less<>> by_uri_;
    std::vector<Pending> pending_;
    std::set<const SchemaNode*> open_;
    std::set<const SchemaNode*> done_;
};

CompiledSchema::CompiledSchema(const Json& source) { SchemaCompiler(*this).run(source); }

const SchemaNode* SchemaNode::Fields::property(std::string_view name) const {
    if (!properties) return nullptr;
    const auto found = properties->find(name);
    if (found == properties->end()) return nullptr;
    return property_nodes[static_cast<std::size_t>(found - properties->begin())];
}

bool SchemaNode::Fields::requires_field(std::string_view name) const {
    return required && std::any_of(required->begin(), required->end(), [name](const Json& one) {
               return std::string_view(one.get_string()) == name;
           });
}

std::vector<std::string_view> SchemaNode::type_names() const {
    std::vector<std::string_view> names;
    const Json* type = keywords ? keywords->if_contains("type") : nullptr;
    if (type && type->is_string()) names.emplace_back(type->get_string());
    if (const auto* list = type ? type->if_array() : nullptr) {
        for (const auto& item : *list) names.emplace_back(item.get_string());
    }
    return names;
}

const SchemaNode& SchemaNode::resolved() const {
    const SchemaNode* node = this;
    while (node->reference) node = node->reference;
    return *node;
}

struct SchemaPattern::Compiled {
    BoundedRegex<wchar_t> expression;
};

SchemaPattern::SchemaPattern(std::string_view pattern)
    : compiled_(std::make_shared<const Compiled>(
          Compiled{BoundedRegex<wchar_t>(to_wide(translate(pattern)))})) {}

bool SchemaPattern::found_in(std::string_view text) const {
    try {
        return compiled_->expression.occurs_in(to_wide(text), boost::match_single_line);
    } catch (const std::runtime_error&) {
        return false;
    }
}

}  // namespace cubepi::detail
