#pragma once

#include <optional>

#include <cubepi/core/format_version.hpp>

namespace cubepi {

/// The version of the tables that CubePi and CubeLoop share with this library.
inline constexpr int sql_schema_version = 5;
/// The version of this library's own tables, cubepi_native_*.
inline constexpr int sql_native_version = 1;

/// The tables of a database.
struct SqlSchemaStatus {
    std::optional<int> version = {};         ///< of CubePi's tables; absent if there are none
    std::optional<int> native_version = {};  ///< of this library's tables; absent if there are none
    /// The oldest version of this library that may use its tables (D208); absent: that of the tables.
    std::optional<int> native_readable_from = {};

    /// Returns the version of this library's tables; absent if there are none.
    std::optional<FormatVersion> native() const noexcept {
        std::optional<FormatVersion> found;
        if (native_version)
            found = FormatVersion{*native_version, native_readable_from.value_or(*native_version)};
        return found;
    }
    /// Returns true if a store can use the tables.
    bool is_current() const noexcept {
        return version == sql_schema_version && is_usable(native(), sql_native_version);
    }
};

}  // namespace cubepi
