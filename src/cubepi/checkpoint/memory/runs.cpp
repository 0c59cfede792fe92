#include <cubepi/checkpoint/memory/state.hpp>

#include <utility>

namespace cubepi {

Task<ClaimResult> MemoryCheckpointer::claim_run(std::string thread_id, std::string run_id,
                                                ClaimOwner owner, ClaimKind kind) {
    const std::lock_guard lock(state_->mutex);
    co_return state_->with_claims(
        thread_id, [&](ClaimRules& rules) { return rules.claim(run_id, owner, kind); });
}

Task<void> MemoryCheckpointer::renew_claim(std::string thread_id, std::string run_id,
                                           std::string owner_id) {
    const std::lock_guard lock(state_->mutex);
    state_->with_claims(thread_id, [&](ClaimRules& rules) { rules.renew(run_id, owner_id); });
    co_return;
}

Task<void> MemoryCheckpointer::release_claim(std::string thread_id, std::string run_id,
                                             std::string owner_id) {
    const std::lock_guard lock(state_->mutex);
    state_->with_claims(thread_id, [&](ClaimRules& rules) { rules.release(run_id, owner_id); });
    co_return;
}

Task<void> MemoryCheckpointer::mark_run_complete(std::string thread_id, std::string run_id) {
    const std::lock_guard lock(state_->mutex);
    state_->with_claims(thread_id, [&](ClaimRules& rules) { rules.mark_complete(run_id); });
    co_return;
}

Task<void> MemoryCheckpointer::complete_run(std::string thread_id, std::string run_id,
                                            std::string owner_id) {
    const std::lock_guard lock(state_->mutex);
    state_->with_claims(thread_id, [&](ClaimRules& rules) { rules.complete(run_id, owner_id); });
    co_return;
}

Task<bool> MemoryCheckpointer::is_run_complete(std::string thread_id, std::string run_id) {
    const std::lock_guard lock(state_->mutex);
    const detail::MemoryThread* thread = state_->find(thread_id);
    co_return thread && thread->is_complete(run_id);
}

}  // namespace cubepi
