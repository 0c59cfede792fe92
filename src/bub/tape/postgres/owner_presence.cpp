#include <bub/tape/postgres/owner_presence.hpp>

#include <utility>

#include <unistd.h>

#include <bub/tape/postgres/tape_tables.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/sql/support/transaction.hpp>

namespace bub::detail {

using cubepi::detail::server_write;
using cubepi::detail::SqlPlan;
using cubepi::detail::SqlResults;
using cubepi::detail::SqlView;

namespace {

/// How long a row shows that its owner is alive, by the clock of the server. As long as the lease of a gateway.
constexpr std::chrono::seconds lease{10};
constexpr std::chrono::milliseconds interval = std::chrono::milliseconds(lease) / 3;

cubepi::PostgresOptions presence_options(cubepi::PostgresOptions options) {
    options.max_connections = 1;
    // The session must not end while its owner is alive.
    options.idle_limit = std::chrono::hours(24 * 365 * 10);
    options.query_timeout = std::min(options.query_timeout, std::chrono::milliseconds(lease));
    return options;
}

/// A transaction on the row. Its lock is that of no tape: the fate of its COMMIT is looked up as "not stored", and it is repeated.
Task<> write_row(std::shared_ptr<cubepi::detail::SqlStore> store, std::int64_t owner,
                 std::string sql) {
    SqlPlan plan;
    plan.locks = {"owner " + std::to_string(owner)};
    auto decide = [owner, sql = std::move(sql)](const SqlView&, SqlBatch& writes) {
        writes.add(sql).integer(owner);
    };
    return server_write(std::move(store), std::move(plan), std::move(decide));
}

}  // namespace

OwnerPresence::OwnerPresence(const cubepi::PostgresOptions& options, std::int64_t owner)
    : owner_(owner),
      process_(getpid()),
      store_(tape_transactions(presence_options(options), owner)) {}

OwnerPresence::~OwnerPresence() {
    if (!thread_.joinable()) return;
    // In a forked child there is no such thread.
    if (process_ != getpid()) {
        thread_.detach();
        return;
    }
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

Task<> OwnerPresence::ensure() {
    const auto self = shared_from_this();
    if (is_fresh()) co_return;
    // Uses the connection, and opens one if it is gone.
    SqlBatch reads;
    reads.add("SELECT {pooled}");
    const SqlResults found = co_await store_->read(std::move(reads));
    if (!found[0].boolean(0, 0)) co_return;
    co_await beat();
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable() && !stopping_) thread_ = std::thread([this] { renew(); });
}

bool OwnerPresence::is_fresh() const {
    const std::lock_guard lock(mutex_);
    return std::chrono::steady_clock::now() < fresh_until_;
}

Task<> OwnerPresence::beat() {
    const auto begin = std::chrono::steady_clock::now();
    co_await write_row(store_, owner_,
                       "WITH old AS (DELETE FROM bub_owners WHERE number <> $1 AND alive_until <"
                       " clock_timestamp() - interval '1 day') INSERT INTO bub_owners (number,"
                       " alive_until) VALUES ($1, clock_timestamp() + interval '" +
                           std::to_string(lease.count()) +
                           " seconds') ON CONFLICT (number) DO UPDATE SET alive_until ="
                           " excluded.alive_until");
    const std::lock_guard lock(mutex_);
    fresh_until_ = begin + lease / 2;
}

void OwnerPresence::renew() {
    for (;;) {
        {
            std::unique_lock lock(mutex_);
            changed_.wait_for(lock, interval, [this] { return stopping_; });
            if (stopping_) break;
        }
        try {
            cubepi::run(beat());
        } catch (...) {
            // The row ends, and with it the turns of this owner, unless a later attempt succeeds.
            continue;
        }
    }
    // Without a server, its row ends by itself.
    if (!is_fresh()) return;
    try {
        cubepi::run(write_row(store_, owner_, "DELETE FROM bub_owners WHERE number = $1"));
    } catch (...) {
        return;
    }
}

std::string is_alive_sql(const std::string& owner) {
    return "(EXISTS (SELECT 1 FROM pg_locks AS l WHERE l.locktype = 'advisory' AND l.granted"
           " AND l.objsubid = 1 AND l.database = (SELECT oid FROM pg_database"
           " WHERE datname = current_database()) AND l.classid::bigint = (" +
           owner + " >> 32) AND l.objid::bigint = (" + owner +
           " & 4294967295)) OR EXISTS (SELECT 1 FROM bub_owners AS o WHERE o.number = " + owner +
           " AND o.alive_until > clock_timestamp()))";
}

}  // namespace bub::detail
