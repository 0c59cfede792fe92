#pragma once

#include <memory>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/schema/issue.hpp>

namespace cubepi {

/// A JSON Schema for validating values: draft 2020-12, and of earlier drafts lists as "items" with "additionalItems",
/// "dependencies", "definitions", and booleans as "exclusiveMinimum" and "exclusiveMaximum". "format" is an annotation;
/// references are followed within the schema only.
///
/// Cheap to create and to copy: the schema is compiled by the first validate() or compile(). Thread-safe.
class JsonSchema {
public:
    explicit JsonSchema(Json schema);
    ~JsonSchema();
    JsonSchema(const JsonSchema&) = default;
    JsonSchema& operator=(const JsonSchema&) = default;
    JsonSchema(JsonSchema&&) noexcept = default;
    JsonSchema& operator=(JsonSchema&&) noexcept = default;

    /// Returns the schema as passed to the constructor.
    const Json& source() const noexcept;
    /// Returns the same, with shared ownership.
    std::shared_ptr<const Json> shared_source() const noexcept;

    /// Compiles the schema. Throws Error (invalid_argument) that names the location if the schema is invalid.
    void compile() const;

    /// Normalizes `value` and validates it. Returns nothing if it is valid.
    ///
    /// Changes `value` in two ways only: inserts the "default" of missing properties, at any depth, and, where the
    /// schema does not allow the value, converts integral numbers to integers (3.0 -> 3) and strings that contain
    /// exactly a number or boolean to it ("3" -> 3), and removes properties that are null and not required. Defaults of
    /// more than 8 MiB together are an issue. Returns about 1,000 issues at most. Throws like compile().
    std::vector<SchemaIssue> validate(Json& value) const;

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace cubepi
