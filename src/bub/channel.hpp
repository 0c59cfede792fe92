#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include <bub/admission.hpp>
#include <bub/envelope.hpp>
#include <bub/event_stream.hpp>

namespace bub {

/// Takes a message in. Completes when it is admitted (with a delivery log: stored, B18), or was before. Throws when it is not.
using MessageHandler = std::function<Task<>(Envelope message)>;

/// What a channel is for, which decides when it is started.
enum class ChannelRole : std::uint8_t {
    service,         ///< a chat service; started by "all"
    user_interface,  ///< a person sits before it (cli); started only when it is named
    lifecycle,       ///< no messages of its own; goes along with others
};

/// One way in and out of the pipeline. All members are called on the manager's executor.
class Channel {
public:
    virtual ~Channel() = default;
    virtual const std::string& name() const noexcept = 0;
    virtual ChannelRole role() const noexcept { return ChannelRole::service; }
    /// False when it is not configured.
    virtual bool enabled() const { return true; }
    virtual bool needs_debounce() const { return false; }

    /// Returns soon: what goes on is the channel's own affair until stop(). `stopping` fires when the manager ends; a
    /// channel that wants the manager to end (the user said goodbye) calls `request_stop` of its options' source.
    virtual Task<> start(std::stop_token stopping) = 0;
    virtual Task<> stop() = 0;

    /// Sends an answer.
    virtual Task<> send(Envelope message);
    /// Sees a turn's answer as it comes; gives what the turn goes on with.
    virtual EventStream stream_events(const Envelope& message, EventStream stream);
    /// Nothing: no opinion.
    virtual Task<std::optional<AdmitDecision>> admit_message(std::string session_id,
                                                             const Envelope& message,
                                                             TurnSnapshot turn);
};

/// Brings answers to the channels; bound to a Framework by whoever runs them. (Bub's ChannelRouter.)
class OutboundChannelRouter {
public:
    virtual ~OutboundChannelRouter() = default;
    /// May put itself between the model and the turn. Called for streaming callers only.
    virtual EventStream wrap_stream(const Envelope& message, EventStream stream) {
        (void)message;
        return stream;
    }
    /// All that a turn is about to say, in its order, before the first of it is dispatched: when there is more than one.
    virtual Task<> plan_outputs(std::string session_id, std::vector<Envelope> messages);
    /// The message of this number, from 0, of `count` is dispatched next.
    virtual void next_output(const std::string& session_id, std::size_t number, std::size_t count) {
        (void)session_id;
        (void)number;
        (void)count;
    }
    /// True when a channel took it.
    virtual Task<bool> dispatch_output(Envelope message) = 0;
    /// The opinion of the message's channel.
    virtual Task<std::optional<AdmitDecision>> admit_message(std::string session_id,
                                                             const Envelope& message,
                                                             TurnSnapshot turn);
    /// Drops all that waits for this session.
    virtual Task<> quit(std::string session_id);
    /// Ends the turn that runs. False when none runs.
    virtual bool cancel_turn(const std::string& session_id) {
        (void)session_id;
        return false;
    }
};

}  // namespace bub
