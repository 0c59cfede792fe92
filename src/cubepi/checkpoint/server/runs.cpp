#include <string>
#include <utility>

#include <cubepi/checkpoint/claim_rules.hpp>
#include <cubepi/checkpoint/server/operations.hpp>
#include <cubepi/checkpoint/server/rows.hpp>

namespace cubepi::detail {

namespace {

/// Applies `change(ClaimRules&)` to the runs and claims of a thread.
template <class F>
auto change_claims(ServerStorePtr store, std::string thread_id, std::string run_id, F change)
    -> Task<std::invoke_result_t<F&, ClaimRules&>> {
    ServerPlan plan;
    plan.threads.push_back(thread_id);
    (void)add_claim_reads(plan.reads, thread_id, run_id);
    const std::chrono::seconds lease = store->options().lease;
    auto decide = [thread_id, change, lease](const ServerView& view, ServerBatch& writes) {
        ClaimSheet claims = read_claims(view.results, 0);
        ClaimRules rules(claims, thread_id, ClaimTime{view.now, lease});
        if constexpr (std::is_void_v<std::invoke_result_t<F&, ClaimRules&>>) {
            change(rules);
            write_claims(writes, thread_id, claims);
        } else {
            auto result = change(rules);
            write_claims(writes, thread_id, claims);
            return result;
        }
    };
    return server_write(std::move(store), std::move(plan), std::move(decide));
}

}  // namespace

Task<ClaimResult> claim_run(ServerStorePtr store, std::string thread_id, std::string run_id,
                            ClaimOwner owner, ClaimKind kind) {
    auto change = [run_id, owner, kind](ClaimRules& rules) {
        return rules.claim(run_id, owner, kind);
    };
    return change_claims(std::move(store), std::move(thread_id), run_id, std::move(change));
}

Task<void> renew_claim(ServerStorePtr store, std::string thread_id, std::string run_id,
                       std::string owner_id) {
    auto change = [run_id, owner_id](ClaimRules& rules) { rules.renew(run_id, owner_id); };
    return change_claims(std::move(store), std::move(thread_id), run_id, std::move(change));
}

Task<void> release_claim(ServerStorePtr store, std::string thread_id, std::string run_id,
                         std::string owner_id) {
    auto change = [run_id, owner_id](ClaimRules& rules) { rules.release(run_id, owner_id); };
    return change_claims(std::move(store), std::move(thread_id), run_id, std::move(change));
}

Task<void> mark_run_complete(ServerStorePtr store, std::string thread_id, std::string run_id) {
    auto change = [run_id](ClaimRules& rules) { rules.mark_complete(run_id); };
    return change_claims(std::move(store), std::move(thread_id), run_id, std::move(change));
}

Task<void> complete_run(ServerStorePtr store, std::string thread_id, std::string run_id,
                        std::string owner_id) {
    auto change = [run_id, owner_id](ClaimRules& rules) { rules.complete(run_id, owner_id); };
    return change_claims(std::move(store), std::move(thread_id), run_id, std::move(change));
}

Task<bool> is_run_complete(ServerStorePtr store, std::string thread_id, std::string run_id) {
    ServerBatch reads;
    reads
        .add(
            "SELECT 1 FROM cubepi_runs WHERE thread_id = $1 AND run_id = $2"
            " AND completed_at IS NOT NULL")
        .text(thread_id)
        .text(run_id);
    auto convert = [](const ServerResults& results) { return results[0].rows() > 0; };
    return server_read(std::move(store), std::move(reads), std::move(convert));
}

}  // namespace cubepi::detail
