#include <memory>
#include <string>
#include <utility>

#include <bub/channel/account_lease.hpp>
#include <bub/channel/delivery/postgres_tables.hpp>
#include <bub/channel/postgres_delivery_log.hpp>
#include <cubepi/agent/claim_owner.hpp>
#include <cubepi/core/runtime.hpp>

// Leases of accounts that one gateway at a time may poll (D236), by the clock of the database.

namespace bub {

using namespace detail;

namespace {

class TableLease final : public AccountLease {
public:
    TableLease(std::shared_ptr<DeliveryTables> tables, std::string name)
        : tables_(std::move(tables)),
          name_(std::move(name)),
          holder_(tables_->store()->options().runtime->ids->next()) {}

    Task<State> take() override;
    Task<> release() override;

private:
    const std::shared_ptr<DeliveryTables> tables_;
    const std::string name_;
    const std::string holder_;
};

Task<AccountLease::State> TableLease::take() {
    const std::string account = tables_->options().account;
    const auto lease = static_cast<double>(tables_->options().lease.count());
    const cubepi::ClaimOwner here = cubepi::current_process_owner();
    cubepi::detail::SqlPlan plan;
    plan.reads
        .add(
            "INSERT INTO bub_delivery_leases AS l (account, name, holder, host, boot_id, pid,"
            " process_start, lease_until) VALUES ($1, $2, $3, $4, $5, $6, $7, clock_timestamp() +"
            " $8 * interval '1 millisecond') ON CONFLICT (account, name) DO UPDATE SET holder ="
            " excluded.holder, host = excluded.host, boot_id = excluded.boot_id, pid ="
            " excluded.pid, process_start = excluded.process_start, lease_until ="
            " excluded.lease_until WHERE l.holder = excluded.holder OR l.lease_until <="
            " clock_timestamp()")
        .text(account)
        .text(name_)
        .text(holder_)
        .text(here.host)
        .text(here.boot_id)
        .integer(here.pid)
        .integer(here.process_start)
        .number(lease);
    plan.reads
        .add(
            "SELECT holder, host, boot_id, pid, process_start, extract(epoch FROM lease_until -"
            " clock_timestamp())::float8 FROM bub_delivery_leases WHERE account = $1 AND name = $2")
        .text(account)
        .text(name_);
    auto decide = [account, name = name_, holder = holder_](const cubepi::detail::SqlView& view,
                                                            SqlBatch& writes) {
        const SqlResult& row = view.results[1];
        State state;
        // Its holder has released it meanwhile.
        if (row.rows() == 0) return state;
        state.is_held = row.string(0, 0) == holder;
        state.time = std::chrono::duration_cast<std::chrono::nanoseconds>(
            std::chrono::duration<double>(row.number(0, 5)));
        cubepi::ClaimOwner owner;
        owner.host = row.string(0, 1);
        owner.boot_id = row.string(0, 2);
        owner.pid = row.integer(0, 3);
        owner.process_start = row.integer(0, 4);
        const bool is_dead = !state.is_held && cubepi::is_dead_owner(owner);
        if (is_dead) state.time = {};
        // A transaction without a write is rolled back.
        writes
            .add(
                "UPDATE bub_delivery_leases SET lease_until = clock_timestamp() WHERE account = $1"
                " AND name = $2 AND holder = $3 AND $4 <> 0")
            .text(account)
            .text(name)
            .text(row.string(0, 0))
            .integer(is_dead ? 1 : 0);
        return state;
    };
    return cubepi::detail::server_write(tables_->store(), std::move(plan), std::move(decide));
}

Task<> TableLease::release() {
    cubepi::detail::SqlPlan plan;
    auto decide = [account = tables_->options().account, name = name_, holder = holder_](
                      const cubepi::detail::SqlView&, SqlBatch& writes) {
        writes
            .add("DELETE FROM bub_delivery_leases WHERE account = $1 AND name = $2 AND holder = $3")
            .text(account)
            .text(name)
            .text(holder);
    };
    return cubepi::detail::server_write(tables_->store(), std::move(plan), std::move(decide));
}

}  // namespace

std::shared_ptr<AccountLease> PostgresDeliveryLog::account_lease(std::string name) {
    return std::make_shared<TableLease>(tables_, std::move(name));
}

}  // namespace bub
