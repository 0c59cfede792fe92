#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <bub/channel.hpp>
#include <bub/channel/debounce.hpp>
#include <bub/channel/delivery_log.hpp>
#include <bub/channel/turn_gate.hpp>
#include <bub/framework.hpp>
#include <bub/turn_error.hpp>

namespace bub {

class TurnShards;

namespace detail {
class ManagerCore;
}

/// How the turn of a message has ended.
enum class TurnOutcome : std::uint8_t {
    answered,
    suspended,  ///< with a question to the user
    unread,     ///< the message waits for the answer to an earlier question
    failed,     ///< the sender was told
    postponed,  ///< the infrastructure failed; the turn is tried again (D90)
    held,       ///< the infrastructure failed; the operator decides about the message
    cut_off,    ///< the infrastructure failed while the answer was sent
    taken,      ///< another process has taken the session, and processes the message
    cancelled,
};
std::string_view to_string(TurnOutcome outcome) noexcept;

/// A turn that has ended. Valid during ManagerObserver::turn_ended().
struct EndedTurn {
    const Envelope& message;  ///< with its receipts
    TurnOutcome outcome = TurnOutcome::answered;
    const std::exception_ptr& failure;     ///< null: none
    std::chrono::nanoseconds duration{0};  ///< of the turn
    std::chrono::nanoseconds latency{0};   ///< since the message was admitted
};

/// Observes the messages of a manager, for logs and metrics (D98). Called on the manager's executor; must not throw.
class ManagerObserver {
public:
    virtual ~ManagerObserver() = default;
    /// A message was accepted; with a delivery log, after it was stored.
    virtual void received(const Envelope& message) noexcept = 0;
    virtual void turn_ended(const EndedTurn& turn) noexcept = 0;
};

struct ChannelManagerOptions {
    /// Names of channels; "all": every configured chat service; "!name": exclude this one.
    std::vector<std::string> channels = {"all"};
    /// Streams the answers of turns through their channels.
    bool stream_output = false;
    DebounceOptions debounce = {};
    /// Limit of messages of one session that wait for admission or for their turn; further ones are rejected and their
    /// senders notified (B14).
    std::size_t max_waiting = 32;
    /// The same limit for all sessions together.
    std::size_t max_waiting_in_all = 4096;
    /// The time for which turns are tried again that fail because of the infrastructure (D90). Then the message is held.
    std::chrono::nanoseconds retry_limit = std::chrono::hours(1);
    /// Time limits for a channel's start and stop.
    std::chrono::nanoseconds start_limit = std::chrono::seconds(30);
    std::chrono::nanoseconds stop_limit = std::chrono::seconds(10);
    /// The record of messages that survives the process (docs/guides/bub/surfaces.md). Null: none.
    std::shared_ptr<DeliveryLog> deliveries = {};
    /// The threads on which the turns run (bub/channel/turn_shards.hpp). Null: they run on the manager's executor.
    std::shared_ptr<TurnShards> shards = {};
    /// Decides which messages get a turn. The others count as failed, and their senders get its text. Null: all do.
    std::shared_ptr<TurnGate> gate = {};
    /// Receives problems that concern the operator rather than a turn: a channel that does not stop, answers that are
    /// held. Never receives message bodies (B13). May be empty.
    WarningHandler on_warning = {};
    /// May be null.
    std::shared_ptr<ManagerObserver> observer = {};
};

/// Returns true if the words of ChannelManagerOptions::channels select a chat service of this name.
bool selects_service(const std::vector<std::string>& words, const std::string& name);

/// Messages that await an operator's decision (B18).
struct HeldMessages {
    /// Their turns ended the process or failed because of the infrastructure, or they are commands that may have run.
    std::vector<StoredInbound> inbounds = {};
    std::vector<Delivery> answers = {};  ///< delivery state unknown
};

/// The key of Envelope::rest of a request to end a turn (ChannelManager::stop_turn()) with the Envelope::inbound_id of the only message
/// that is meant, of the channel of the request. A message that waits for its turn is taken back.
inline constexpr std::string_view only_message_key = "only_message";

/// The result of a request to end a turn.
enum class StopOutcome : std::uint8_t {
    stopped,  ///< the turn ends soon; it is never run again
    idle,     ///< no turn was running
    refused,  ///< the sender may not stop this turn
};

/// The state of a message that a channel has received.
enum class MessageProgress : std::uint8_t {
    pending,   ///< its turn has not begun, or begins again later
    running,   ///< in a turn
    held,      ///< an operator decides about it
    finished,  ///< its turn has ended, or it was dropped
};

/// A message that is recorded in the delivery log.
struct FoundMessage {
    MessageProgress progress = MessageProgress::finished;
    std::string session_id = {};
    Envelope message = {};  ///< of a finished one only its ids, also of the sender
};

/// The owner of a framework's channels: accepts their messages, admits them, and runs one turn per session at a time,
/// in order of arrival (B8). A session that hangs does not delay other sessions. An idle session uses no memory.
///
/// Each message from a channel becomes a turn, steers a turn, is dropped by admission, or is rejected. If it is
/// rejected, the sender (too many messages) or the observers (a hook that failed) were notified, and the handler
/// throws.
///
/// With a delivery log (B18) a handler completes only after its message was stored, and each answer is stored before it
/// is sent. Records of an earlier process are recovered at start: a message whose turn did not end is delivered again,
/// once and with `redelivered: true` in its context, unless an answer was being sent; an answer with unknown delivery
/// state is handled by its channel's policy.
///
/// A recorded message whose turn fails because of the infrastructure (D90) is put back: a turn begins on it again after 1 s, then
/// after longer and longer delays of at most 30 s, and later messages of the session wait for it. After
/// `options.retry_limit`, and at once if trying again does not help or the message is a command, it is held.
///
/// Used on the executor on which run() is awaited; request_stop may be called from any thread. The framework must
/// outlive it.
class ChannelManager {
public:
    ChannelManager(Framework& framework, ChannelManagerOptions options = {});
    ~ChannelManager();
    ChannelManager(const ChannelManager&) = delete;
    ChannelManager& operator=(const ChannelManager&) = delete;

