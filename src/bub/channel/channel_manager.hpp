#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include <bub/admission.hpp>
#include <bub/channel.hpp>
#include <bub/channel/debounce.hpp>
#include <bub/channel/delivery_log.hpp>
#include <bub/framework.hpp>
#include <bub/warning_handler.hpp>

namespace bub {

namespace detail {
class ManagerCore;
}

struct ChannelManagerOptions {
    /// Names of channels; "all": every chat service that is configured; "!name": not this one.
    std::vector<std::string> channels = {"all"};
    /// Turns stream their answers through their channel.
    bool stream_output = false;
    DebounceOptions debounce = {};
    /// Messages of one session that wait, for admission or for their turn; more are refused, and told so (B14).
    std::size_t max_waiting = 32;
    /// The same for all sessions together.
    std::size_t max_waiting_in_all = 4096;
    /// How long a channel may take to start and to stop.
    std::chrono::nanoseconds start_limit = std::chrono::seconds(30);
    std::chrono::nanoseconds stop_limit = std::chrono::seconds(10);
    /// What survives the process (docs/guides/bub/surfaces.md). Null: nothing does.
    std::shared_ptr<DeliveryLog> deliveries = {};
    /// Told of what concerns an operator and no turn: a channel that does not stop, answers that are held. Never of message
    /// bodies (B13). May be absent.
    WarningHandler on_warning = {};
};

/// What an operator has to decide about (B18).
struct HeldMessages {
    std::vector<StoredInbound> inbounds = {};  ///< their turns ended the process, or were commands
    std::vector<Delivery> answers = {};        ///< nobody knows whether they were sent
};

/// Runs the channels of a framework: takes their messages in, admits them, and gives each session one turn at a time, in
/// order of arrival (B8). A session that hangs holds up no other one. Nothing is kept of a session that is idle.
///
/// What a channel hands in either becomes a turn, or steers one, or is dropped because admission said so, or is refused: then
/// the sender was told (too many messages) or the observers were (a hook that failed), and the handler throws.
///
/// With a delivery log (B18) a handler completes only when its message is stored, and each answer is stored before it is sent.
/// What an earlier process left is taken up at the start: a message whose turn did not end comes again, once and with
/// `redelivered: true` in its context, unless it was being answered; an answer of unknown fate goes by its channel's policy.
///
/// Used on the executor on which run() is awaited; request_stop may be called from any thread. The framework outlives it.
class ChannelManager {
public:
    ChannelManager(Framework& framework, ChannelManagerOptions options = {});
    ~ChannelManager();
    ChannelManager(const ChannelManager&) = delete;
    ChannelManager& operator=(const ChannelManager&) = delete;

    /// The channels that `options.channels` means, in the order in which they are started. Asks the plugins once.
    Task<std::vector<std::shared_ptr<Channel>>> enabled_channels();

    /// Starts the channels, serves them until `stop` (or request_stop), cancels the turns, stops the channels. When a
    /// channel does not start, exactly those that had started are stopped, and its error is thrown.
    /// Throws Error(not_found) when no channel is enabled. Once per manager.
    Task<> run(std::stop_token stop = {});
    void request_stop();

    /// Takes a message in, as a channel's handler does.
    Task<> receive(Envelope message);

    /// Ends the turn that runs; what waits comes next. False when none runs.
    bool cancel_turn(const std::string& session_id);
    /// Ends the turn that runs and drops all that waits.
    Task<> abort_session(std::string session_id);
    TurnSnapshot snapshot(const std::string& session_id) const;
    /// Sessions of which something runs or waits.
    std::size_t busy_sessions() const;
    /// Waits until none is busy, and what an earlier process left is taken up.
    Task<> idle();

    /// What waits for an operator's decision. Empty without a delivery log.
    Task<HeldMessages> held();
    /// Sends a held answer, or takes a held message in, with those that were one prompt with it. Throws Error(not_found) for what is not held, and what the channel throws.
    Task<> release_held(std::string id);
    /// Forgets it.
    Task<> discard_held(std::string id);

private:
    std::shared_ptr<detail::ManagerCore> core_;
};

}  // namespace bub
