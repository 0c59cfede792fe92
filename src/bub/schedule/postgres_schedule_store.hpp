#pragma once

#include <memory>
#include <optional>
#include <string>

#include <bub/schedule/schedule.hpp>
#include <cubepi/sql/postgres_options.hpp>
#include <cubepi/sql/postgres_tables.hpp>

namespace cubepi::detail {
class SqlStore;
}

namespace bub {

/// Returns the tables of schedules, bub_schedule*.
const cubepi::PostgresTables& postgres_schedule_tables();

struct PostgresScheduleStoreOptions {
    cubepi::PostgresOptions database = {};
    /// Gateways with the same account share their schedules.
    std::string account = "gateway";
};

/// Schedules in a PostgreSQL database that several gateways share, in the tables of postgres_schedule_tables(). The time is that of
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
