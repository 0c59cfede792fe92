#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/core/clock.hpp>
#include <cubepi/core/notice.hpp>
#include <cubepi/core/task_scope.hpp>

namespace cubepi::detail {

/// The claim of one run on its thread (D50): acquired when the run starts, renewed during the run, released if it ends
/// without completing.
///
/// A failed renewal is retried until the run ends, even after the lease has expired: as long as no other owner has
/// superseded the claim, a late renewal restores it. The run continues meanwhile. If another owner has superseded the
/// claim, the store rejects the run's next append.
class ClaimKeeper {
public:
    /// Receives the notices "claim_lease_ended" (no renewal succeeded for the length of the lease) and "claim_lost"
    /// (another owner has the claim). Must not throw.
    using Report = std::function<Task<void>(Notice)>;

    /// `clock` and `store` must outlive the keeper.
    ClaimKeeper(RunStore& store, Clock& clock, std::string thread_id, std::string run_id,
                std::string attempt_id, Report report);

    /// Throws RunAlreadyClaimedError, RunAlreadyCompletedError.
    Task<ClaimResult> claim(ClaimKind kind);
    /// Completes the run, which ends the claim. Throws StaleAppendError if the claim has been superseded.
    Task<void> complete();
    /// Releases the claim and leaves the run open. Ignores failures of the store: the lease will expire.
    Task<void> release();
    /// Stops the renewals and waits for one that is in progress. No notice is reported after that.
    Task<void> stop_renewing();

    const std::string& owner_id() const noexcept { return owner_.owner_id; }

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
    std::optional<BackgroundScope> renewals_;
    std::unique_ptr<ClockTimer> timer_;
};

}  // namespace cubepi::detail
