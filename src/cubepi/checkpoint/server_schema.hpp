#pragma once

#include <optional>

namespace cubepi {

/// The version of the tables that CubePi and CubeLoop share with this library.
inline constexpr int sql_schema_version = 5;
/// The version of this library's own tables, cubepi_native_*.
inline constexpr int sql_native_version = 1;

/// The tables of a database.
struct SqlSchemaStatus {
    std::optional<int> version = {};         ///< of CubePi's tables; absent if there are none
    std::optional<int> native_version = {};  ///< of this library's tables; absent if there are none

    /// Returns true if a store can use the tables.
    bool is_current() const noexcept {
        return version == sql_schema_version && native_version == sql_native_version;
    }
};

}  // namespace cubepi
