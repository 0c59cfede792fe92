#pragma once

#include <memory>
#include <string>
#include <vector>

#include <cubepi/agent/agent.hpp>
#include <cubepi/agent/run/event_hub.hpp>
#include <cubepi/agent/run/input_queue.hpp>
#include <cubepi/agent/run/run_core.hpp>
#include <cubepi/agent/run/thread_log.hpp>
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

}  // namespace cubepi
