#include <cubepi/checkpoint/postgres/store.hpp>

#include <algorithm>
#include <chrono>

#include <cubepi/checkpoint/postgres/failure.hpp>
#include <cubepi/checkpoint/postgres/schema.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>

namespace cubepi::detail {

namespace {

constexpr int most_attempts = 4;
// A server that crashed recovers within a second or so.
constexpr int most_attempts_of_start = 8;

/// Decides whether a transaction that was not stored is repeated.
class Repetition {
public:
    bool allows(const PgFailure& failure) {
        ++attempts_;
        if (failure.kind() == PgFailureKind::lost) was_lost_ = true;
        if (failure.is_transient()) return attempts_ < most(failure);
        // A server that was there a moment ago restarts.
        return was_lost_ && is_connecting(failure) && attempts_ < most(failure);
    }
    /// How long to wait first: not at all, unless the server has to start.
    std::chrono::milliseconds delay(const PgFailure& failure) const {
        return std::chrono::milliseconds(is_connecting(failure) ? 25 << std::min(attempts_, 6) : 0);
    }
    int attempts() const noexcept { return attempts_; }

private:
    static bool is_connecting(const PgFailure& failure) {
        return failure.kind() == PgFailureKind::connect || failure.is_starting();
    }
    static int most(const PgFailure& failure) {
        return is_connecting(failure) ? most_attempts_of_start : most_attempts;
    }

