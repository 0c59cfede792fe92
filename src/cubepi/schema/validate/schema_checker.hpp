#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/schema/issue.hpp>
#include <cubepi/schema/validate/compiled_schema.hpp>

namespace cubepi::detail {

/// Decides whether values fit a schema, in one of two modes: fits() stops at the first failure and describes nothing,
/// explain() finds all issues and chooses among alternatives. Not thread-safe.
class SchemaChecker {
public:
    using Issues = std::vector<SchemaIssue>;

    /// @param steps bounds the work, which grows exponentially with nested alternatives.
    explicit SchemaChecker(int steps) : steps_(steps) {}

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
    bool spend(int steps);

    int steps_;
    int depth_ = 0;
    std::string_view problem_;
};

}  // namespace cubepi::detail
