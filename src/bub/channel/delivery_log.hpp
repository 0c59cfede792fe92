#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/channel.hpp>
#include <bub/envelope.hpp>
#include <bub/tape/database_map.hpp>
#include <bub/tape/turn_lease.hpp>
#include <cubepi/core/error.hpp>

namespace bub {

class AccountLease;
class GatewayPeers;
enum class StopOutcome : std::uint8_t;

namespace detail {
class DeliveryRecords;
struct DeliveryStep;
}  // namespace detail

/// An accepted message that is not yet finished.
struct StoredInbound {
    std::string id = {};
    Envelope message = {};
    std::string date = {};
    std::uint64_t begun = 0;  ///< number of turns that began on it and whose end was not recorded
    /// The number of them whose processes live: they have lost the session, e.g. with their database, and did not end in the turn.
    std::uint64_t outlived = 0;
    std::string turn = {};  ///< the same for all messages of one turn; empty: no turn began
    bool answered = false;  ///< sending of an answer has begun
    /// The outputs of its turn that have not begun to be sent; if several messages were merged, stored with the first.
    std::vector<TurnOutput> planned = {};
    bool all_sent = false;  ///< sending of the last output has begun
};

/// The values of stop_key in the record of a request to stop that is finished. Another one: it has stopped nothing, or had a turn of its own.
inline constexpr std::string_view stop_succeeded = "stopped";
inline constexpr std::string_view stop_was_refused = "refused";

/// Returns the value that records this result; empty for StopOutcome::idle.
std::string_view stop_record(StopOutcome outcome) noexcept;

/// A message that a delivery log knows by the id of its platform.
struct KnownInbound {
    std::string id = {};    ///< in the log; empty: the message is finished
    Envelope message = {};  ///< of a finished one only its ids, also of the sender, and stop_key
    bool runs_elsewhere = false;  ///< a turn of another process has begun on it
};

/// A message was not found in the databases that can be used, and may be in another one.
class MessageUnreadError : public cubepi::CheckpointerError {
public:
    /// `was_read`: for each database.
    MessageUnreadError(const std::string& what, DatabaseMap map, std::vector<bool> was_read)
        : CheckpointerError(cubepi::ErrorCode::unavailable, what),
          map_(std::move(map)),
          was_read_(std::move(was_read)) {}

    /// Returns true if no message of this session has the id: its database was read.
    bool excludes(std::string_view session_id) const {
        return was_read_.at(map_.of_session(session_id));
    }

private:
    DatabaseMap map_;
    std::vector<bool> was_read_;
};

/// Returns true if the failure of a search for a message is such an error, and excludes that the message is one of this session.
bool excludes_message(const std::exception_ptr& failure, std::string_view session_id);

/// An answer to be sent by a channel.
struct Delivery {
    std::string id = {};
    Envelope message = {};
    std::string date = {};
    std::uint64_t resent = 0;  ///< number of times it was resent
    bool waits = false;        ///< no request with it was made (SendProgress)
    bool is_held =
        false;  ///< an operator has to decide about it; recorded by a log that processes share
};

/// The records of ended processes that this one has to recover.
struct UnfinishedRecords {
    std::vector<StoredInbound> inbounds = {};  ///< in order of arrival
    std::vector<Delivery> answers = {};        ///< oldest first
};

/// A fact that a delivery log records about messages or answers that it has.
enum class DeliveryNote : std::uint8_t {
    // About messages.
    begun,     ///< a turn begins on them
    put_back,  ///< the turn ended cleanly, and they are to be processed from scratch; of a message that another process has taken, only
               ///< that this process did not end in its turn
    held,  ///< an operator has to decide about them, on which a turn has begun; also after the end of this process
    finished,
    left,  ///< no turn on them runs here, and another process that shares the log is to process them. Without one they stay
    // About answers.
    answer_held,  ///< an operator has to decide about them
    waiting,      ///< no request with it was made
    trying,       ///< the first request with it is about to be made
    resent,       ///< it is about to be sent again
    sent,
    failed,  ///< the channel reported a failure, or it is no longer wanted
};

/// Returns true for a SessionTakenError.
bool is_session_taken(const std::exception_ptr& failure) noexcept;

/// A record of inbound messages until their turns end and of outbound ones until they are sent (B18): the port through
/// which a gateway persists them. The manager calls it on its executor. Each call is atomic: after a crash either all
/// of it or none of it has happened. Calls take effect in the order in which they are made.
///
/// A log that several processes share (D205) assigns each session with unfinished messages to one of them. A call about a
/// message or answer that another process has taken has no effect and throws SessionTakenError.
class DeliveryLog {
public:
    virtual ~DeliveryLog() = default;

