#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <stop_token>
#include <vector>

#include <cubepi/agent/run/agent_impl.hpp>
#include <cubepi/agent/run/claim_keeper.hpp>
#include <cubepi/agent/run/limit_checks.hpp>
#include <cubepi/agent/run/prompt_scope.hpp>
#include <cubepi/agent/run/turn_loop.hpp>

namespace cubepi::detail {

/// One run of an agent, between claim and release.
class Attempt {
public:
    /// Throws Error(invalid_argument) if the options are invalid.
    Attempt(Agent::Impl& impl, SharedString run_id, std::stop_token token,
            const PromptOptions& options = {});

    RunCore& core() noexcept { return core_; }

    Task<void> claim(ClaimKind kind);
    Task<void> release();
    Task<RunResult> run(std::vector<Input> prompts);
    /// Continues the suspended run of this id.
    Task<RunResult> continue_run(OpenCalls open_calls);
    /// Starts and ends a run that was aborted before its context was available.
    Task<RunResult> abandon();

private:
    Task<RunResult> run(RunPlan plan);
    Task<RunResult> run_connected(RunPlan plan, Executor executor);
    Task<void> finish(RunOutcome outcome);
    Task<void> store_outcome(RunOutcome outcome);
    Task<void> report(Notice notice);
    Task<void> announce_circumstances();

    std::chrono::milliseconds max_duration() const;

    Agent::Impl& impl_;
    const std::unique_ptr<PromptScope> prompt_;  // null: the prompt has no settings of its own
    const RunParts parts_;
    RunCore core_;
    std::unique_ptr<ClaimKeeper> claim_;                   // null: none
    std::unique_ptr<const ClaimResult> superseded_claim_;  // null: nothing
    DurationLimit duration_limit_;
    std::exception_ptr listener_failure_;  // of a notice about the claim
    bool agent_destroyed_ = false;         // before the outcome was stored
};

}  // namespace cubepi::detail
