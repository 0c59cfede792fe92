#include <cstdint>
#include <utility>

#include <bub/tape/postgres/tape_tables.hpp>
#include <cubepi/core/outcome.hpp>

// Writes under the lease of a turn (D227).

namespace bub::detail {

using cubepi::detail::SqlDecide;
using cubepi::detail::SqlPlan;
using cubepi::detail::SqlResults;
using cubepi::detail::SqlStore;
using cubepi::detail::SqlTransactions;
using cubepi::detail::SqlView;

namespace {

[[noreturn]] void throw_taken() {
    throw SessionTakenError(
        "another gateway has taken the session: this one had not renewed its lease in time; "
        "nothing was stored");
}

/// The columns of TapeUse::plan() after those of the row.
enum MoreColumns : std::uint8_t { turn_column = 7, fence_column = 8 };

/// A process that is frozen in the transaction, in which it holds the lock of a tape, loses it before others give up waiting.
constexpr const char* fence_sql =
    ", (SELECT fence FROM bub_delivery_sessions WHERE key = $3),"
    " set_config('idle_in_transaction_session_timeout', '5000', true)";

void check_fence(const SqlResult& object, const TurnLease& lease) {
    if (object.is_null(0, fence_column) || object.integer(0, fence_column) != lease.fence)
        throw_taken();
}

/// Fails the transaction with lease_ended_state if the lease has ended, and otherwise prevents until its end, which follows at once,
/// that the lease ends. A lock that is taken earlier would be held by a process that is frozen in between.
void require_fence(SqlBatch& writes, const TurnLease& lease) {
    writes
        .add(
            "SELECT 1 / coalesce((SELECT 1 FROM bub_delivery_sessions WHERE key = $1 AND fence = $2"
            " FOR SHARE), 0)")
        .text(lease.session)
        .integer(lease.fence);
}

bool is_lease_end(const std::exception_ptr& failure) {
    if (!failure) return false;
    try {
        std::rethrow_exception(failure);
    } catch (const cubepi::CheckpointerError& error) {
        return error.code() == lease_end_code;
    } catch (...) {
        return false;
    }
}

class LeasedTransactions final : public SqlTransactions {
public:
    LeasedTransactions(std::shared_ptr<SqlStore> store, TurnLease lease)
        : store_(std::move(store)), lease_(std::move(lease)) {}

    Task<SqlResults> read(SqlBatch reads) override { return store_->read(std::move(reads)); }

    Task<> write(SqlPlan plan, SqlDecide decide) override {
        SqlDecide checked = [lease = lease_, decide = std::move(decide)](const SqlView& view,
                                                                         SqlBatch& writes) {
            if (view.object.rows() > 0) check_fence(view.object, lease);
            decide(view, writes);
            if (!writes.empty()) require_fence(writes, lease);
        };
        return translated(store_->write(std::move(plan), std::move(checked)));
    }

private:
    static Task<> translated(Task<> writing) {
        const cubepi::Outcome<> written = co_await cubepi::outcome_of(std::move(writing));
        if (is_lease_end(written.failure())) throw_taken();
        written.rethrow();
    }

    const std::shared_ptr<SqlStore> store_;
    const TurnLease lease_;
};

std::shared_ptr<SqlTransactions> transactions_of(std::shared_ptr<SqlStore> store,
                                                 const std::optional<TurnLease>& lease) {
    if (!lease) return store;
    return std::make_shared<LeasedTransactions>(std::move(store), *lease);
}

}  // namespace

TapeUse::TapeUse(std::shared_ptr<SqlStore> store, std::optional<TurnLease> lease)
    : transactions_(transactions_of(std::move(store), lease)), lease_(std::move(lease)) {}

SqlPlan TapeUse::plan(const std::string& tape, const std::string& turn_id) const {
    std::string more = ", (SELECT owner FROM bub_turns WHERE tape = $1 AND turn_key = $2)";
    if (lease_) more += fence_sql;
    SqlPlan plan;
    plan.locks = {tape};
    plan.object.emplace(tape_row_sql(more, one_tape));
    plan.object->text(tape).text_or_null(turn_id.empty() ? std::string() : key_of(turn_id));
    if (lease_) plan.object->text(lease_->session);
    return plan;
}

std::shared_ptr<const TapeRow> TapeUse::take_row(const std::string& tape) {
    const std::lock_guard lock(mutex_);
    const auto found = rows_.extract(tape);
    return found ? found.mapped() : nullptr;
}

void TapeUse::note_row(const std::string& tape, TapeRow row) {
    if (!lease_ || row.write_id.empty()) return;
    auto noted = std::make_shared<const TapeRow>(std::move(row));
    const std::lock_guard lock(mutex_);
    rows_.insert_or_assign(tape, std::move(noted));
}

std::optional<std::int64_t> turn_owner(const SqlResult& object) {
    std::optional<std::int64_t> owner;
    if (!object.is_null(0, turn_column)) owner = object.integer(0, turn_column);
    return owner;
}

bool TapeUse::has_looked(const std::string& tape) const {
    const std::lock_guard lock(mutex_);
    return looked_.contains(tape);
}

void TapeUse::note_looked(const std::string& tape) {
    const std::lock_guard lock(mutex_);
    looked_.insert(tape);
}

void TapeUse::forget(const std::string& tape) {
    const std::lock_guard lock(mutex_);
    looked_.erase(tape);
    ++closings_[tape];
}

std::uint64_t TapeUse::closings(const std::string& tape) const {
    const std::lock_guard lock(mutex_);
    const auto found = closings_.find(tape);
    return found == closings_.end() ? 0 : found->second;
}

void TapeUse::note_closing(const std::string& tape) {
    const std::lock_guard lock(mutex_);
    ++closings_[tape];
}

void SessionFences::select(SqlBatch& reads, const std::vector<TurnLease>& leases) {
    if (leases.empty()) return;
    std::vector<std::string> sessions;
    for (const TurnLease& lease : leases) sessions.push_back(lease.session);
    // The owner is negative if the gateway has finished all messages of the session.
    reads
        .add(
            "SELECT w.key, s.fence, EXISTS (SELECT 1 FROM bub_delivery_gateways AS g WHERE g.number"
            " = abs(s.owner) AND g.lease_until > clock_timestamp()) FROM unnest($1::text[]) AS w"
            " (key) LEFT JOIN bub_delivery_sessions AS s ON s.key = w.key")
        .texts(sessions);
}

SessionFences::SessionFences(const SqlResult& rows) {
    for (int row = 0; row < rows.rows(); ++row) {
        Session& session = sessions_[rows.string(row, 0)];
        if (rows.is_null(row, 1)) continue;
        session.fence = rows.integer(row, 1);
        session.is_served = rows.boolean(row, 2);
    }
}

bool SessionFences::has_ended(const TurnLease& lease) const {
    const auto found = sessions_.find(lease.session);
    // A turn that has begun since the sessions were selected is alive.
    return found != sessions_.end() && found->second.fence != lease.fence;
}

bool SessionFences::is_served(const TurnLease& lease) const {
    const auto found = sessions_.find(lease.session);
    return found == sessions_.end() || found->second.is_served;
}

}  // namespace bub::detail
