#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include <cubepi/agent/agent.hpp>
#include <cubepi/agent/detail/event_hub.hpp>
#include <cubepi/agent/detail/inbox.hpp>
#include <cubepi/agent/detail/thread_log.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/provider/prefix_guard.hpp>

namespace cubepi::detail {

/// What a run works with. Everything outlives the run.
struct RunParts {
    BoundModel model = {};
    const HookSet* hooks = nullptr;
    ExecutionMode tool_execution = ExecutionMode::parallel;
    AgentLimits limits = {};
    PayloadHook on_payload = {};
    ResponseHook on_response = {};
    std::shared_ptr<SpillSink> spill = {};
    std::shared_ptr<const Runtime> runtime = {};
    AgentState* state = nullptr;
    EventHub* hub = nullptr;
    ThreadLog* log = nullptr;
    InputSource* inputs = nullptr;
    PrefixGuard* prefix_guard = nullptr;  ///< null: nobody looks
};

/// What every part of a run shares: its identity, its events, its messages, its abort.
class RunCore {
public:
    RunCore(const RunParts& parts, std::string run_id, std::stop_token stop);

    const RunParts& parts() const noexcept { return parts_; }
    AgentState& state() const noexcept { return *parts_.state; }
    const Runtime& runtime() const noexcept { return *parts_.runtime; }
    const SharedString& run_id() const noexcept { return run_id_; }
    const RunInfo& info() const noexcept { return *event_.run; }
    std::uint32_t turn() const noexcept { return event_.turn; }
    void next_turn() noexcept { ++event_.turn; }
    const std::stop_token& stop_token() const noexcept { return stop_; }
    bool stopped() const noexcept { return stop_.stop_requested(); }
    const MessageList& new_messages() const noexcept { return new_messages_; }
    const Usage& usage() const noexcept { return usage_; }
    /// USD so far; absent: not known.
    std::optional<double> spent() const noexcept { return spent_; }
    /// Adds what an answer used and cost.
    void count(const AssistantMessage& answer);
    double wall_seconds() const;

    /// Updates the state and delivers the event. Empty when that is done, else the rest of it to await.
    /// Throws ListenerFailed after all listeners had the event.
    [[nodiscard]] std::optional<Task<void>> emit(AgentEvent::Body body);
    /// A message begins: message_start, then what finish() does.
    Task<void> announce(Message message);
    /// Stores the message (storage first, then memory) and delivers message_end.
    [[nodiscard]] std::optional<Task<void>> finish(Message message);
    /// Answers what is open at the end of the history (D1, D37), announced and stored.
    Task<void> close_open_calls();
    /// Puts queued inputs into the history. What does not get there goes back to where it came from.
    Task<void> take_in(std::vector<Input> inputs, bool steering);
    Task<void> notice(Notice notice);

    HookContext hook_context();
    /// Runs a hook so that an abort ends it.
    template <class T>
    Task<T> call_hook(Task<T> hook) const {
        return cancel_on(stop_, std::move(hook));
    }

private:
    Task<void> emit_later(AgentEvent event);
    Task<void> finish_stored(Message message);
    void update_state(const AgentEvent::Body& body);
    Message stamped(Message message) const;

    const RunParts& parts_;
    SharedString run_id_;
    std::stop_token stop_;
    AgentEvent event_;
    MessageList new_messages_;
    Usage usage_;
    std::optional<double> spent_ = 0.0;
};

}  // namespace cubepi::detail
