#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <bub/channel.hpp>
#include <bub/framework.hpp>
#include <bub/questions.hpp>

namespace bub {

/// The facts about a turn that its scheduler needs.
struct TurnSummary {
    bool suspended = false;  ///< its session waits for an answer (B23)
    bool unread = false;  ///< its message was not read and must come again (OpenQuestions::unread)
    std::optional<AcceptedAnswer> answer = {};  ///< to a question, that its run has accepted
};

/// Returns the summary of a turn.
TurnSummary summary_of(const TurnResult& result);

/// Threads that run turns: each has an event loop and a framework of its own, so that plugins need no locks. All turns of a
/// session run on the same thread. Channels stay on the executor of their ChannelManager: the stream of an answer passes through
/// bounded queues to the channel and back, and outputs are dispatched there.
///
/// Objects that the frameworks share must be thread-safe: tape stores, tracers, meters and models are. In events that a channel
/// sees, `StreamEvent::agent_event` is null for updates of a message.
///
/// Used by a ChannelManager (ChannelManagerOptions::shards), on its executor.
class TurnShards {
public:
    /// Creates the framework of a thread, on that thread. Its plugins need no channels.
    using MakeFramework = std::function<std::unique_ptr<Framework>()>;

    /// Starts `count` threads, at least one. Rethrows the exception of `make`.
    TurnShards(std::size_t count, MakeFramework make);
    /// Ends the threads. No turn may be running.
    ~TurnShards();
    TurnShards(const TurnShards&) = delete;
    TurnShards& operator=(const TurnShards&) = delete;

    std::size_t size() const noexcept;

    /// Runs a turn on the thread of the session. `inbound` must not be used until it ends. Throws what
    /// Framework::process_inbound throws.
    Task<TurnSummary> run_turn(std::string_view session_id, std::shared_ptr<Envelope> inbound,
                               bool stream_output);

    /// Makes the functions of a message that is to steer a turn run on the executor of the manager, whatever thread calls them.
    void keep_here(Envelope& message) const;

    /// Connects the frameworks with the manager whose coroutine awaits this, and opens the lifespans of their plugins. Called once, before
    /// the first turn. `inbox` has the steering messages of the sessions; may be null.
    Task<> bind(std::shared_ptr<OutboundChannelRouter> router,
                std::shared_ptr<SteeringInbox> inbox);
    /// Disconnects them, after the last turn, and closes the lifespans. Must not be cancelled.
    Task<> unbind();

private:
    struct Shard;
    Shard& shard_of(std::string_view session_id) const;

    std::vector<std::unique_ptr<Shard>> shards_;
    std::optional<cubepi::Executor> front_;  ///< of the manager; empty: not bound
};

}  // namespace bub
