#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cubepi/sql/support/pool.hpp>

namespace cubepi::detail {

/// The first object of a transaction as an earlier one or a read has left it.
struct SqlKnown {
    std::string write_id = {};  ///< its last write
    /// Fails under the lock if there was another write since.
    SqlQuery guard;
};

/// The first part of a transaction.
struct SqlPlan {
    /// The names of what it locks, such as threads. The first is that of the object whose last write it becomes.
    std::vector<std::string> locks = {};
    /// Reads the first object under the lock. Its result has one row, which begins with the id of the last write and {now}. Absent: a
    /// statement that reads these two.
    std::optional<SqlQuery> object = {};
    /// Present if the caller knows the object, and there are no `reads`. The transaction is then decided without reading, and takes one
    /// round trip, which cannot be cancelled. If it fails, it is decided from the object as it is.
    std::optional<SqlKnown> known = {};
    SqlBatch reads = {};
    /// True if it removes the first object.
    bool removes = false;
};

/// The state from which a transaction decides what to write.
struct SqlView {
    const SqlResult& object;    ///< of SqlPlan::object; without a row: it is SqlPlan::known
    const SqlResults& results;  ///< of SqlPlan::reads
    double now = 0;             ///< Unix seconds, by the clock for leases; 0 if the object is known
    /// The id of this write. A statement that writes the row of the first object anyway stores it; if no statement has this
    /// parameter, SqlWriteIds::store does.
    const std::string& id;
};

/// Adds the statements that a transaction writes; none rolls it back. Throws to roll it back. May be called again when the
/// transaction has to be repeated.
using SqlDecide = std::function<void(const SqlView& view, SqlBatch& writes)>;

/// Executes transactions on a database. Thread-safe.
class SqlTransactions {
public:
    virtual ~SqlTransactions() = default;
    /// Executes the statements in one snapshot.
    virtual Task<SqlResults> read(SqlBatch reads) = 0;
    /// `decide` may be called on another thread, and may outlive a call that is cancelled.
    virtual Task<> write(SqlPlan plan, SqlDecide decide) = 0;
};

/// Transactions on a database server.
///
/// A transaction that writes takes two round trips: one locks and reads, one writes and commits. It takes one if the caller knows what it
/// would read (SqlPlan::known). If the connection breaks before COMMIT was sent, the transaction is repeated. If it breaks after, its fate
/// is looked up: every transaction stores a new id as the last write of its object, so that under the lock of the object the id of this
/// transaction means that it was stored, and the id from before that it was not. One that took one round trip may then still be on its way
/// to the server, so the lookup replaces the id that its guard requires. (The server's own transaction ids do not tell: after a crash or a
/// failover the id of a lost transaction may be used again.)
///
/// A write that decides nothing from what it reads, and that changes nothing when it is repeated, is execute(): one round trip.
class SqlStore final : public SqlTransactions, public std::enable_shared_from_this<SqlStore> {
public:
    SqlStore(SqlOptions options, std::shared_ptr<const SqlDriver> driver,
             std::shared_ptr<const SqlSchema> schema);

    /// Executes the statements in one snapshot and one round trip.
    Task<SqlResults> read(SqlBatch reads) override;
    /// Does the same, but each statement sees what was committed before it.
    Task<SqlResults> read_in_order(SqlBatch reads);
    Task<> write(SqlPlan plan, SqlDecide decide) override;
    /// Executes statements that write, in one transaction and one round trip. If the connection breaks they are executed again, whether
    /// they were stored or not: they must have the same effect then.
    Task<SqlResults> execute(SqlBatch statements);

    const SqlOptions& options() const noexcept { return pool_->options(); }
    const SqlDriver& driver() const noexcept { return pool_->driver(); }
    const SqlSchema& schema() const noexcept { return pool_->schema(); }

private:
    struct LastWrite {
        bool is_known = false;  ///< the object exists
        std::optional<std::string> id = {};
    };
    /// One execution of a transaction.
    struct Writing {
        std::optional<std::string> before = {};
        std::string id = {};
        bool commit_sent = false;
    };
    Task<> write_once(SqlPlan& plan, const SqlDecide& decide, Writing& writing);
    /// The same with SqlPlan::known. Returns false if nothing was stored, and the object must be read.
    Task<bool> write_known(const SqlPlan& plan, const SqlDecide& decide, Writing& writing);
    void lock(const SqlPlan& plan, const SqlLease& lease, SqlBatch& batch) const;
    /// Adds the end of the transaction to its writes, and executes them. `has_begun`: with BEGIN.
    Task<> commit(SqlLease& lease, const SqlPlan& plan, Writing& writing, SqlBatch writes,
                  bool has_begun);
    void store_id(const SqlPlan& plan, const Writing& writing, SqlBatch& writes) const;
    enum class Access : std::uint8_t { reads_snapshot, reads_in_order, writes };
    Task<SqlResults> run_batch(SqlBatch statements, Access access);
    Task<SqlResults> repeat(SqlBatch statements, Access access);
    /// Returns true if the transaction was stored, false if it was not and cannot be any more. Throws if that cannot be determined.
    Task<bool> was_stored(const SqlPlan& plan, const Writing& writing, std::string reason);
    /// `change`: a statement that is executed with it, under the locks.
    Task<LastWrite> last_write(std::vector<std::string> locks, std::optional<SqlQuery> change);
    double lease_time(double server_time) const;

    std::shared_ptr<SqlPool> pool_;
};

/// Returns `convert(SqlResults)` of the statements.
template <class F>
auto server_read(std::shared_ptr<SqlTransactions> store, SqlBatch reads, F convert)
    -> Task<std::invoke_result_t<F&, const SqlResults&>> {
    const SqlResults results = co_await store->read(std::move(reads));
    co_return convert(results);
}

/// Executes a transaction and returns what `decide(view, writes)` returned.
template <class F>
auto server_write(std::shared_ptr<SqlTransactions> store, SqlPlan plan, F decide)
    -> Task<std::invoke_result_t<F&, const SqlView&, SqlBatch&>> {
    using R = std::invoke_result_t<F&, const SqlView&, SqlBatch&>;
    if constexpr (std::is_void_v<R>) {
        SqlDecide step = std::move(decide);
        co_await store->write(std::move(plan), std::move(step));
    } else {
        struct Decision {
            F decide;
            std::optional<R> result = {};
        };
        const auto decision = std::make_shared<Decision>(Decision{std::move(decide)});
        SqlDecide step = [decision](const SqlView& view, SqlBatch& writes) {
            decision->result.emplace(decision->decide(view, writes));
        };
        co_await store->write(std::move(plan), std::move(step));
        co_return std::move(*decision->result);
    }
}

}  // namespace cubepi::detail
