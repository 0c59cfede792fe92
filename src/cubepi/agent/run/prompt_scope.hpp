#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>

#include <cubepi/agent/run/agent_impl.hpp>
#include <cubepi/agent/run/answer_task.hpp>
#include <cubepi/agent/run/prompt_settings.hpp>

namespace cubepi::detail {

/// The settings of a prompt in effect: replaces the agent's model while it exists, and aborts the run when the prompt's stop
/// token is stopped.
class PromptScope {
public:
    /// Returns null if the options have no settings that replace those of the agent. Throws like MakeAnswerTask.
    static std::unique_ptr<PromptScope> enter(Agent::Impl& impl, const PromptOptions& options);
    PromptScope(Agent::Impl& impl, std::shared_ptr<const PromptSettings> settings);
    ~PromptScope();
    PromptScope(const PromptScope&) = delete;
    PromptScope& operator=(const PromptScope&) = delete;

    /// Replaces the settings of the agent.
    void apply(RunParts& parts) const;
    AnswerTask* answer_task() const noexcept { return answer_.get(); }
    /// Returns the limit of the run that starts now; zero: none.
    std::chrono::milliseconds max_duration(std::chrono::milliseconds of_agent,
                                           std::chrono::steady_clock::time_point now) const;

private:
    void replace_model();

    Agent::Impl& impl_;
    const std::shared_ptr<const PromptSettings> settings_;
    BoundModel replaced_;                 // of the agent; empty: the model was not replaced
    std::shared_ptr<const Model> model_;  // of the run; null: that of the agent
    std::unique_ptr<AnswerTask> answer_;  // null: any text
    std::optional<std::stop_callback<std::function<void()>>> forward_;
};

}  // namespace cubepi::detail
