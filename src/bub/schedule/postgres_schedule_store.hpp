#pragma once

#include <memory>
#include <optional>
#include <string>

#include <bub/schedule/schedule.hpp>
#include <cubepi/core/format_version.hpp>
#include <cubepi/sql/postgres_options.hpp>

namespace cubepi::detail {
class SqlStore;
}

namespace bub {

/// The version of the tables of schedules, bub_schedule*.
inline constexpr int postgres_schedule_version = 1;

/// Returns the SQL that creates the tables, in one transaction, for an operator who runs it with psql.
std::string postgres_schedule_sql();

/// Reads the version of the tables; absent if there are none. Throws CheckpointerError like PostgresScheduleStore.
Task<std::optional<cubepi::FormatVersion>> postgres_schedule_status(
    cubepi::PostgresOptions options);

/// Creates the tables, or migrates those of an older version, and returns the version from before. Several processes may call it at once.
/// The user needs the right to create tables. Throws CheckpointerError(schema_mismatch) for tables of a newer version that this library
/// must not use.
Task<std::optional<cubepi::FormatVersion>> apply_postgres_schedule_schema(
    cubepi::PostgresOptions options);

struct PostgresScheduleStoreOptions {
    cubepi::PostgresOptions database = {};
    /// Gateways with the same account share their schedules.
    std::string account = "gateway";
};

/// Schedules in a PostgreSQL database that several gateways share, in the tables of apply_postgres_schedule_schema(). The time is that of
/// the server, so that all gateways agree on what is due.
class PostgresScheduleStore final : public ScheduleStore {
public:
    explicit PostgresScheduleStore(PostgresScheduleStoreOptions options);
    ~PostgresScheduleStore() override;

    /// Connects now, to detect errors early. Optional.
    Task<> open();

    Task<std::int64_t> now() override;
    Task<bool> add(Schedule schedule) override;
    /// Adds a schedule of another store, once: one that was adopted before and has been removed since is not added again.
    Task<bool> adopt(Schedule schedule);
    Task<std::vector<Schedule>> list(std::string session) override;
    Task<std::optional<Schedule>> find(std::string id) override;
    Task<bool> remove(std::string id) override;
    Task<DueSchedules> due(DuePlace after) override;
    Task<bool> advance(Schedule schedule, std::optional<std::int64_t> planned) override;

private:
    std::string key_of(const std::string& session) const;
    Task<bool> add_once(Schedule schedule, std::string mark);

    const PostgresScheduleStoreOptions options_;
    const std::shared_ptr<cubepi::detail::SqlStore> store_;
};

}  // namespace bub
