#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <cubepi/core/json.hpp>
#include <cubepi/schema/validate/schema_lowering.hpp>

namespace cubepi::detail {

/// A schema compiled for the complete check by valijson, for what SimpleSchema does not decide. It says only whether a value
/// fits; SchemaChecker says why not.
class FullSchema {
public:
    /// Throws Error(invalid_argument) if the schema is invalid.
    static std::unique_ptr<const FullSchema> compile(const LoweredSchema& lowered);
    ~FullSchema();
    FullSchema(const FullSchema&) = delete;
    FullSchema& operator=(const FullSchema&) = delete;

    /// Whether the value contains integers above int64 or NUL characters, which valijson's adapter does not represent: they
    /// are replaced in a copy.
    enum class Copy : std::uint8_t { none, needed };
    /// Returns true if the value fits. If it cannot be checked, returns false and sets `problem`.
    bool accepts(const Json& value, Copy copy, std::string& problem) const;
    bool has_pattern_properties() const noexcept;

private:
    struct Impl;
    explicit FullSchema(std::unique_ptr<Impl> impl);
    const std::unique_ptr<Impl> impl_;
};

}  // namespace cubepi::detail
