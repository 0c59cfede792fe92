#include <cubepi/agent/run/claim_keeper.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/agent/claim_owner.hpp>
#include <cubepi/agent/run/store_call.hpp>
#include <cubepi/core/cancellation.hpp>

namespace cubepi::detail {

namespace {

/// The stores' default.
constexpr std::chrono::seconds lease(60);
constexpr std::chrono::seconds renewal_interval(20);
/// After a failed renewal: eight more attempts before the lease expires.
constexpr std::chrono::seconds retry_interval(5);

}  // namespace

ClaimKeeper::ClaimKeeper(RunStore& store, Clock& clock, std::string thread_id, std::string run_id,
                         std::string attempt_id, Report report)
    : store_(store),
      clock_(clock),
      thread_id_(std::move(thread_id)),
      run_id_(std::move(run_id)),
      owner_(current_process_owner()),
      report_(std::move(report)) {
    // Two agents of one process are different owners.
    owner_.owner_id += "/" + attempt_id;
}

Task<ClaimResult> ClaimKeeper::claim(ClaimKind kind) {
    const Executor executor = co_await this_executor;
    renewed_at_ = clock_.now();
    auto call = [this, kind] { return store_.claim_run(thread_id_, run_id_, owner_, kind); };
    Task<ClaimResult> claiming = store_call("claim the run", thread_id_, std::move(call));
    ClaimResult result = co_await std::move(claiming);
    renewals_.emplace(executor, [](const std::exception_ptr&) {});
    timer_ = clock_.timer(executor);
    renew_after(renewal_interval);
    co_return result;
}

std::chrono::nanoseconds ClaimKeeper::lease_left() const {
    return renewed_at_ + lease - clock_.now();
}

void ClaimKeeper::renew_after(std::chrono::nanoseconds delay) {
    timer_->expires_after(delay, [this] { renewals_->spawn(renew()); });
}

Task<void> ClaimKeeper::renew() {
    const Clock::time_point asked = clock_.now();
    // The lease may also expire while the store does not respond.
    timer_->expires_at(renewed_at_ + lease, [this] { renewals_->spawn(report_lease_end()); });
    std::exception_ptr failure;
    bool lost = false;
    try {
        co_await store_.renew_claim(thread_id_, run_id_, owner_.owner_id);
    } catch (const StaleAppendError&) {
        lost = true;
    } catch (const RunAlreadyCompletedError&) {
        lost = true;
    } catch (...) {
        failure = std::current_exception();
    }
    if (!timer_) co_return;
    if (lost) {
        timer_->cancel();
        co_await report_loss();
    } else if (failure) {
        const std::chrono::nanoseconds left = lease_left();
        const bool ended = left.count() <= 0;
        renew_after(ended ? retry_interval
                          : std::min<std::chrono::nanoseconds>(left, retry_interval));
        if (ended) co_await report_lease_end();
    } else {
        renewed_at_ = asked;
        lease_end_reported_ = false;
        renew_after(renewal_interval);
    }
}

Task<void> ClaimKeeper::report_lease_end() {
    if (std::exchange(lease_end_reported_, true)) co_return;
    Notice notice;
    notice.code = "claim_lease_ended";
    notice.text = "The claim of this run was not renewed for " + std::to_string(lease.count()) +
                  " s, because the checkpointer failed or did not answer. Another process may take "
                  "the thread "
                  "over; then the next append of this run fails. Renewal is still retried.";
    notice.details["run_id"] = run_id_;
    co_await report_(std::move(notice));
}

Task<void> ClaimKeeper::report_loss() {
    Notice notice;
    notice.code = "claim_lost";
    notice.text = "Another process has taken the thread over; the next append of this run fails.";
    notice.details["run_id"] = run_id_;
    co_await report_(std::move(notice));
}

Task<void> ClaimKeeper::stop_renewing() {
    timer_.reset();
    if (renewals_ && renewals_->live() != 0) co_await renewals_->idle();
    renewals_.reset();
}

Task<void> ClaimKeeper::complete() {
    co_await stop_renewing();
    auto call = [this] { return store_.complete_run(thread_id_, run_id_, owner_.owner_id); };
    Task<void> completing = store_call("complete the run", thread_id_, std::move(call));
    co_await std::move(completing);
}

Task<void> ClaimKeeper::release() {
    co_await stop_renewing();
    try {
        co_await store_.release_claim(thread_id_, run_id_, owner_.owner_id);
    } catch (...) {
        if (is_cancellation(std::current_exception())) throw;
    }
}

}  // namespace cubepi::detail
