#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <bub/limits/usage_store.hpp>
#include <cubepi/core/format_version.hpp>
#include <cubepi/sql/postgres_options.hpp>

namespace cubepi::detail {
class SqlStore;
}

namespace bub {

/// The version of the tables of usage, bub_usage*.
inline constexpr int postgres_usage_version = 1;

/// Returns the SQL that creates the tables, in one transaction, for an operator who runs it with psql.
std::string postgres_usage_sql();

/// Reads the version of the tables; absent if there are none. Throws CheckpointerError like PostgresUsageStore.
Task<std::optional<cubepi::FormatVersion>> postgres_usage_status(cubepi::PostgresOptions options);

/// Creates the tables, or migrates those of an older version, and returns the version from before. Several processes may call it at once.
/// The user needs the right to create tables. Throws CheckpointerError(schema_mismatch) for tables of a newer version that this library
/// must not use.
Task<std::optional<cubepi::FormatVersion>> apply_postgres_usage_schema(
    cubepi::PostgresOptions options);

struct PostgresUsageStoreOptions {
    cubepi::PostgresOptions database = {};
    /// Gateways with the same account count together.
    std::string account = "gateway";
};

/// Counters in a PostgreSQL database that several gateways share, in the tables of apply_postgres_usage_schema(). The time is that of the
/// server, so that all gateways agree on the day.
class PostgresUsageStore final : public UsageStore {
public:
    explicit PostgresUsageStore(PostgresUsageStoreOptions options);
    ~PostgresUsageStore() override;

    /// Connects now, to detect errors early. Optional.
    Task<> open();

    Task<std::int64_t> now() override;
    Task<std::optional<ReachedLimit>> admit(UsageAdmission turn) override;
    Task<> add(std::string day, UsageByCounter amounts) override;
    Task<std::vector<std::pair<std::string, UsageAmounts>>> list(std::string day, std::size_t most,
                                                                 std::string search = {}) override;

private:
    std::string key_of(const std::string& day, const std::string& counter) const;

    const PostgresUsageStoreOptions options_;
    const std::shared_ptr<cubepi::detail::SqlStore> store_;
};

}  // namespace bub
