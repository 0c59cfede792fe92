#pragma once

#include <memory>
#include <optional>

#include <cubepi/agent/agent.hpp>
#include <cubepi/tracing/recorder/stream_file.hpp>
#include <cubepi/tracing/recorder/tracer_core.hpp>

namespace cubepi::detail {

/// Turns the events of one agent into spans. Used on the agent's executor.
class AgentRecorder {
public:
    AgentRecorder(std::shared_ptr<TracerCore> core, Agent& agent);
    ~AgentRecorder() { detach(); }
    AgentRecorder(const AgentRecorder&) = delete;
    AgentRecorder& operator=(const AgentRecorder&) = delete;

    /// Subscribes to the agent, which must outlive the subscription or be destroyed with it.
    static std::shared_ptr<AgentRecorder> attach(std::shared_ptr<TracerCore> core, Agent& agent);
    void detach() noexcept;

private:
    void on_event(const AgentEvent& event) noexcept;
    void record(const AgentEvent& event);
    void record_update(const AgentEvent& event);
    void start_run(const AgentEvent& event);
    void end_run(const AgentEndEvent& event, RunTrace::Time now);
    void suspend_run(const AgentSuspendedEvent& event, RunTrace::Time now);
    void on_question(const HitlRequestEvent& event, RunTrace::Time now);
    void on_question_end();
    void on_notice(const Notice& notice, RunTrace::Time now);
    void follow_model();
    void link_to_suspended_run();
    ToolFacts facts_of(const SharedString& tool_name) const;
    void forget_run() noexcept;

    const std::shared_ptr<TracerCore> core_;
    Agent& agent_;  // used in its listener only
    Subscription subscription_;
    ProviderWatch::Lease providers_;
    std::shared_ptr<const Model> model_;  // whose providers are observed
    std::shared_ptr<RunTrace> run_;       // null: none is active
    std::optional<StreamFile> stream_file_;
    std::size_t open_questions_ = 0;
    bool has_stored_context_ = false;  // in the thread's `extra`
};

}  // namespace cubepi::detail
