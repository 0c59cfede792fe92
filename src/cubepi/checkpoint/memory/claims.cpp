#include <cubepi/checkpoint/memory/claims.hpp>

#include <algorithm>

namespace cubepi::detail {

RunState MemoryClaims::run_state(const std::string& run_id) const {
    const auto thread = threads_.find(thread_id_);
    if (thread == threads_.end() || !thread->second.runs.contains(run_id)) return RunState::unknown;
    return thread->second.is_complete(run_id) ? RunState::complete : RunState::open;
}

std::vector<HeldClaim> MemoryClaims::claims() const {
    const auto thread = threads_.find(thread_id_);
    return thread == threads_.end() ? std::vector<HeldClaim>() : thread->second.claims;
}

void MemoryClaims::open_run(const std::string& run_id) {
    threads_[thread_id_].runs.try_emplace(run_id);
}

void MemoryClaims::complete_run(const std::string& run_id) {
    std::map<std::string, MemoryRun>& runs = threads_[thread_id_].runs;
    std::int64_t last = 0;
    for (const auto& [id, run] : runs) last = std::max(last, run.completion);
    runs[run_id].completion = last + 1;
    threads_[thread_id_].remove_answers_of(run_id);
}

void MemoryClaims::put_claim(const HeldClaim& claim) {
    remove_claim(claim.run_id);
    threads_[thread_id_].claims.push_back(claim);
}

void MemoryClaims::remove_claim(const std::string& run_id) {
    std::erase_if(threads_[thread_id_].claims,
                  [&](const HeldClaim& claim) { return claim.run_id == run_id; });
}

}  // namespace cubepi::detail