    /// Returns the channels selected by `options.channels`, in start order. The plugins are asked once.
    Task<std::vector<std::shared_ptr<Channel>>> enabled_channels();

    /// Prepares the selected channels, before run(), while another manager serves (Channel::prepare()). Throws what the first
    /// channel that fails throws.
    Task<> prepare();
    /// Starts the channels, serves them until `stop` (or request_stop), cancels the turns, stops the channels. If a
    /// channel does not start, exactly the channels that had started are stopped, and its error is thrown. Throws
    /// Error(not_found) if no channel is enabled. May be called once per manager.
    Task<> run(std::stop_token stop = {});
    void request_stop();
    /// Waits until run() has started all channels. Throws Error(unavailable) if run() ends before.
    Task<> started();
    /// Ends the manager without cutting off the running turns (B27): no further turn begins, and messages that are waiting or
    /// arrive are delivered at the next start; those of channels without records are rejected. After `limit`, the turns that
    /// still run are cancelled, and their messages are delivered again at the next start. Then run() ends. Returns the number
    /// of turns that were cancelled. request_stop() ends the wait.
    Task<std::size_t> drain(std::chrono::nanoseconds limit);

    /// Accepts a message in the same way as a channel's handler.
    Task<> receive(Envelope message);

    /// Cancels the running turn; waiting messages follow. Returns false if no turn is running.
    bool cancel_turn(const std::string& session_id);
    /// Ends the running turn of the session of `by` for its sender, or the attempts to repeat one that has failed (D96): the turn is not
    /// run again, also if the process is killed now, and the sender of its message is notified. Operators (Envelope::from_operator), the
    /// only user of a chat, and the sender of the message may do so; another sender is notified. Returns before the turn has ended. A
    /// request with an Envelope::inbound_id acts once if its channel is recorded: one that is repeated returns `stopped` without effect.
    Task<StopOutcome> stop_turn(Envelope by);
    /// Returns the message of a channel with this Envelope::inbound_id, if the delivery log knows it.
    Task<std::optional<FoundMessage>> find_message(std::string channel, std::string inbound_id);
    /// Returns true if another process that shares the delivery log has messages of the session of `address` to process.
    Task<bool> has_unfinished(Envelope address);
    /// Cancels the running turn and drops all waiting messages.
    Task<> abort_session(std::string session_id);
    TurnSnapshot snapshot(const std::string& session_id) const;
    /// Returns the number of sessions with a running turn or waiting messages.
    std::size_t busy_sessions() const;
    /// Returns all sessions with a running turn or waiting messages, in the order of their ids.
    std::vector<TurnSnapshot> sessions() const;
    /// Returns why messages cannot be processed at present; empty: they can. For readiness checks; no contents.
    std::string problem() const;
    /// Waits until no session is busy and the records of an earlier process are recovered.
    Task<> idle();

    /// Returns the messages that await an operator's decision. Empty without a delivery log.
    Task<HeldMessages> held();
    /// Sends a held answer, or accepts a held message together with those that formed one prompt with it. Throws
    /// Error(not_found) if `id` is not held; rethrows the channel's exception.
    Task<> release_held(std::string id);
    /// Discards a held message or answer.
    Task<> discard_held(std::string id);

private:
    std::shared_ptr<detail::ManagerCore> core_;
};

}  // namespace bub
