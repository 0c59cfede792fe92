#include <cubepi/sql/support/transaction.hpp>

#include <algorithm>
#include <chrono>

#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>

namespace cubepi::detail {

namespace {

constexpr int most_attempts = 4;

/// Decides whether a transaction that was not stored is repeated.
class Repetition {
public:
    /// `limit`: how long a server may take to restart.
    Repetition(Clock& clock, std::chrono::milliseconds limit) : clock_(clock), limit_(limit) {}

    bool allows(const SqlFailure& failure) {
        ++attempts_;
        if (failure.follows_loss()) was_lost_ = true;
        if (is_connecting(failure)) {
            // A server that was there a moment ago restarts. Another one may not exist.
            return (was_lost_ || failure.is_starting()) && has_time(failure);
        }
        return failure.is_transient() && attempts_ < most_attempts;
    }
    /// How long to wait first: not at all, unless the server has to start. A server that crashes accepts connections until it
    /// notices, so one that was lost again is repeated later, too.
    std::chrono::milliseconds delay(const SqlFailure& failure) const {
        const bool is_lost_again = failure.kind() == SqlFailureKind::lost && attempts_ > 1;
        const bool waits = is_connecting(failure) || is_lost_again;
        return std::chrono::milliseconds(waits ? 25 << std::min(attempts_, 6) : 0);
    }
    int attempts() const noexcept { return attempts_; }

private:
    static bool is_connecting(const SqlFailure& failure) {
        // Not a password that is wrong, for instance: such a failure has a code.
        const bool is_unreachable =
            failure.kind() == SqlFailureKind::connect && failure.code().empty();
        return is_unreachable || failure.is_starting();
    }
    bool has_time(const SqlFailure& failure) {
        const Clock::time_point now = clock_.now();
        if (!deadline_) deadline_ = deadline_after(now, limit_);
        return now + delay(failure) < *deadline_;
    }

