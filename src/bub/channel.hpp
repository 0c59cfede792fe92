#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/envelope.hpp>
#include <bub/event_stream.hpp>

namespace bub {

/// Accepts a message. Completes when the message is admitted (with a delivery log: when it is stored, B18) or has been
/// admitted before. Throws if the message is not accepted.
using MessageHandler = std::function<Task<>(Envelope message)>;

/// The purpose of a channel, which determines when it is started.
enum class ChannelRole : std::uint8_t {
    service,         ///< a chat service; started by "all"
    user_interface,  ///< an interactive user interface (cli); started only if it is named
    lifecycle,       ///< has no messages of its own; started along with other channels
};

/// The action that admission takes on an arriving message.
enum class AdmitAction : std::uint8_t {
    process,    ///< start its own turn, after the turns of earlier messages
    drop,       ///< discard it
    follow_up,  ///< start its own turn after the running turn ends
    steer,      ///< pass it to the running turn; treat it as a follow-up if no turn is running
};
std::string_view to_string(AdmitAction action) noexcept;

/// An admission decision for one message.
struct AdmitDecision {
    AdmitAction action = AdmitAction::process;
    std::string reason = {};
};

/// A snapshot of a message's session, passed to admission hooks.
struct TurnSnapshot {
    std::string session_id = {};
    bool is_running = false;
    std::size_t running_count = 0;
    std::size_t pending_count = 0;
    std::size_t steering_count = 0;
};

/// Queues of messages that are to steer running turns. Shared by all sessions; thread-safe.
class SteeringInbox {
public:
    virtual ~SteeringInbox() = default;
    /// Returns false if the session's queue is full (B14).
    virtual bool enqueue(const std::string& session_id, Envelope message) = 0;
    /// Removes and returns all queued messages, oldest first.
    virtual std::vector<Envelope> drain(const std::string& session_id) = 0;
    /// Returns messages of drain() to the front of the queue, in their order and whatever its limit. The default implementation
    /// enqueues them behind the others, as far as the limit permits.
    virtual void put_back(const std::string& session_id, std::vector<Envelope> messages);
    virtual std::size_t count(const std::string& session_id) const = 0;
};

/// The default inbox, used if no plugin provides one: in memory, bounded per session.
class MemorySteeringInbox final : public SteeringInbox {
public:
    explicit MemorySteeringInbox(std::size_t max_messages = 64) : max_messages_(max_messages) {}
    bool enqueue(const std::string& session_id, Envelope message) override;
    std::vector<Envelope> drain(const std::string& session_id) override;
    void put_back(const std::string& session_id, std::vector<Envelope> messages) override;
    std::size_t count(const std::string& session_id) const override;

private:
    const std::size_t max_messages_;
    mutable std::mutex mutex_;
    std::map<std::string, std::deque<Envelope>> waiting_;
};

/// An input and output of the pipeline. All members are called on the manager's executor.
class Channel {
public:
    virtual ~Channel() = default;
    virtual const std::string& name() const noexcept = 0;
    virtual ChannelRole role() const noexcept { return ChannelRole::service; }
    /// Returns false if the channel is not configured.
    virtual bool enabled() const { return true; }
    virtual bool needs_debounce() const { return false; }

    /// Verifies, for a configuration that replaces a running one, that start() will succeed: listens, authenticates. The channel
    /// that it replaces still runs: takes no messages. Throws if start() would fail, or if that cannot be determined now. start()
    /// also works without it.
    virtual Task<> prepare();
    /// Starts the channel and returns soon; its work continues in the background until stop(). `stopping` is triggered
    /// when the manager shuts down. A channel that wants the manager to shut down (the user wants to leave) calls
    /// `request_stop` of its options' source.
    virtual Task<> start(std::stop_token stopping) = 0;
    virtual Task<> stop() = 0;

    /// Sends an answer.
    virtual Task<> send(Envelope message);
    /// Observes a turn's answer as it streams; returns the stream that the turn continues with.
    virtual EventStream stream_events(const Envelope& message, EventStream stream);
    /// Returns nothing to leave the decision to others.
    virtual Task<std::optional<AdmitDecision>> admit_message(std::string session_id,
                                                             const Envelope& message,
                                                             TurnSnapshot turn);
};

/// Optional interface of a channel that follows the turns of its messages. Called on the manager's executor; must not throw.
class FollowsTurns {
public:
    virtual ~FollowsTurns() = default;
    /// A turn begins on `message`. A message that had to wait for the answer to a question gets a second turn.
    virtual void begin_turn(const Envelope& message) noexcept = 0;
    /// The turn has ended, and its outputs were sent. `failure` is null if it succeeded.
    virtual void end_turn(const Envelope& message, std::exception_ptr failure) noexcept = 0;
    /// The turn has failed, and another one begins on the message later (D90).
    virtual void postpone_turn(const Envelope& message) noexcept { (void)message; }
    /// The message was accepted but no turn will begin on it: `,quit` or a hook has dropped it.
    virtual void drop(const Envelope& message) noexcept { (void)message; }
    /// No further turn begins: messages that wait for one are processed after the next start (B27).
    virtual void drain() noexcept {}
};

/// An outbound message and its position among the outbound messages of its turn.
struct TurnOutput {
    /// A message that is not an output of a turn, e.g. a notice.
    explicit TurnOutput(Envelope notice) : message(std::move(notice)) {}
    TurnOutput(Envelope output, std::size_t at, std::size_t of)
        : message(std::move(output)), index(at), count(of) {}

    Envelope message;
    std::size_t index = 0;  ///< from 0
    std::size_t count = 0;  ///< number of outputs of the turn; 0: not an output of a turn
};

/// The router of answers to the channels. Bound to a Framework by the component that runs the channels. (Bub's
/// ChannelRouter.)
class OutboundChannelRouter {
public:
    virtual ~OutboundChannelRouter() = default;
    /// Returns the stream that the turn reads: `stream`, or one that wraps it. Called for streaming callers only.
    virtual EventStream wrap_stream(const Envelope& message, EventStream stream) {
        (void)message;
        return stream;
    }
    /// Announces all outputs of a turn, in order, before the first is dispatched. Called only if there is more than one.
    virtual Task<> plan_outputs(std::string session_id, std::vector<TurnOutput> outputs);
    /// Returns true if a channel accepted the message.
    virtual Task<bool> dispatch_output(TurnOutput output) = 0;
    /// Returns the decision of the message's channel.
    virtual Task<std::optional<AdmitDecision>> admit_message(std::string session_id,
                                                             const Envelope& message,
                                                             TurnSnapshot turn);
    /// Drops all waiting messages of this session.
    virtual Task<> quit(std::string session_id);
    /// Cancels the running turn. Returns false if no turn is running.
    virtual bool cancel_turn(const std::string& session_id) {
        (void)session_id;
        return false;
    }
};

}  // namespace bub
