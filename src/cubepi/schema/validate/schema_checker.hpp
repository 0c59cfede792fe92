#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/schema/issue.hpp>

namespace cubepi::detail {

/// A regular expression of a JSON Schema ("pattern"), over Unicode characters. Copies share it; matching is
/// thread-safe.
class SchemaPattern {
public:
    /// Throws std::runtime_error if `pattern` is not a regular expression (ECMAScript).
    explicit SchemaPattern(std::string_view pattern);

    /// Returns false also if the search was abandoned because it would take too long.
    bool found_in(std::string_view text) const;

private:
    struct Compiled;
    std::shared_ptr<const Compiled> compiled_;
};

/// The types of JSON Schema as bits. An integer is a number too.
namespace json_types {
inline constexpr unsigned null = 1;
inline constexpr unsigned boolean = 2;
inline constexpr unsigned integer = 4;
inline constexpr unsigned number = 8;
inline constexpr unsigned string = 16;
inline constexpr unsigned array = 32;
inline constexpr unsigned object = 64;
inline constexpr unsigned any = 127;
}  // namespace json_types

/// A keyword that compares a number with a number, or the size of a string, array or object.
struct LimitRule {
    enum class Measures : std::uint8_t { number, characters, items, fields };
    enum class Compares : std::uint8_t { at_least, more_than, at_most, less_than, multiple_of };
    std::string_view keyword;
    Measures measures;
    Compares compares;
};

struct SchemaNode;

/// A schema with an "$id" of its own, or the root: the scope of anchors.
struct SchemaResource {
    const Json* root = nullptr;
    std::string base;  ///< its URI, without a fragment
    std::map<std::string, const SchemaNode*, std::less<>> anchors;
    std::map<std::string, const SchemaNode*, std::less<>> dynamic_anchors;
};

/// The keywords for strings and numbers are few, so they have no group.
struct SchemaNode {
    struct Limit {
        const LimitRule* rule;
        const Json* source;
        double value;
    };

    struct Items {
        std::vector<const SchemaNode*> first;  ///< "prefixItems"
        const SchemaNode* rest = nullptr;      ///< "items"
        const SchemaNode* contains = nullptr;
        std::uint64_t least_contained = 1;
        std::optional<std::uint64_t> most_contained;
        const SchemaNode* unevaluated = nullptr;
        bool unique = false;
    };

    struct Fields {
        const JsonArray* required = nullptr;
        const JsonObject* properties = nullptr;         ///< the keyword
        std::vector<const SchemaNode*> property_nodes;  ///< in the order of `properties`
        std::vector<std::pair<SchemaPattern, const SchemaNode*>> patterns;
        const SchemaNode* additional = nullptr;
        const SchemaNode* names = nullptr;
        std::vector<std::pair<std::string_view, const JsonArray*>> required_with;
        std::vector<std::pair<std::string_view, const SchemaNode*>> schemas_with;
        const SchemaNode* unevaluated = nullptr;

        /// Returns the schema of the property `name`, or nullptr.
        const SchemaNode* property(std::string_view name) const;
        bool requires_field(std::string_view name) const;
    };

    /// Schemas that apply to the same value.
    struct Combined {
        std::vector<const SchemaNode*> all;
        std::vector<const SchemaNode*> any;
        std::vector<const SchemaNode*> one;
        const SchemaNode* unwanted = nullptr;  ///< "not"
        const SchemaNode* condition = nullptr;
        const SchemaNode* then_branch = nullptr;
        const SchemaNode* else_branch = nullptr;
    };

    const JsonObject* keywords = nullptr;  ///< null for true and false
    const SchemaResource* resource = nullptr;
    unsigned types = json_types::any;  ///< none for false
    const JsonArray* choices = nullptr;
    const Json* constant = nullptr;
    const Json* default_value = nullptr;
    const SchemaNode* reference = nullptr;
    const SchemaNode* dynamic_reference = nullptr;
    std::string_view
        dynamic_anchor;  ///< empty if "$dynamicRef" does not refer to a "$dynamicAnchor"
    std::vector<Limit> limits;
    std::optional<SchemaPattern> pattern;
    std::string_view pattern_text;
    std::unique_ptr<Items> items;
    std::unique_ptr<Fields> fields;
    std::unique_ptr<Combined> combined;

