#include <bub/tape/postgres/tape_tables.hpp>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include <unistd.h>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/timeout.hpp>
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
/// How long the end of an owner may wait for the server.
constexpr std::chrono::seconds end_limit{1};

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

/// An SQL condition: a session has the lock of the owner.
std::string has_lock_sql(const std::string& owner) {
    return "EXISTS (SELECT 1 FROM pg_locks AS l WHERE l.locktype = 'advisory' AND l.granted"
           " AND l.objsubid = 1 AND l.database = (SELECT oid FROM pg_database"
           " WHERE datname = current_database()) AND l.classid::bigint = (" +
           owner + " >> 32) AND l.objid::bigint = (" + owner + " & 4294967295))";
}

}  // namespace

/// The thread that renews the row, and what it shares with others.
struct OwnerPresence::Renewal {
    std::mutex mutex;
    std::condition_variable stopped;
    std::stop_source stop;
    std::chrono::steady_clock::time_point fresh_until = {};
    std::thread thread;
};

OwnerPresence::OwnerPresence(const cubepi::PostgresOptions& options, std::int64_t owner)
    : owner_(owner),
      process_(getpid()),
      store_(tape_transactions(presence_options(options), owner)),
      renewal_(std::make_unique<Renewal>()) {}

OwnerPresence::~OwnerPresence() {
    // A forked child has no such thread, but its copy of the condition variable would wait for it, for ever, when it is destroyed.
    if (process_ != getpid()) {
        (void)renewal_.release();
        return;
    }
    if (!renewal_->thread.joinable()) return;
    {
        const std::lock_guard lock(renewal_->mutex);
        renewal_->stop.request_stop();
    }
    renewal_->stopped.notify_all();
    renewal_->thread.join();
}

Task<> OwnerPresence::ensure() {
    const auto self = shared_from_this();
    // In a forked child, which the store refuses, the mutex may be locked for ever.
    if (process_ == getpid() && is_fresh()) co_return;
    // Uses the connection, and opens one if it is gone.
    SqlBatch reads;
    reads.add("SELECT {pooled}");
    const SqlResults found = co_await store_->read(std::move(reads));
    if (!found[0].boolean(0, 0)) co_return;
    co_await beat();
    const std::lock_guard lock(renewal_->mutex);
    if (!renewal_->thread.joinable()) renewal_->thread = std::thread([this] { renew(); });
}

bool OwnerPresence::is_fresh() const {
    const std::lock_guard lock(renewal_->mutex);
    return std::chrono::steady_clock::now() < renewal_->fresh_until;
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
    const std::lock_guard lock(renewal_->mutex);
    renewal_->fresh_until = begin + lease / 2;
}

void OwnerPresence::renew() {
    const std::stop_token stop = renewal_->stop.get_token();
    for (;;) {
        {
            std::unique_lock lock(renewal_->mutex);
            renewal_->stopped.wait_for(lock, interval, [&stop] { return stop.stop_requested(); });
        }
        if (stop.stop_requested()) break;
        try {
            Task<> beating = beat();
            cubepi::run(cubepi::cancel_on(stop, std::move(beating)));
        } catch (...) {
            // The row ends, and with it the turns of this owner, unless a later attempt succeeds.
            continue;
        }
    }
    // Without a server, its row ends by itself.
    if (!is_fresh()) return;
    try {
        Task<> removal = write_row(store_, owner_, "DELETE FROM bub_owners WHERE number = $1");
        cubepi::Clock& clock = *store_->options().runtime->clock;
        cubepi::run(cubepi::with_timeout(clock, end_limit, std::move(removal)));
    } catch (...) {
        return;
    }
}

std::string is_alive_sql(const std::string& owner) {
    return "(" + has_lock_sql(owner) +
           " OR EXISTS (SELECT 1 FROM bub_owners AS o WHERE o.number = " + owner +
           " AND o.alive_until > clock_timestamp()))";
}

std::string may_be_alive_sql(const std::string& owner) {
    return "(" + has_lock_sql(owner) +
           " OR EXISTS (SELECT 1 FROM bub_owners AS o WHERE o.number = " + owner + "))";
}

}  // namespace bub::detail
