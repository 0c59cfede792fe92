#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <bub/channel/delivery/step_queue.hpp>
#include <bub/channel/postgres_delivery_log.hpp>
#include <bub/channel/postgres_delivery_schema.hpp>
#include <cubepi/sql/support/postgres.hpp>
#include <cubepi/sql/support/transaction.hpp>

// The tables of deliveries in a database: their sessions, statements and transactions.

namespace bub::detail {

using cubepi::detail::SqlBatch;
using cubepi::detail::SqlResult;
using cubepi::detail::SqlResults;

/// The tables of deliveries. A transaction locks sessions of messages, by their rows.
class DeliverySchema final : public cubepi::detail::PostgresSchema {
public:
    /// `lease`: the server ends a transaction that a frozen gateway has left open for so long. `division`: the record that the database must
    /// have (DatabaseMap::record()), empty: none; absent: not checked.
    DeliverySchema(std::chrono::milliseconds lease, std::optional<std::string> division)
        : PostgresSchema(postgres_delivery_tables(), "bub_delivery_sessions"),
          lease_(lease),
          division_(std::move(division)) {}

    SqlBatch settings(const cubepi::detail::SqlDriver& driver) const override;
    SqlBatch session() const override;
    void check(const std::string& where, const SqlResults& results) const override;

private:
    const std::chrono::milliseconds lease_;
    const std::optional<std::string> division_;
};

/// The name of the advisory lock under which the division is recorded, and compared by a gateway that registers.
inline constexpr const char* division_lock = "bub_delivery_division";

/// Returns the transactions on the tables of a database, whatever its division.
std::shared_ptr<cubepi::detail::SqlStore> undivided_store(const cubepi::PostgresOptions& options);

/// The id of a message or an answer in a log, as text "ID.FENCE".
struct RecordId {
    std::int64_t id = 0;
    std::int64_t fence = 0;
};
std::string text_of(const RecordId& id);
std::optional<RecordId> record_id(const std::string& text);

/// Records by their ids, as parameters of a statement.
struct RecordIds {
    std::vector<std::string> records = {};  ///< ids with fences, as the caller has them
    std::vector<std::string> ids = {};
    std::vector<std::string> fences = {};
};

/// The value by which a message is found; empty if it has no id of its platform.
std::string message_key(const std::string& account, const std::string& channel,
                        const std::string& inbound_id);

/// A call of a PostgresDeliveryLog that writes: one statement, which decides itself whether the gateway still has the records. It must be
/// harmless if it is executed again, because it is when a connection is lost (SqlStore::execute()).
struct DeliveryWrite {
    std::vector<std::string> sessions = {};  ///< keys of the sessions that it locks
    std::string message_key = {};            ///< of a message that is received
    std::int64_t answer = 0;  ///< the id of an answer that it stores, if `stores_answer`
    bool stores_answer = false;
    std::string answered = {};  ///< the message that is answered; empty: none
    bool is_last = false;       ///< it is written after the other calls of its transaction
    /// Adds the statement. Called on the thread of the log.
    std::function<void(SqlBatch& batch)> write = {};
    /// Reads its result. Throws if the call has failed, without having written anything. May be empty.
    std::function<void(const SqlResult& result)> read = {};
    /// Called when that is stored; must not throw. May be empty.
    std::function<void()> stored = {};

    // Set by the queue.
    bool over = false;
    std::exception_ptr failure = {};
};
using DeliveryWritePtr = std::shared_ptr<DeliveryWrite>;

/// The records of one gateway. write(), take() and release() are called on the thread of the log, one at a time.
class DeliveryTables final : public StepQueue<DeliveryWrite> {
public:
    explicit DeliveryTables(PostgresDeliveryLogOptions options);

    const PostgresDeliveryLogOptions& options() const noexcept { return options_; }
    const std::shared_ptr<cubepi::detail::SqlStore>& store() const noexcept { return store_; }
    /// The number of this gateway; 0: none yet.
    std::int64_t number() const noexcept { return number_; }

    /// The number of gateways of the account, as counted by take(). Thread-safe.
    std::size_t gateways() const noexcept { return gateways_; }

    std::string session_key(const Envelope& message) const;
    /// Throws Error(storage_full) if no more messages may be received.
    void check_limit() const;

    /// Notes the session of a record of this gateway. `key`: that of a message which clients at other gateways may wait for (D273).
    void note(const std::string& id, const std::string& session, const std::string& key = {});
    void forget(const std::vector<std::string>& ids);
    /// Returns the keys of those of these messages that have one; nothing if `wanted` is false.
    std::vector<std::string> keys_of(const std::vector<std::string>& ids, bool wanted) const;
    /// Returns true if the caller has this record.
    bool knows(const std::string& id) const;
    /// Returns the mark of a turn that begins on these messages at the gateway `number`, for bub_delivery_inbound.begun_by: a negative
    /// number that no other turn has.
    std::int64_t next_mark(std::int64_t number, const std::vector<std::string>& ids);
    /// Notes that a turn with this mark has begun on these messages of a session, and the id of its first answer.
    void note_turn(const std::string& session, const std::vector<std::string>& ids,
                   std::int64_t mark, std::int64_t answer);
    /// Returns the marks of the last turns of these messages; "0": it has none, or whether it has begun is not known.
    std::vector<std::string> marks_of(const std::vector<std::string>& ids) const;
    /// Returns a call about those of the records that this gateway has; null if it has none of them.
    DeliveryWritePtr write_about(const std::vector<std::string>& ids, RecordIds& known) const;

