#include <cubepi/checkpoint/claimed_runs.hpp>

#include <utility>

namespace cubepi {

namespace {

using Step = ClaimChange::Step;
using ClaimsPtr = std::shared_ptr<ClaimTransactions>;

Task<void> change_claim(ClaimsPtr claims, std::string thread_id, Step step, std::string run_id,
                        std::string owner_id) {
    ClaimChange change;
    change.step = step;
    change.run_id = std::move(run_id);
    change.owner.owner_id = std::move(owner_id);
    (void)co_await claims->change_claim(std::move(thread_id), std::move(change));
}

}  // namespace

ClaimedRuns::ClaimedRuns(std::shared_ptr<ClaimTransactions> claims) : claims_(std::move(claims)) {}

ClaimedRuns::~ClaimedRuns() = default;

Task<ClaimResult> ClaimedRuns::claim_run(std::string thread_id, std::string run_id,
                                         ClaimOwner owner, ClaimKind kind) {
    ClaimChange change;
    change.run_id = std::move(run_id);
    change.owner = std::move(owner);
    change.kind = kind;
    return claims_->change_claim(std::move(thread_id), std::move(change));
}

Task<void> ClaimedRuns::renew_claim(std::string thread_id, std::string run_id,
                                    std::string owner_id) {
    return change_claim(claims_, std::move(thread_id), Step::renew, std::move(run_id),
                        std::move(owner_id));
}

Task<void> ClaimedRuns::release_claim(std::string thread_id, std::string run_id,
                                      std::string owner_id) {
    return change_claim(claims_, std::move(thread_id), Step::release, std::move(run_id),
                        std::move(owner_id));
}

Task<void> ClaimedRuns::mark_run_complete(std::string thread_id, std::string run_id) {
    return change_claim(claims_, std::move(thread_id), Step::mark_complete, std::move(run_id), {});
}

Task<void> ClaimedRuns::complete_run(std::string thread_id, std::string run_id,
                                     std::string owner_id) {
    return change_claim(claims_, std::move(thread_id), Step::complete, std::move(run_id),
                        std::move(owner_id));
}

Task<bool> ClaimedRuns::is_run_complete(std::string thread_id, std::string run_id) {
    return claims_->is_run_complete(std::move(thread_id), std::move(run_id));
}

}  // namespace cubepi
