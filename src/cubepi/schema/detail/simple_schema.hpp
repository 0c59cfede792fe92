#pragma once

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <cubepi/core/json.hpp>

namespace cubepi::detail {

/// The plain part of JSON Schema (types, properties, items, enums, bounds, disjoint alternatives), compiled
/// for a fast yes. Nearly all arguments of tools fit at once, and then nothing else has to look at them.
class SimpleSchema {
public:
    /// nullptr when the schema uses anything beyond that. `schema` must have passed lower_schema.
    static std::unique_ptr<const SimpleSchema> compile(const Json& schema);

    /// True only when `value` fits as it is, apart from properties whose default is missing in it;
    /// `lacks_default` is set when there is one. False says nothing.
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
    std::vector<SimpleSchema> alternatives_;  // each of other types than all others
    std::vector<SimpleSchema> items_;         // none or one
};

struct SimpleSchema::Property {
    std::string name;
    SimpleSchema schema;
    bool required = false;
    bool has_default = false;
};

}  // namespace cubepi::detail
