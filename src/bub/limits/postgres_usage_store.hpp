#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <bub/limits/usage_store.hpp>
#include <cubepi/sql/postgres_options.hpp>
#include <cubepi/sql/postgres_tables.hpp>

namespace cubepi::detail {
class SqlStore;
}

namespace bub {

/// Returns the tables of usage, bub_usage*.
const cubepi::PostgresTables& postgres_usage_tables();

struct PostgresUsageStoreOptions {
    cubepi::PostgresOptions database = {};
    /// Gateways with the same account count together.
    std::string account = "gateway";
};

/// Counters in a PostgreSQL database that several gateways share, in the tables of postgres_usage_tables(). The time is that of the
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
