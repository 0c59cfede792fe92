#pragma once

#include <exception>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/agent/agent.hpp>
#include <cubepi/agent/run/event_hub.hpp>
#include <cubepi/agent/run/input_queue.hpp>
#include <cubepi/agent/run/run_core.hpp>
#include <cubepi/agent/run/thread_log.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/provider/prefix_guard.hpp>

namespace cubepi {

/// The data of an agent. Shared with its runs, so that it outlives them if the Agent is destroyed.
struct Agent::Impl {
    explicit Impl(AgentOptions options);

    /// The settings that most agents leave at their defaults.
    struct Settings {
        HookSet hooks = {};
        ExecutionMode tool_execution = ExecutionMode::parallel;
        AgentLimits limits = {};
        PayloadHook on_payload = {};
        ResponseHook on_response = {};
        std::shared_ptr<SpillSink> spill = {};
        std::shared_ptr<HitlChannel> channel = {};
        std::vector<BoundModel> middleware_models = {};
        std::vector<SharedString> middleware_tools = {};                 // names
        std::unique_ptr<detail::ActiveQuestions> active_questions = {};  // null: no channel
    };
    const Settings& settings() const noexcept;
    detail::RunParts parts() noexcept;

    // A process may have many idle agents: members that not all of them need are created on demand.
    std::shared_ptr<Provider> provider;  // of state.model
    std::shared_ptr<const Runtime> runtime;
    std::unique_ptr<Settings> own_settings;  // null: the defaults
    AgentState state;
    // The two members after the hub lie in its tail padding.
    [[no_unique_address]] detail::EventHub hub;
    bool destroyed = false;  // the Agent is gone; its run ends as aborted
    detail::SerialCheck serial;
    detail::InputQueue input_queue;
    detail::ThreadLog log;
    PrefixGuard prefix_guard;
    std::unique_ptr<AsyncEvent> idle;  // pulsed at the end of a run; null until a coroutine waits
};

struct AgentRun::State {
    /// Starts the run. Called once.
    using Work = std::function<Task<RunResult>(std::shared_ptr<Agent::Impl>)>;

    State(std::shared_ptr<Agent::Impl> i, Work w, PromptOptions opt)
        : impl(std::move(i)), work(std::move(w)), options(std::move(opt)) {}

    std::shared_ptr<Agent::Impl> impl;
    Work work;
    PromptOptions options;
    AsyncQueue<AgentEvent> events{1};
    std::size_t pushed = 0;   // events that entered the queue
    std::size_t taken = 0;    // events that next() has returned
    std::size_t handled = 0;  // of these; the caller has requested the one after them
    AsyncEvent request;       // set by the next call of next()
    Subscription subscription;
    std::optional<BackgroundScope> scope;
    std::optional<RunResult> result;
    std::exception_ptr failure;
    std::stop_source waiting{std::nostopstate};  // while waiting for the end of an aborted run
    bool started = false;
    bool begun = false;  // the run itself
    bool dropped = false;

    void abort() {
        if (waiting.stop_possible()) {
            waiting.request_stop();
        } else {
            impl->input_queue.abort();
        }
    }
};

}  // namespace cubepi