    /// Stores a message; completes when it is durable. Returns its id, or nothing if this process need not process it: a message
    /// with the same channel and inbound_id was stored before, or another process processes the session. Throws Error(storage_full) if too
    /// many records are unfinished, and Error(limit) if too many messages of the session wait (limit_waiting()).
    virtual Task<std::optional<std::string>> receive(Envelope message) = 0;
    /// Records this about messages or answers; completes when that is durable if the note is `begun`, `trying` or `resent`. `detail`: the
    /// reason of failed answers, or the result of a request to stop that is finished.
    virtual Task<> record(DeliveryNote note, std::vector<std::string> ids, std::string detail) = 0;
    Task<> begin(std::vector<std::string> ids) {
        return record(DeliveryNote::begun, std::move(ids), {});
    }
    Task<> put_back(std::vector<std::string> ids) {
        return record(DeliveryNote::put_back, std::move(ids), {});
    }
    Task<> hold(std::vector<std::string> ids) {
        return record(DeliveryNote::held, std::move(ids), {});
    }
    Task<> finish(std::vector<std::string> ids) {
        return record(DeliveryNote::finished, std::move(ids), {});
    }
    /// Does the same for a request to stop, and records its result (stop_record()) for find(), because its client may ask for it later, and
    /// at another gateway.
    Task<> finish_stop(std::vector<std::string> ids, StopOutcome outcome) {
        return record(DeliveryNote::finished, std::move(ids), std::string(stop_record(outcome)));
    }
    /// Returns the messages of this process that are not finished, in order of arrival.
    virtual Task<std::vector<StoredInbound>> unfinished() = 0;
    /// Returns those of unfinished() with these ids.
    virtual Task<std::vector<StoredInbound>> unfinished_of(std::vector<std::string> ids);
    /// Returns the message of a channel with this `inbound_id`, also one of the last that are finished. By default nothing: the log does
    /// not find messages.
    virtual Task<std::optional<KnownInbound>> find(std::string channel, std::string inbound_id);

    /// Returns true if messages of the session of `address` are not finished, whichever process processes them. Those that wait for a
    /// decision do not count. By default not: the caller has those of this process.
    virtual Task<bool> has_unfinished(Envelope address);
    /// Waits until the message with the channel and inbound_id of `address` may be finished, whichever process finishes it, for `limit` at
    /// most. Returns false if that is not known then; the record has its state. By default the record is to be read soon.
    virtual Task<bool> wait_finished(Envelope address, std::chrono::milliseconds limit);
    /// Ends the waits for a message whose turn was stopped, and has ended after its record was finished (D96). By default without effect.
    virtual void announce_end(const Envelope& address) { (void)address; }

    /// Records all outputs of a turn before the first is sent, so that after a crash the remaining ones are sent without running
    /// the turn again; completes when that is durable. Outputs of the turn that are left out are not sent after a crash. By
    /// default nothing is recorded.
    virtual Task<> plan(std::vector<TurnOutput> outputs, std::vector<std::string> answers);
    /// Records the intent to send an output, and removes it and the earlier outputs of its turn from the plan; completes when
    /// that is durable and returns the answer's id. `answers`: the messages that it answers.
    virtual Task<std::string> intend_output(TurnOutput output,
                                            std::vector<std::string> answers) = 0;
    /// Does the same for a message that is not an output of a turn.
    Task<std::string> intend(Envelope message, std::vector<std::string> answers);
    Task<> wait(std::string id, bool waits) {
        return record(waits ? DeliveryNote::waiting : DeliveryNote::trying, {std::move(id)}, {});
    }
    Task<> resend(std::string id) { return record(DeliveryNote::resent, {std::move(id)}, {}); }
    Task<> sent(std::string id) { return record(DeliveryNote::sent, {std::move(id)}, {}); }
    /// Does the same together with what is recorded after this call, or a little later. By default at once.
    virtual Task<> sent_soon(std::string id) { return sent(std::move(id)); }
    Task<> failed(std::string id, std::string reason) {
        return record(DeliveryNote::failed, {std::move(id)}, std::move(reason));
    }
    /// Returns deliveries of this process recorded as intended but neither confirmed nor failed, oldest first.
    virtual Task<std::vector<Delivery>> unsettled() = 0;