    int attempts_ = 0;
    bool was_lost_ = false;
};

/// CubePi takes the same lock. Several are taken in the order of their keys.
void add_locks(PgBatch& batch, const std::vector<std::string>& threads) {
    if (threads.empty()) return;
    if (threads.size() == 1) {
        batch.add("SELECT pg_advisory_xact_lock(hashtext($1))").text(threads[0]);
        return;
    }
    batch
        .add(
            "SELECT pg_advisory_xact_lock(key) FROM (SELECT DISTINCT hashtext(t) AS key"
            " FROM unnest($1::text[]) AS t ORDER BY key) AS keys")
        .texts(threads);
}

std::string first_of(const std::vector<std::string>& threads) {
    return threads.empty() ? std::string() : threads.front();
}

PgBatch one_statement(const char* sql) {
    PgBatch batch;
    batch.add(sql);
    return batch;
}

void erase_front(PgResults& results, std::size_t count) {
    results.erase(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(count));
}

}  // namespace

PgStore::PgStore(PostgresOptions options) {
    PgBatch set_up = session_set_up(options);
    pool_ = std::make_shared<PgPool>(std::move(options), std::move(set_up), check_session);
}

double PgStore::lease_time(double server_time) const {
    if (!options().lease_clock) return server_time;
    const auto now = options().lease_clock->wall().time_since_epoch();
    return std::chrono::duration<double>(now).count();
}

Task<PgResults> PgStore::attempt_read(PgBatch reads) {
    const std::unique_ptr<PgLease> lease = co_await pool_->acquire();
    PgBatch batch;
    batch.add("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
    batch.add_all(reads);
    batch.add("COMMIT");
    PgResults results = co_await (*lease)->exchange(std::move(batch));
    erase_front(results, 1);
    results.pop_back();
    co_return results;
}

Task<PgResults> PgStore::read(PgBatch reads) {
    const auto self = shared_from_this();
    Repetition repetition;
    for (;;) {
        PgBatch batch = reads;
        Outcome<PgResults> results = co_await outcome_of(attempt_read(std::move(batch)));
        if (results.ok()) co_return std::move(results).value();
        const PgFailure* failure = as_pg_failure(results.failure());
        if (!failure) results.rethrow();
        const bool repeat = repetition.allows(*failure);
        log_failure(pool_->log(), *failure, repeat);
        if (!repeat) throw_checkpointer_error(parameters(), *failure);
        co_await pool_->clock().sleep_for(repetition.delay(*failure));
    }
}

Task<> PgStore::attempt(const PgPlan& plan, const PgDecide& decide, Attempt& attempt) {
    const std::unique_ptr<PgLease> lease = co_await pool_->acquire();
    PgBatch first;
    first.add("BEGIN");
    add_locks(first, plan.threads);
    first
        .add(
            "SELECT (SELECT write_id FROM cubepi_native_writes WHERE thread_id = $1),"
            " extract(epoch FROM clock_timestamp())::float8")
        .text(first_of(plan.threads));
    const std::size_t own = first.size();
    first.add_all(plan.reads);
    Outcome<PgResults> read = co_await outcome_of((*lease)->exchange(std::move(first)));
    std::exception_ptr refused = read.failure();
    PgBatch writes;
    if (!refused) {
        PgResults& results = read.value();
        attempt.before = results[own - 1].optional_string(0, 0);
        const double now = lease_time(results[own - 1].number(0, 1));
        erase_front(results, own);
        try {
            decide(PgView{results, now}, writes);
        } catch (...) {
            refused = std::current_exception();
        }
    }
    if (!refused && !writes.empty()) {
        write_id(plan, attempt, writes);
        writes.add("COMMIT");
        attempt.commit_sent = true;
        Outcome<PgResults> written =
            co_await outcome_of((*lease)->exchange_to_the_end(std::move(writes)));
        if (written.ok()) co_return;
        refused = written.failure();
    }
    const PgFailure* failure = as_pg_failure(refused);
    // The connection is closed then, which rolls the transaction back.
    if (is_cancellation(refused) || (failure && failure->kind() != PgFailureKind::server))
        std::rethrow_exception(refused);
    attempt.commit_sent = false;
    PgBatch rollback = one_statement("ROLLBACK");
    (void)co_await outcome_of((*lease)->exchange(std::move(rollback)));
    if (refused) std::rethrow_exception(refused);
}

Task<> PgStore::write(PgPlan plan, PgDecide decide) {
    const auto self = shared_from_this();
    const std::string thread_id = first_of(plan.threads);
    Repetition repetition;
    for (;;) {
        Attempt state;
        Outcome<> done = co_await outcome_of(attempt(plan, decide, state));
        if (done.ok()) co_return;
        const PgFailure* failure = as_pg_failure(done.failure());
        if (!failure) done.rethrow();
        bool repeat = repetition.allows(*failure);
        if (state.commit_sent && failure->leaves_commit_unknown()) {
            const bool stored = co_await was_stored(plan, state, failure->what());
            if (stored) co_return;
            repeat = repetition.attempts() < most_attempts;
        } else if (failure->is_read_only()) {
            // After a failover the other connections are to the former primary, too.
            pool_->close_idle();
            repeat = repetition.attempts() == 1;
        }
        log_failure(pool_->log(), *failure, repeat);
        if (!repeat) throw_checkpointer_error(parameters(), *failure, thread_id);
        co_await pool_->clock().sleep_for(repetition.delay(*failure));
    }
}

void PgStore::write_id(const PgPlan& plan, Attempt& attempt, PgBatch& writes) const {
    if (plan.removes || plan.threads.empty()) return;
    attempt.id = options().runtime->ids->next();
    // The thread does not exist if there was nothing to write.
    writes
        .add(
            "INSERT INTO cubepi_native_writes (thread_id, write_id)"
            " SELECT thread_id, $2 FROM cubepi_threads WHERE thread_id = $1"
            " ON CONFLICT (thread_id) DO UPDATE SET write_id = excluded.write_id")
        .text(plan.threads.front())
        .text(attempt.id);
}

Task<PgStore::LastWrite> PgStore::last_write(std::vector<std::string> threads) {
    const std::unique_ptr<PgLease> lease = co_await pool_->acquire();
    PgBatch batch;
    batch.add("BEGIN");
    // Waits until the server has ended the transaction, which holds the locks.
    add_locks(batch, threads);
    batch
        .add(
            "SELECT write_id FROM cubepi_threads LEFT JOIN cubepi_native_writes USING (thread_id)"
            " WHERE thread_id = $1")
        .text(first_of(threads));
    batch.add("COMMIT");
    const PgResults results = co_await (*lease)->exchange(std::move(batch));
    const PgResult& row = results[results.size() - 2];
    LastWrite last;
    last.is_known = row.rows() > 0;
    if (last.is_known) last.id = row.optional_string(0, 0);
    co_return last;
}

Task<bool> PgStore::was_stored(const PgPlan& plan, const Attempt& attempt, std::string reason) {
    const std::string thread_id = first_of(plan.threads);
    if (plan.threads.empty()) throw_unknown_fate(parameters(), thread_id, reason);
    Clock& clock = pool_->clock();
    const Clock::time_point deadline = deadline_after(clock.now(), options().query_timeout);
    std::chrono::milliseconds delay{20};
    for (;;) {
        Outcome<LastWrite> last = co_await outcome_of(last_write(plan.threads));
        if (last.ok()) {
            const LastWrite& found = last.value();
            if (plan.removes ? !found.is_known : found.id == attempt.id) co_return true;
            if (found.id == attempt.before) co_return false;
            // Another transaction has written since.
            throw_unknown_fate(parameters(), thread_id, reason);
        }
        if (last.cancelled()) last.rethrow();
        if (clock.now() >= deadline) throw_unknown_fate(parameters(), thread_id, reason);
        co_await clock.sleep_for(delay);
        delay = std::min(delay * 2, std::chrono::milliseconds(1000));
    }
}

void PgStore::fail_row(const std::string& thread_id, const std::string& row_ref,
                       std::string_view why, std::string_view remedy) const {
    throw CheckpointCorruptionError(
        parameters().description() + ": row " + row_ref + " of thread '" + thread_id +
            "' cannot be read: " + std::string(why) + "; " + std::string(remedy),
        thread_id, "postgres", row_ref);
}

}  // namespace cubepi::detail
