#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <bub/channel/delivery_log.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/sql/postgres_options.hpp>

namespace bub {

namespace detail {
class DeliveryTables;
struct DeliveryWrite;
class EndWaits;
class GatewayWakes;
}  // namespace detail

/// The key of Envelope::rest of a finished message whose turn was stopped (D96), in what PostgresDeliveryLog::find() returns. True: that was a
/// few seconds ago, and the turn may still end, so that what it leaves is not on the tape yet.
inline constexpr std::string_view turn_stopped_key = "turn_stopped";

struct PostgresDeliveryLogOptions {
    cubepi::PostgresOptions database = {};
    /// The connection by which gateways wake each other (LISTEN and NOTIFY): to the same database, not through a pooler that assigns a
    /// session to each transaction. Empty: they find what others have stored when they look, in each `poll`.
    std::string notifications = {};
    /// Gateways with the same account share their records; those of other accounts do not see them. Ids of messages and sessions
    /// must have the same meaning for all gateways of an account.
    std::string account = "gateway";
    /// The record that the database must have of the databases among which sessions are divided (DatabaseMap::record()); empty: it has all
    /// of them. Each connection checks it: CheckpointerError(schema_mismatch).
    std::string division = {};
    /// The time, by the clock of the server, after which others take the records of a process that does not call take().
    std::chrono::milliseconds lease{10'000};
    /// poll_interval(). Must be shorter than the lease.
    std::chrono::milliseconds poll{1'000};
    /// For how long finished messages and settled answers are remembered, without their contents.
    std::chrono::hours retention{24 * 90};
    /// Limit of unfinished records of the account, inbound and outbound together; further messages are rejected, answers to those that
    /// were accepted are not. They are counted by take().
    std::size_t max_open = 10'000;
};

/// A delivery log in databases, to which the records of another log can be moved.
class AdoptingDeliveryLog : public DeliveryLog {
public:
    /// Stores an unfinished message of another log with all that was recorded about it, at once, unless it is known. The next gateway
    /// that takes its session gets it. Returns its number, which is `turn` for further messages of the same turn; empty for the
    /// first.
    virtual Task<std::string> adopt(StoredInbound record, std::string turn) = 0;
    /// Stores an unsettled answer of another log with all that was recorded about it, unless it was stored before.
    virtual Task<> adopt(Delivery answer) = 0;
};

/// A delivery log in a PostgreSQL database that several gateways share (D205). The tables are those of
/// postgres_delivery_tables().
///
/// A session belongs to one gateway while it has unfinished messages. A message for the session of another gateway is stored,
/// and that gateway takes it. A gateway that does not call take() for the length of the lease counts as ended, one on this host
/// also if its process does not exist: the next gateway that calls take() takes its sessions. The fence of a record, a number
/// that each take increases and that is part of the ids of messages and answers, is checked in every transaction, so that a
/// gateway that was only slow changes nothing and sends no further answer.
///
/// A call that writes is one statement, and takes one round trip; calls at the same time share it. If the connection breaks, the statement is
/// executed again: it has its effect once (D275). Calls run on a thread of the log. Used on one executor at a time.
///
/// Throws, from every call, what PostgresCheckpointer throws.
class PostgresDeliveryLog final : public AdoptingDeliveryLog {
public:
    explicit PostgresDeliveryLog(PostgresDeliveryLogOptions options);
    ~PostgresDeliveryLog() override;

    /// Connects now, to detect errors early. Optional.
    Task<> open();

    Task<std::string> adopt(StoredInbound record, std::string turn) override;
    Task<> adopt(Delivery answer) override;
    /// Stores the ids of finished messages of another log (channel, chat_id and inbound_id), so that these are not accepted again. Those that
    /// are known stay as they are.
    Task<> adopt_finished(std::vector<Envelope> messages);

    Task<std::optional<std::string>> receive(Envelope message) override;
    Task<> record(DeliveryNote note, std::vector<std::string> ids, std::string detail) override;
    Task<std::vector<StoredInbound>> unfinished() override;
    /// A finished message may have turn_stopped_key as well.
    Task<std::optional<KnownInbound>> find(std::string channel, std::string inbound_id) override;
    Task<bool> has_unfinished(Envelope address) override;
    /// The gateway that finishes a message which another one has stored notifies the others. In each `poll`, one statement looks for all
    /// messages that are waited for.
    Task<bool> wait_finished(Envelope address, std::chrono::milliseconds limit) override;
    void announce_end(const Envelope& address) override;
    Task<> plan(std::vector<TurnOutput> outputs, std::vector<std::string> answers) override;
    Task<std::string> intend_output(TurnOutput output, std::vector<std::string> answers) override;
    Task<> sent_soon(std::string id) override;
    Task<std::vector<Delivery>> unsettled() override;
    /// Returns the lease under which this process may write the turn of these messages, where tapes are in the same database
    /// (LeasableTapes); nothing for messages that it has not. Thread-safe.
    std::optional<TurnLease> lease(const std::vector<std::string>& ids) const;
    void serve(std::vector<std::string> channels) override;
    void limit_waiting(std::size_t messages) override { max_waiting_ = messages; }
    Task<UnfinishedRecords> take() override;
    std::optional<std::chrono::nanoseconds> poll_interval() const override;
    Task<> release() override;
    std::shared_ptr<AccountLease> account_lease(std::string name) override;
    std::shared_ptr<GatewayPeers> peers() override;
    std::string notification_problem() const override;

    /// Begins take() on the thread of the log, unless one is in progress or its result was not fetched. `ended` is called on that thread.
    /// Until handed_over(), a message of a session with unfinished ones is left to the next take(), so that it is not accepted before these.
    void begin_take(std::function<void()> ended);
    /// Returns the result of begin_take(), once; nothing: there is none yet.
    std::optional<cubepi::Outcome<UnfinishedRecords>> taken();
    void handed_over();
    /// Sets the event, on its executor, whenever another gateway has stored something for this one. The executor must outlive the log.
    void wake(cubepi::Executor executor, const std::shared_ptr<cubepi::AsyncEvent>& event);

private:
    struct Taking;

    void check_notifications();
    std::shared_ptr<detail::DeliveryWrite> note(DeliveryNote note,
                                                const std::vector<std::string>& ids,
                                                const std::string& detail);
    Task<> perform(std::shared_ptr<detail::DeliveryWrite> write);
    Task<> complete(std::shared_ptr<detail::DeliveryWrite> write);
    Task<> complete_soon(std::shared_ptr<detail::DeliveryWrite> write);

    std::shared_ptr<detail::DeliveryTables> tables_;
    std::shared_ptr<detail::EndWaits> ends_;
    std::shared_ptr<detail::GatewayWakes> wakes_;  ///< null: none
    const std::shared_ptr<Taking> taking_;
    std::size_t max_waiting_ = std::numeric_limits<std::int64_t>::max();
    cubepi::WorkerPool thread_;  // tasks on it may still use the tables
};

}  // namespace bub
