#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/schema/detail/value_path.hpp>

namespace cubepi::detail {

/// The description of why a value does not match a schema (one that passed check_schema). valijson decides whether it
/// matches; this class finds the reasons, and chooses among alternatives.
class SchemaChecker {
public:
    explicit SchemaChecker(const Json& root) : root_(root) {}

    void check(const Json& schema, const Json& value, const ValuePath& path,
               std::vector<SchemaIssue>& issues);
    bool fits(const Json& schema, const Json& value);

    /// Returns false if the walk was cut short because nested alternatives required too many steps.
    bool complete() const noexcept { return steps_ > 0; }

private:
    using Issues = std::vector<SchemaIssue>;

    bool check_type(const JsonObject& schema, const Json& value, const ValuePath& path,
                    Issues& issues);
    bool check_choices(const JsonObject& schema, const Json& value, const ValuePath& path,
                       Issues& issues);
    void check_number(const JsonObject& schema, const Json& value, const ValuePath& path,
                      Issues& issues);
    void check_string(const JsonObject& schema, std::string_view text, const ValuePath& path,
                      Issues& issues);
    void check_array(const JsonObject& schema, const JsonArray& array, const ValuePath& path,
                     Issues& issues);
    void check_items(const JsonObject& schema, const JsonArray& array, const ValuePath& path,
                     Issues& issues);
    void check_object(const JsonObject& schema, const JsonObject& object, const ValuePath& path,
                      Issues& issues);
    void check_properties(const JsonObject& schema, const JsonObject& object, const ValuePath& path,
                          Issues& issues);
    void check_dependencies(const JsonObject& schema, const Json& value, const ValuePath& path,
                            Issues& issues);
    void check_combined(const JsonObject& schema, const Json& value, const ValuePath& path,
                        Issues& issues);
    void check_alternatives(const JsonArray& schemas, bool exactly_one, const Json& value,
                            const ValuePath& path, Issues& issues);
    bool check_tagged(const JsonArray& schemas, const Json& value, const ValuePath& path,
                      Issues& issues);
    const JsonObject* resolved(const Json& schema) const;
    std::string type_words(const Json& schema) const;

    const Json& root_;
    int steps_ = 100000;
};

}  // namespace cubepi::detail