    Clock& clock_;
    const std::chrono::milliseconds limit_;
    std::optional<Clock::time_point> deadline_;
    int attempts_ = 0;
    bool was_lost_ = false;
};

/// Returns true if a transaction that met a read-only server is repeated.
bool leaves_replica(SqlPool& pool, const Repetition& repetition) {
    // After a failover the other connections are to the former primary, too.
    pool.close_idle();
    return repetition.attempts() == 1;
}

std::string first_of(const std::vector<std::string>& locks) {
    return locks.empty() ? std::string() : locks.front();
}

SqlBatch one_statement(const char* sql) {
    SqlBatch batch;
    batch.add(sql);
    return batch;
}

bool has_parameter(const SqlBatch& batch, const std::string& text) {
    return std::any_of(batch.queries().begin(), batch.queries().end(), [&](const SqlQuery& query) {
        return std::any_of(query.values().begin(), query.values().end(),
                           [&](const SqlValue& value) { return value.text == text; });
    });
}

void erase_front(SqlResults& results, std::size_t count) {
    results.erase(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(count));
}

}  // namespace

SqlStore::SqlStore(SqlOptions options, std::shared_ptr<const SqlDriver> driver,
                   std::shared_ptr<const SqlSchema> schema)
    : pool_(std::make_shared<SqlPool>(std::move(options), std::move(driver), std::move(schema))) {}

double SqlStore::lease_time(double server_time) const {
    if (!options().lease_clock) return server_time;
    const auto now = options().lease_clock->wall().time_since_epoch();
    return std::chrono::duration<double>(now).count();
}

Task<SqlResults> SqlStore::run_batch(SqlBatch statements, Access access) {
    const std::unique_ptr<SqlLease> lease = co_await pool_->acquire();
    SqlBatch batch;
    // One statement has one view of the tables without a transaction, too; behind a pooler the settings need one.
    const bool is_alone = statements.size() == 1 && !(*lease)->shares_sessions();
    const bool is_whole =
        is_alone || (access != Access::reads_snapshot && (*lease)->commits_batches());
    if (!is_whole) {
        if (access == Access::reads_snapshot) {
            driver().begin_read(batch);
        } else {
            driver().begin_write(batch);
        }
        pool_->add_settings(batch, *lease);
    }
    const std::size_t own = batch.size();
    batch.add_all(statements);
    if (!is_whole) batch.add("COMMIT");
    SqlResults results = co_await (*lease)->exchange(std::move(batch));
    erase_front(results, own);
    if (!is_whole) results.pop_back();
    co_return results;
}

Task<SqlResults> SqlStore::repeat(SqlBatch statements, Access access) {
    const auto self = shared_from_this();
    Repetition repetition(pool_->clock(), options().connect_timeout);
    bool may_be_stored = false;
    for (;;) {
        SqlBatch batch = statements;
        Outcome<SqlResults> results = co_await outcome_of(run_batch(std::move(batch), access));
        if (results.ok()) co_return std::move(results).value();
        const SqlFailure* failure = as_server_failure(results.failure());
        if (!failure) results.rethrow();
        bool repeat = repetition.allows(*failure);
        if (access == Access::writes) {
            if (failure->leaves_commit_unknown()) may_be_stored = true;
            if (failure->is_read_only()) repeat = leaves_replica(*pool_, repetition);
        }
        log_failure(pool_->log(), driver(), *failure, repeat);
        if (!repeat && may_be_stored) throw_unknown_fate(driver(), {}, failure->what());
        if (!repeat) throw_checkpointer_error(driver(), schema(), *failure, {});
        co_await pool_->clock().sleep_for(repetition.delay(*failure));
    }
}

Task<SqlResults> SqlStore::read(SqlBatch reads) {
    return repeat(std::move(reads), Access::reads_snapshot);
}

Task<SqlResults> SqlStore::read_in_order(SqlBatch reads) {
    return repeat(std::move(reads), Access::reads_in_order);
}

Task<SqlResults> SqlStore::execute(SqlBatch statements) {
    return repeat(std::move(statements), Access::writes);
}

Task<> SqlStore::write_once(SqlPlan& plan, const SqlDecide& decide, Writing& writing) {
    if (plan.known) {
        const bool is_stored = co_await write_known(plan, decide, writing);
        if (is_stored) co_return;
        plan.known.reset();
        writing = Writing();
    }
    const std::unique_ptr<SqlLease> lease = co_await pool_->acquire();
    SqlBatch first;
    driver().begin_write(first);
    lock(plan, *lease, first);
    if (plan.object) {
        first.add(*plan.object);
    } else {
        first.add("SELECT " + schema().write_ids().before + ", {now}").text(first_of(plan.locks));
    }
    const std::size_t own = first.size();
    first.add_all(plan.reads);
    Outcome<SqlResults> read = co_await outcome_of((*lease)->exchange(std::move(first)));
    std::exception_ptr refused = read.failure();
    SqlBatch writes;
    if (!refused) {
        SqlResults& results = read.value();
        const SqlResult object = std::move(results[own - 1]);
        erase_front(results, own);
        writing.before = object.optional_string(0, 0);
        writing.id = options().runtime->ids->next();
        try {
            decide(SqlView{object, results, lease_time(object.number(0, 1)), writing.id}, writes);
        } catch (...) {
            refused = std::current_exception();
        }
    }
    if (!refused && !writes.empty()) {
        Outcome<> written =
            co_await outcome_of(commit(*lease, plan, writing, std::move(writes), true));
        if (written.ok()) co_return;
        refused = written.failure();
    }
    const SqlFailure* failure = as_server_failure(refused);
    // The connection is closed then, which rolls the transaction back.
    if (is_cancellation(refused) || (failure && failure->kind() != SqlFailureKind::server))
        std::rethrow_exception(refused);
    writing.commit_sent = false;
    SqlBatch rollback = one_statement("ROLLBACK");
    (void)co_await outcome_of((*lease)->exchange(std::move(rollback)));
    if (refused) std::rethrow_exception(refused);
}

Task<bool> SqlStore::write_known(const SqlPlan& plan, const SqlDecide& decide, Writing& writing) {
    writing.before = plan.known->write_id;
    writing.id = options().runtime->ids->next();
    SqlBatch writes;
    try {
        const SqlResult none;
        decide(SqlView{none, {}, 0, writing.id}, writes);
    } catch (...) {
        // The object may have changed.
        co_return false;
    }
    if (writes.empty()) co_return false;
    const std::unique_ptr<SqlLease> lease = co_await pool_->acquire();
    SqlBatch batch;
    const bool has_begin = !(*lease)->commits_batches();
    if (has_begin) driver().begin_write(batch);
    lock(plan, *lease, batch);
    batch.add(plan.known->guard);
    batch.add_all(std::move(writes));
    const Outcome<> written =
        co_await outcome_of(commit(*lease, plan, writing, std::move(batch), has_begin));
    if (written.ok()) co_return true;
    const SqlFailure* failure = as_server_failure(written.failure());
    if (!failure || failure->kind() != SqlFailureKind::server) written.rethrow();
    writing.commit_sent = false;
    if (has_begin) {
        SqlBatch rollback = one_statement("ROLLBACK");
        (void)co_await outcome_of((*lease)->exchange(std::move(rollback)));
    }
    // The next transaction would wait for the lock as long.
    if (failure->condition() == SqlCondition::lock_timeout) written.rethrow();
    co_return false;
}

void SqlStore::lock(const SqlPlan& plan, const SqlLease& lease, SqlBatch& batch) const {
    pool_->add_settings(batch, lease);
    schema().lock(batch, plan.locks);
}

Task<> SqlStore::commit(SqlLease& lease, const SqlPlan& plan, Writing& writing, SqlBatch writes,
                        bool has_begun) {
    store_id(plan, writing, writes);
    schema().end_write(writes, plan.locks);
    if (has_begun) writes.add("COMMIT");
    writing.commit_sent = true;
    (void)co_await lease->exchange_to_the_end(std::move(writes));
}

Task<> SqlStore::write(SqlPlan plan, SqlDecide decide) {
    const auto self = shared_from_this();
    const std::string id = first_of(plan.locks);
    Repetition repetition(pool_->clock(), options().connect_timeout);
    for (;;) {
        Writing state;
        Outcome<> done = co_await outcome_of(write_once(plan, decide, state));
        if (done.ok()) co_return;
        const SqlFailure* failure = as_server_failure(done.failure());
        if (!failure) done.rethrow();
        bool repeat = repetition.allows(*failure);
        if (state.commit_sent && failure->leaves_commit_unknown()) {
            const bool stored = co_await was_stored(plan, state, failure->what());
            if (stored) co_return;
            plan.known.reset();
            repeat = repetition.attempts() < most_attempts;
        } else if (failure->is_read_only()) {
            repeat = leaves_replica(*pool_, repetition);
        }
        log_failure(pool_->log(), driver(), *failure, repeat);
        if (!repeat) throw_checkpointer_error(driver(), schema(), *failure, id);
        co_await pool_->clock().sleep_for(repetition.delay(*failure));
    }
}

void SqlStore::store_id(const SqlPlan& plan, const Writing& writing, SqlBatch& writes) const {
    if (plan.removes || plan.locks.empty() || has_parameter(writes, writing.id)) return;
    writes.add(schema().write_ids().store).text(plan.locks.front()).text(writing.id);
}

Task<SqlStore::LastWrite> SqlStore::last_write(std::vector<std::string> locks,
                                               std::optional<SqlQuery> change) {
    const std::unique_ptr<SqlLease> lease = co_await pool_->acquire();
    SqlBatch batch;
    // Waits until the server has ended the transaction, if it holds the locks.
    driver().begin_write(batch);
    pool_->add_settings(batch, *lease);
    schema().lock(batch, locks);
    const std::size_t at = batch.size();
    batch.add(schema().write_ids().current).text(first_of(locks));
    if (change) batch.add(*change);
    batch.add(change ? "COMMIT" : "ROLLBACK");
    const SqlResults results = co_await (*lease)->exchange(std::move(batch));
    const SqlResult& row = results[at];
    LastWrite last;
    last.is_known = row.rows() > 0;
    if (last.is_known) last.id = row.optional_string(0, 0);
    co_return last;
}

Task<bool> SqlStore::was_stored(const SqlPlan& plan, const Writing& writing, std::string reason) {
    const std::string id = first_of(plan.locks);
    if (plan.locks.empty()) throw_unknown_fate(driver(), id, reason);
    std::string other_id;
    std::optional<SqlQuery> change;
    if (plan.known) {
        // It may be on its way still, without the locks: its guard has to fail then.
        other_id = options().runtime->ids->next();
        change.emplace(schema().write_ids().replace);
        change->text(id).text(other_id).text(plan.known->write_id);
    }
    Clock& clock = pool_->clock();
    const Clock::time_point deadline = deadline_after(clock.now(), options().query_timeout);
    std::chrono::milliseconds delay{20};
    for (;;) {
        Outcome<LastWrite> last = co_await outcome_of(last_write(plan.locks, change));
        if (last.ok()) {
            const LastWrite& found = last.value();
            if (plan.removes ? !found.is_known : found.id == writing.id) co_return true;
            if (found.id == writing.before || (change && found.id == other_id)) co_return false;
            // Another transaction has written since.
            throw_unknown_fate(driver(), id, reason);
        }
        if (last.cancelled()) last.rethrow();
        if (clock.now() >= deadline) throw_unknown_fate(driver(), id, reason);
        co_await clock.sleep_for(delay);
        delay = std::min(delay * 2, std::chrono::milliseconds(1000));
    }
}

}  // namespace cubepi::detail
