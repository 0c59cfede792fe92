#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/core/clock.hpp>
#include <cubepi/core/task_scope.hpp>

namespace cubepi::detail {

/// The claim of one run on its thread (D50): taken when the run begins, renewed while it lasts, given up when it
/// ends without completing.
class ClaimKeeper {
public:
    /// `clock` and `store` outlive the keeper.
    ClaimKeeper(RunStore& store, Clock& clock, std::string thread_id, std::string run_id,
                std::string attempt_id);

    /// Throws RunAlreadyClaimedError, RunAlreadyCompletedError.
    Task<ClaimResult> claim(ClaimKind kind);
    /// Completes the run, which ends the claim. Throws StaleAppendError when the claim was taken over.
    Task<void> complete();
    /// Gives the claim up and leaves the run open. A store that fails to is not a reason to fail the run: the
    /// lease runs out.
    Task<void> release();

    const std::string& owner_id() const noexcept { return owner_.owner_id; }

private:
    void arm();
    Task<void> renew();
    Task<void> stop_renewing();

    RunStore& store_;
    Clock& clock_;
    std::string thread_id_;
    std::string run_id_;
    ClaimOwner owner_;
    std::optional<BackgroundScope> renewals_;
    std::unique_ptr<ClockTimer> timer_;
};

}  // namespace cubepi::detail