    /// Limits take() to the records of these channels: those of others are left to the processes that serve them. Without channels
    /// receive() leaves new messages to other processes, too. Ignored by a log that one process uses alone.
    virtual void serve(std::vector<std::string> channels) { (void)channels; }
    /// Limits the messages of a session that wait for another process (B14): its queue is not here, and it rejects none that is stored.
    /// Until then any number may wait. Ignored by a log that one process uses alone.
    virtual void limit_waiting(std::size_t messages) { (void)messages; }
    /// Returns the records that this process has to recover. A manager calls it when it begins to serve, and then in each
    /// poll_interval(): for the records of processes that have ended since, and for messages that others have received for
    /// sessions of this process. By default returns unfinished() and unsettled().
    virtual Task<UnfinishedRecords> take();
    /// Returns nothing for a log that one process uses alone.
    virtual std::optional<std::chrono::nanoseconds> poll_interval() const { return std::nullopt; }
    /// Leaves all records to the next process that calls take(), which may be this one. Called when a manager has ended.
    virtual Task<> release();
    /// Returns the lease of an account at a service, by its name among the processes that share the log; null for a log that one
    /// process uses alone.
    virtual std::shared_ptr<AccountLease> account_lease(std::string name) {
        (void)name;
        return nullptr;
    }
    /// Returns the gateways that share the log; null for a log that one process uses alone.
    virtual std::shared_ptr<GatewayPeers> peers() { return nullptr; }
    /// Returns which part of the records cannot be used at the moment, while the others can; empty: none, or all.
    virtual std::string partial_outage() const { return {}; }
    /// Returns the names of the databases that cannot be used at the moment, whose records the lists above do not have. The ids of these
    /// begin with such a name and ':'.
    virtual std::vector<std::string> unusable_databases() const { return {}; }
    /// Returns why processes that share the log do not notify each other, so that each finds what others have stored for it at the next
    /// poll_interval() only; empty: they do, or the log has no notifications.
    virtual std::string notification_problem() const { return {}; }
};

/// A delivery log as a sequence of records that only this process writes (detail::DeliveryRecords).
class RecordedDeliveryLog : public DeliveryLog {
public:
    Task<std::optional<std::string>> receive(Envelope message) override;
    Task<> record(DeliveryNote note, std::vector<std::string> ids, std::string detail) override;
    Task<std::vector<StoredInbound>> unfinished() override;
    Task<std::optional<KnownInbound>> find(std::string channel, std::string inbound_id) override;
    Task<> plan(std::vector<TurnOutput> outputs, std::vector<std::string> answers) override;
    Task<std::string> intend_output(TurnOutput output, std::vector<std::string> answers) override;
    Task<std::vector<Delivery>> unsettled() override;

protected:
    /// Executes a step. Steps take effect in the order in which their tasks are started.
    virtual Task<> perform(std::shared_ptr<detail::DeliveryStep> step) = 0;
    /// Executes a step whose end no caller awaits.
    virtual void perform_later(std::shared_ptr<detail::DeliveryStep> step) = 0;
    /// The time of a new record; may be empty.
    virtual std::string date() const = 0;
};

/// A delivery log in memory, for programs whose channels end with the process, and for tests.
class MemoryDeliveryLog : public RecordedDeliveryLog {
public:
    MemoryDeliveryLog();
    ~MemoryDeliveryLog() override;

private:
    Task<> perform(std::shared_ptr<detail::DeliveryStep> step) override;
    void perform_later(std::shared_ptr<detail::DeliveryStep> step) override;
    std::string date() const override;

    std::unique_ptr<detail::DeliveryRecords> records_;
};

/// How far the sending of an answer is. An answer that only waited when its process ended, for a rate limit or for a platform that
/// could not be reached, is sent by the next one without a mark (B18). Used on the executor of the manager.
class SendProgress {
public:
    /// `state`: of an answer of an earlier process; the default is that of a new one.
    enum class State : std::uint8_t { fresh, waits, may_have_arrived };
    SendProgress(std::shared_ptr<DeliveryLog> log, std::string id, State state = State::fresh)
        : log_(std::move(log)), id_(std::move(id)), state_(state) {}

    /// The answer is about to wait. Without effect if a request with a part of it was made.
    Task<> wait();
    /// A request is about to be made. Returns false if that could not be recorded: then none may be made yet. Both throw
    /// SessionTakenError if another process has taken the answer.
    Task<bool> begin();
    /// The request of the last begin() has certainly not had an effect.
    void was_not_sent() noexcept { state_ = before_; }

private:
    const std::shared_ptr<DeliveryLog> log_;
    const std::string id_;
    State state_;
    State before_ = State::fresh;
    bool was_begun_ = false;  ///< with a log that processes share
};

/// Optional interface of a channel whose messages may have to wait.
class TracksSending {
public:
    virtual ~TracksSending() = default;
    /// Does the same as Channel::send, and calls `progress` around the requests that it makes.
    virtual Task<> send_tracked(Envelope message, std::shared_ptr<SendProgress> progress) = 0;
};

/// The policy for an answer whose delivery state is unknown.
enum class UnsettledPolicy : std::uint8_t {
    resend,  ///< send again, with `resent: true` in its context
    hold,    ///< keep for the operator, who is notified
    none,    ///< not recorded: an interactive user sees what arrived
};

/// Optional interface of a channel: its policy for messages that outlive the process. Without it, messages of a user
/// interface are not recorded, and those of other channels are held.
class SettlesDeliveries {
public:
    virtual ~SettlesDeliveries() = default;
    virtual UnsettledPolicy unsettled_policy() const noexcept = 0;
    /// Restores the parts of a redelivered message that cannot be stored: its lifespan, and the functions that fetch
    /// its media. Called before start(), and when an operator releases a held message.
    virtual void restore(Envelope& message) { (void)message; }
};

}  // namespace bub
