#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <vector>

#include <bub/channel/manager/deliveries.hpp>
#include <bub/channel/manager/manager_context.hpp>
#include <bub/channel/turn_shards.hpp>

namespace bub::detail {

/// The sessions of a manager: one turn at a time in each, in order of arrival (B8), and the messages that wait for their
/// turn or steer the running one. A session without either does not exist. Messages for a session whose run is suspended are
/// kept until its question is answered or withdrawn.
///
/// A recorded message whose turn fails because of the infrastructure (D90) stays the first of its session. Its record is put back, so
/// that a process that ends meanwhile leaves it to the next one; the new turn finds on the tape what the failed one did (D42),
/// and calls of tools are not repeated (D62). Messages that steered the failed turn follow it. Nothing is tried again once an
/// answer was being sent: the remaining outputs are in the log.
class SessionScheduler {
public:
    SessionScheduler(ManagerContext& context, const ChannelSet& channels, Deliveries& deliveries)
        : context_(context), channels_(channels), deliveries_(deliveries) {}

    void set_inbox(std::shared_ptr<SteeringInbox> inbox) { inbox_ = std::move(inbox); }

    /// Queues a message for its own turn.
    void enqueue(const std::string& session_id, QueuedMessage message);
    /// Queues the remaining outputs of a turn that an earlier process has finished; `receipts` are those of the turn.
    void enqueue_outputs(const std::string& session_id, std::vector<TurnOutput> outputs,
                         Receipts receipts);
    /// Lets the session wait until the answers of an earlier process are sent.
    void enqueue_wait(const std::string& session_id, std::shared_ptr<cubepi::AsyncEvent> sent);
    /// Passes the message to the running turn. Returns false, without effect, if there is none or its inbox is full.
    bool steer(const std::string& session_id, const QueuedMessage& message,
               const std::string& reason);
    /// Returns true if the message may not wait in this session, because too many do.
    bool is_full(const std::string& session_id, const Envelope& message) const;

    bool cancel_turn(const std::string& session_id);
    /// Ends the turn of a message, or takes back a message whose turn is tried again later, and notifies its sender (D96). With
    /// only_message_key, that message is meant, also if it waits for its first turn.
    Task<StopOutcome> stop(std::string session_id, Envelope by);
    /// Returns what stop() would return now.
    StopOutcome would_stop(const std::string& session_id, const Envelope& by) const;
    /// Returns true if the turn of the session began after the message with this QueuedMessage::number had arrived, and for the first time.
    bool began_after(const std::string& session_id, std::uint64_t number) const;
    /// Returns true if a turn runs on the message with this receipt.
    bool is_running(const std::string& receipt) const;
    /// Removes the recorded messages that wait for a turn or for an answer, and returns them, those of each session together.
    std::vector<Receipts> take_waiting();
    /// Drops the waiting messages of a session.
    Task<> drop_waiting(std::string session_id);
    /// Tells the channel of a message that it was dropped.
    void announce_drop(const Envelope& message) const;
    /// Drops the waiting messages of all sessions at the end of the manager; their records remain.
    void clear_waiting(Leftover& leftover);
    /// Forgets all sessions, after their coroutines have ended.
    void forget() { sessions_.clear(); }

    /// Returns the receipts of the message that the running turn of this session answers.
    Receipts receipts_of_turn(const std::optional<std::string>& session_id) const;
    TurnSnapshot snapshot(const std::string& session_id) const;
    /// Returns those of all sessions, in the order of their ids.
    std::vector<TurnSnapshot> snapshots() const;
    std::size_t busy() const;
    /// Returns the number of running turns.
    std::size_t running() const;
    /// Returns the number of sessions whose last turn failed because of an outage.
    std::size_t failing() const;

private:
    /// The failed turns of the first message of a session.
    struct Retry {
        std::size_t failures = 0;
        FailureCause cause = FailureCause::turn;  ///< of the last one
        cubepi::Clock::time_point first = {};     ///< of the failures
        cubepi::Clock::time_point next = {};      ///< no turn begins earlier
    };
    /// A message that waits for its turn, the remaining outputs of a turn, or an event that must come first.
    struct Waiting {
        QueuedMessage queued = {};
        std::vector<TurnOutput> outputs = {};
        std::shared_ptr<cubepi::AsyncEvent> sent = {};
    };
    struct Turn {
        std::stop_source stop = {};
        Receipts receipts = {};
        std::shared_ptr<const Envelope> message = {};  ///< null: only stored outputs are sent
        std::uint64_t arrivals = 0;  ///< the messages that had arrived when it began
        bool begun_before = false;   ///< a turn of an ended process had begun on its message
        bool stopped = false;        ///< by a user
    };
    struct Session {
        std::string id;
        std::deque<Waiting> waiting;
        /// Messages that their turns have not read, because the session waits for an answer (B24).
        std::deque<Waiting> unread;
        std::shared_ptr<Turn> turn;
        std::shared_ptr<Turn> failed;        // while its message is put back
        Receipts answered;                   // of the message whose turn is running
        std::vector<QueuedMessage> steered;  // passed to this turn
        std::exception_ptr failure;          // of this turn
        Retry retry;                         // of this message, or of the first that waits
        cubepi::AsyncEvent dropped;  // pulsed: the message that waits for its next turn is gone
        bool working = false;
    };
    using SessionPtr = std::shared_ptr<Session>;

    /// The turn or the waiting message that a request to stop is about.
    struct Stopped {
        SessionPtr session = {};
        std::shared_ptr<Turn> turn = {};               ///< null: the message waits
        std::size_t position = 0;                      ///< among those that wait
        std::shared_ptr<const Envelope> message = {};  ///< null: there is none
    };

    SessionPtr find(const std::string& id) const;
    Stopped find_stopped(const std::string& session_id, const Envelope& by) const;
    void enqueue(const std::string& session_id, Waiting waiting);
    Task<> run(SessionPtr session);
    Task<bool> wait_for_retry(SessionPtr session);
    Task<TurnOutcome> run_turn(SessionPtr session, Waiting next);
    Task<TurnOutcome> after_failure(SessionPtr session, std::shared_ptr<Envelope> message,
                                    std::exception_ptr failure);
    TurnOutcome cut_off(const std::exception_ptr& failure) const;
    Task<TurnOutcome> process(SessionPtr session, std::shared_ptr<Envelope> message);
    Task<> pass_gate(SessionPtr session, std::shared_ptr<Envelope> message);
    Task<TurnSummary> run_here(std::shared_ptr<Envelope> message, bool stream);
    void report(const Session& session, const Waiting& message, TurnOutcome outcome,
                cubepi::Clock::time_point begun) const;
    Task<> keep_unread(SessionPtr session, Waiting message);
    Task<> put_back(SessionPtr session, std::shared_ptr<Turn> turn, Waiting message,
                    TurnOutcome end);
    Task<> take_back(SessionPtr session, std::size_t position);
    Task<> end_stopped(std::shared_ptr<const Envelope> message);
    void take_back_unread(Session& session);
    Task<> send_outputs(std::vector<TurnOutput> outputs);
    Task<> finish_stored(SessionPtr session, Waiting stored);
    Task<> end_turn(SessionPtr session, std::shared_ptr<Turn> turn, bool interrupted);
    std::vector<QueuedMessage> take_back_steered(Session& session, bool accepted_too = false);

    ManagerContext& context_;
    const ChannelSet& channels_;
    Deliveries& deliveries_;
    std::shared_ptr<SteeringInbox> inbox_;
    std::unordered_map<std::string, SessionPtr> sessions_;
};

}  // namespace bub::detail
