#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/agent/run/agent_impl.hpp>
#include <cubepi/agent/run/limit_checks.hpp>
#include <cubepi/agent/run/prompt_settings.hpp>
#include <cubepi/agent/run/turn_loop.hpp>
#include <cubepi/core/clock.hpp>
#include <cubepi/core/notice.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task_scope.hpp>

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

/// Returns true if the store has refused a claim, so that it cannot have it.
bool is_claim_refusal(const std::exception_ptr& failure);

/// The claim of one run on its thread (D50): acquired when the run starts, renewed during the run, released if it ends
/// without completing.
///
/// A failed renewal is retried until the run ends, even after the lease has expired: as long as no other owner has
/// superseded the claim, a late renewal restores it. The run continues meanwhile. If another owner has superseded the
/// claim, the store rejects the run's next append.
class LeaseRenewer {
public:
    /// Receives the notices "claim_lease_ended" (no renewal succeeded for the length of the lease) and "claim_lost"
    /// (another owner has the claim). Must not throw.
    using Report = std::function<Task<void>(Notice)>;

    /// `clock` and `store` must outlive the keeper.
    LeaseRenewer(RunStore& store, Clock& clock, std::string thread_id, std::string run_id,
                 std::string attempt_id, Report report);
    LeaseRenewer(const LeaseRenewer&) = delete;
    LeaseRenewer& operator=(const LeaseRenewer&) = delete;
    ~LeaseRenewer();

    /// Throws RunAlreadyClaimedError, RunAlreadyCompletedError.
    Task<ClaimResult> claim(ClaimKind kind);
    /// Completes the run, which ends the claim. Throws StaleAppendError if the claim has been superseded.
    Task<void> complete();
    /// Releases the claim and leaves the run open. If the store fails, the owner is recorded as ended, so that the
    /// next claim of this process does not wait for the end of the lease.
    Task<void> release();
    /// Stops the renewals and waits for one that is in progress. No notice is reported after that.
    Task<void> stop_renewing();

    const std::string& owner_id() const noexcept { return owner_.owner_id; }
    /// True if a renewal has found that another owner has the claim.
    bool is_lost() const noexcept { return is_lost_; }

private:
    void renew_after(std::chrono::nanoseconds delay);
    Task<void> renew();
    std::chrono::nanoseconds lease_left() const;
    Task<void> report_lease_end();
    Task<void> report_loss();

    RunStore& store_;
    Clock& clock_;
    std::string thread_id_;
    std::string run_id_;
    ClaimOwner owner_;
    Report report_;
    Clock::time_point renewed_at_ = {};
    bool lease_end_reported_ = false;
    bool may_hold_ = false;  ///< the store may have the claim
    bool is_lost_ = false;
    std::optional<BackgroundScope> renewals_;
    std::unique_ptr<ClockTimer> timer_;
};

/// One run of an agent, between claim and release.
class PromptRun {
public:
    /// Throws Error(invalid_argument) if the options are invalid.
    PromptRun(Agent::Impl& impl, SharedString run_id, std::stop_token token,
              const PromptOptions& options = {});

    RunCore& core() noexcept { return core_; }

    /// Claims the thread, awaits `task`, and releases the claim, whichever way `task` ended. Does not start `task` if the
    /// claim fails.
    template <class T>
    Task<T> with_claim(ClaimKind kind, Task<T> task) {
        co_await claim(kind);
        co_return co_await with_cleanup(std::move(task), release());
    }
    /// `continued_input`: see RunPlan.
    Task<RunResult> run(std::vector<Input> prompts,
                        std::optional<std::string> continued_input = std::nullopt);
    /// Continues the suspended run of this id.
    Task<RunResult> continue_run(OpenCalls open_calls, std::string input_id = {});
    /// Starts and ends a run that was aborted before its context was available.
    Task<RunResult> abandon();

private:
    Task<void> claim(ClaimKind kind);
    Task<void> release();
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
    std::unique_ptr<LeaseRenewer> claim_;                  // null: none
    std::unique_ptr<const ClaimResult> superseded_claim_;  // null: nothing
    DurationLimit duration_limit_;
    std::exception_ptr listener_failure_;  // of a notice about the claim
    bool agent_destroyed_ = false;         // before the outcome was stored
};

}  // namespace cubepi::detail
