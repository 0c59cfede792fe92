#pragma once

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <cubepi/core/json.hpp>

namespace cubepi::detail {

/// The simple part of JSON Schema (types, properties, items, enums, bounds, disjoint alternatives), compiled for fast
/// acceptance. Nearly all arguments of tools are accepted immediately, without the full validation.
class SimpleSchema {
public:
    /// Returns nullptr if the schema uses any other keyword. `schema` must have passed lower_schema.
    static std::unique_ptr<const SimpleSchema> compile(const Json& schema);

    /// Returns true only if `value` is valid unchanged, except for missing properties with a default; `lacks_default`
    /// is set if there is one. False is inconclusive.
    bool accepts(const Json& value, bool& lacks_default) const;

private:
    struct Property;

    bool read(const JsonObject& schema, int depth);
    void read_type(const JsonObject& schema);
    bool read_properties(const JsonObject& schema, int depth);
    bool read_alternatives(const JsonObject& schema, int depth);
    bool accepts_object(const JsonObject& object, bool& lacks_default) const;
    bool accepts_number(const Json& value) const;

    unsigned types_ = 0;  // bits of the allowed kinds
    bool closed_ = false;
    double minimum_ = -std::numeric_limits<double>::infinity();
    double maximum_ = std::numeric_limits<double>::infinity();
    std::vector<Property> properties_;
    std::vector<Json> choices_;
    std::vector<SimpleSchema> alternatives_;  // of disjoint types
    std::vector<SimpleSchema> items_;         // none or one
};

struct SimpleSchema::Property {
    std::string name;
    SimpleSchema schema;
    bool required = false;
    bool has_default = false;
};

}  // namespace cubepi::detail
