#pragma once

#include <memory>
#include <string_view>

namespace cubepi::detail {

/// A regular expression of a JSON Schema ("pattern"), over Unicode characters. Copies share it; matching is
/// thread-safe.
class SchemaPattern {
public:
    /// Throws std::runtime_error if `pattern` is not a regular expression.
    explicit SchemaPattern(std::string_view pattern);

    /// Returns false also if the search was abandoned because it would take too long.
    bool found_in(std::string_view text) const;

private:
    struct Compiled;
    std::shared_ptr<const Compiled> compiled_;
};

}  // namespace cubepi::detail