    bool accepts_nothing() const noexcept { return types == 0; }
    /// Returns the names in "type".
    std::vector<std::string_view> type_names() const;
    /// Returns the schema at the end of a chain of "$ref", or this one.
    const SchemaNode& resolved() const;
};

/// A JSON Schema whose keywords are checked and whose references are resolved. It refers to the JSON that it was
/// compiled from.
///
/// The keywords are those of draft 2020-12 and their earlier forms: "items" with a list and "additionalItems",
/// "dependencies", "definitions", and booleans as "exclusiveMinimum" and "exclusiveMaximum". Unknown keywords, "format"
/// and the vocabularies of meta-schemas are ignored.
class CompiledSchema {
public:
    /// Throws Error (invalid_argument) that names the location if the schema is invalid or refers to another document.
    explicit CompiledSchema(const Json& source);
    CompiledSchema(const CompiledSchema&) = delete;
    CompiledSchema& operator=(const CompiledSchema&) = delete;

    const SchemaNode& root() const noexcept { return nodes_.front(); }

private:
    friend class SchemaCompiler;
    std::deque<SchemaNode> nodes_;
    std::deque<SchemaResource> resources_;
};

/// The number of issues at which an explanation ends.
inline constexpr std::size_t most_explained_issues = 1000;

/// Decides whether values fit a schema, in one of two modes: fits() stops at the first failure and describes nothing,
/// explain() finds up to `most_explained_issues` and chooses among alternatives. Not thread-safe.
class SchemaChecker {
public:
    using Issues = std::vector<SchemaIssue>;

    /// @param steps bounds the work, which grows exponentially with nested alternatives.
    explicit SchemaChecker(std::size_t steps) : steps_(steps) {}

    /// False also if the check was abandoned; see problem().
    bool fits(const SchemaNode& schema, const Json& value);
    /// Returns the distinct issues, which are empty if the value fits or the check was abandoned.
    Issues explain(const SchemaNode& schema, const Json& value);

    /// The reason why a check was abandoned, or empty.
    std::string_view problem() const noexcept { return problem_; }

private:
    // The resources that were entered on the way to a schema, for "$dynamicRef".
    struct Scope {
        const Scope* outer;
        const SchemaResource* resource;
    };
    // Which fields or items of a value were evaluated, by their position. Collected only for "unevaluatedProperties" and
    // "unevaluatedItems".
    using Evaluated = std::vector<bool>;
    struct Visit;

    bool check(const SchemaNode& node, const Json& value, const ValuePath& path, const Scope* scope,
               Evaluated* evaluated, Issues* issues);
    void check_by_type(Visit& visit);
    bool check_type(Visit& visit);
    bool check_choices(Visit& visit);
    void check_limits(Visit& visit);
    void check_items(Visit& visit, const JsonArray& array);
    void check_unique(Visit& visit, const JsonArray& array);
    void check_contained(Visit& visit, const JsonArray& array);
    void check_fields(Visit& visit, const JsonObject& object);
    void check_each_field(Visit& visit, const JsonObject& object);
    void check_dependencies(Visit& visit, const JsonObject& object);
    void check_combined(Visit& visit);
    void check_alternatives(Visit& visit, const std::vector<const SchemaNode*>& schemas,
                            bool exactly_one);
    bool check_tagged(Visit& visit, const std::vector<const SchemaNode*>& schemas);
    void check_unevaluated(Visit& visit);
    bool apply(Visit& visit, const SchemaNode& schema, Issues* issues);
    void require(Visit& visit, const SchemaNode& schema);
    bool child_fits(const Visit& visit, const SchemaNode& schema, const Json& value);
    void check_child(Visit& visit, const SchemaNode& schema, const Json& value,
                     const ValuePath& path);
    bool spend(std::size_t steps);

    std::size_t steps_;
    int depth_ = 0;
    std::string_view problem_;
};

}  // namespace cubepi::detail
