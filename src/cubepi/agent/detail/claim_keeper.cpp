#include <cubepi/agent/detail/claim_keeper.hpp>

#include <utility>

#include <cubepi/agent/claim_owner.hpp>

namespace cubepi::detail {

namespace {

/// A third of the stores' lease of 60 s: two renewals may fail before it runs out.
constexpr std::chrono::seconds renewal_interval(20);

}  // namespace

ClaimKeeper::ClaimKeeper(RunStore& store, Clock& clock, std::string thread_id, std::string run_id,
                         std::string attempt_id)
    : store_(store),
      clock_(clock),
      thread_id_(std::move(thread_id)),
      run_id_(std::move(run_id)),
      owner_(current_process_owner()) {
    // Two agents of one process are two owners.
    owner_.owner_id += "/" + attempt_id;
}

Task<ClaimResult> ClaimKeeper::claim(ClaimKind kind) {
    const Executor executor = co_await this_executor;
    ClaimResult result = co_await store_.claim_run(thread_id_, run_id_, owner_, kind);
    // A lost claim shows in the next append, which the store refuses.
    renewals_.emplace(executor, [](const std::exception_ptr&) {});
    timer_ = clock_.timer(executor);
    arm();
    co_return result;
}

void ClaimKeeper::arm() {
    timer_->expires_after(renewal_interval, [this] { renewals_->spawn(renew()); });
}

Task<void> ClaimKeeper::renew() {
    co_await store_.renew_claim(thread_id_, run_id_, owner_.owner_id);
    if (timer_) arm();
}

Task<void> ClaimKeeper::stop_renewing() {
    timer_.reset();
    if (renewals_ && renewals_->live() != 0) co_await renewals_->idle();
    renewals_.reset();
}

Task<void> ClaimKeeper::complete() {
    co_await stop_renewing();
    co_await store_.complete_run(thread_id_, run_id_, owner_.owner_id);
}

Task<void> ClaimKeeper::release() {
    co_await stop_renewing();
    try {
        co_await store_.release_claim(thread_id_, run_id_, owner_.owner_id);
    } catch (const Error&) {
    }
}

}  // namespace cubepi::detail