    /// Returns the lease of the session of these messages; nothing if this gateway has none of them.
    std::optional<TurnLease> lease(const std::vector<std::string>& ids) const;

    /// Returns true if records of this gateway may be stored that its caller does not have: a write has failed, and one of the next calls
    /// of take() returns them; or what take() returned is being handed over.
    bool may_have_lost() const noexcept { return may_have_lost_ || is_handing_over_; }
    /// Returns true if a write has failed since the last take(), or one may still be executed whose connection was lost.
    bool has_failed() const noexcept { return may_have_lost_; }
    void set_handing_over(bool value) noexcept { is_handing_over_ = value; }
    /// Limits take() to records of these channels, by their stored names.
    void serve(std::vector<std::string> channels);
    bool takes_records() const;
    /// Registers the gateway if it is not; blocks.
    void enter();
    UnfinishedRecords take();
    void release();

    void select_inbounds(SqlBatch& batch) const;
    void select_answers(SqlBatch& batch) const;

private:
    /// Returns a number that no row without an owner has.
    std::int64_t owner() const noexcept { return number_ == 0 ? -1 : number_.load(); }
    void write(const std::vector<DeliveryWritePtr>& steps) override;
    void write_together(const std::vector<DeliveryWritePtr>& steps);
    void note_failure(const std::exception_ptr& failure);
    void reserve_ids(const std::vector<DeliveryWritePtr>& steps);
    /// Returns the id that was reserved for the answer of this call, once; 0: there is none.
    std::int64_t take_reserved(const DeliveryWrite& step);
    struct Taken;
    std::optional<Taken> try_take();
    void add_lost(Taken& taken);
    /// Adds a statement for each table, which returns the number of rows that it has removed.
    void add_removals(SqlBatch& batch) const;

    const PostgresDeliveryLogOptions options_;
    const std::shared_ptr<cubepi::detail::SqlStore> store_;
    std::atomic<std::int64_t> number_ = 0;
    std::atomic<std::size_t> open_ = 0;  ///< records, as counted by take()
    std::atomic<std::size_t> gateways_ = 1;
    std::atomic<bool> may_have_lost_ = false;
    std::atomic<bool> is_handing_over_ = false;
    std::optional<cubepi::Clock::time_point>
        lost_until_;  ///< when no lost write is executed any more
    std::optional<cubepi::Clock::time_point> removal_at_;  ///< the next one; absent: now
    mutable std::mutex mutex_;
    std::optional<std::vector<std::string>> channels_;  ///< absent: all
    std::map<std::string, std::string> sessions_;       ///< by id of a record of this gateway
    std::map<std::string, std::string> keys_;           ///< of messages, by id
    struct Reserved {
        std::string message = {};
        std::int64_t id = 0;
    };
    std::map<std::string, Reserved> reserved_;   ///< by session
    std::map<std::string, std::int64_t> marks_;  ///< of turns that have begun, by id of a message
    std::int64_t turns_ = 0;
};

/// The sessions of records, by their ids.
using RecordSessions = std::map<std::string, std::string>;

/// Read the rows of select_inbounds() and select_answers(). `sessions`: may be null.
std::vector<StoredInbound> read_inbounds(const SqlResult& rows, RecordSessions* sessions);
std::vector<Delivery> read_answers(const SqlResult& rows, RecordSessions* sessions);

/// The number of marks of a gateway (DeliveryTables::next_mark()): more than it has turns in the time in which a write may be late.
inline constexpr std::int64_t marks_of_gateway = std::int64_t{1} << 20U;

/// Returns the beginning of a statement about records whose ids are $1 and whose fences are $2: the common table `mine` with those that exist.
/// Its column `holds` is false for one that another gateway has taken, and `is_open` for one that is over. It finds them by their ids
/// only: with a condition on the end, the server would read all unfinished records, because there are few when it makes the plan.
std::string mine_sql(const char* table);
/// An SQL condition: o is an answer to a message that is not sent yet, and is not held for an operator. Later answers of the session wait for
/// it.
inline constexpr const char* is_being_sent_sql =
    "o.settled_at IS NULL AND o.state <> 'held' AND o.answers <> '{}'";
/// An SQL condition: no other gateway has taken one of `mine`.
inline constexpr const char* all_hold_sql = "NOT EXISTS (SELECT 1 FROM mine WHERE NOT holds)";
/// The end of the statement, whose result check_fence() reads.
inline constexpr const char* select_holds_sql = " SELECT holds FROM mine";
/// Throws SessionTakenError if another gateway has taken one of the records.
void check_fence(const SqlResult& holds);

}  // namespace bub::detail
