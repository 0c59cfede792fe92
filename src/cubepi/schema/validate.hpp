#pragma once

#include <memory>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/schema/issue.hpp>

namespace cubepi {

/// A JSON Schema that values are checked against (draft 7, and of later drafts $defs, prefixItems,
/// dependentRequired and dependentSchemas; "format" is a remark, "unevaluated..." is ignored; references
/// only within the schema).
///
/// Cheap to make and to copy: the schema is compiled at the first validate() or compile(). All members may
/// be called from several threads at once.
class JsonSchema {
public:
    explicit JsonSchema(Json schema);
    ~JsonSchema();
    JsonSchema(const JsonSchema&) = default;
    JsonSchema& operator=(const JsonSchema&) = default;
    JsonSchema(JsonSchema&&) noexcept = default;
    JsonSchema& operator=(JsonSchema&&) noexcept = default;

    /// The schema as it was given.
    const Json& source() const noexcept;
    /// The same, kept alive by what is returned.
    std::shared_ptr<const Json> shared_source() const noexcept;

    /// Compiles now. Throws Error (invalid_argument) that names the place when the schema is no schema.
    void compile() const;

    /// Makes `value` ready and checks it. Empty when it fits.
    ///
    /// Changes `value` in two ways only: missing properties that have a "default" get it, at any depth, and
    /// where the schema does not allow what is there, integral numbers become integers (3.0 -> 3) and strings
    /// that spell exactly a number or boolean become it ("3" -> 3). Throws as compile().
    std::vector<SchemaIssue> validate(Json& value) const;

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace cubepi
