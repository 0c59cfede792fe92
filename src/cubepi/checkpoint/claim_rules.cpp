#include <cubepi/checkpoint/claim_rules.hpp>

#include <utility>

#include <cubepi/agent/claim_owner.hpp>
#include <cubepi/checkpoint/support/store_errors.hpp>

namespace cubepi {

ClaimRules::ClaimRules(ClaimTable& table, std::string thread_id, ClaimTime time)
    : table_(table), thread_id_(std::move(thread_id)), time_(time) {}

double ClaimRules::lease_end() const {
    return time_.now + std::chrono::duration<double>(time_.lease).count();
}

std::optional<HeldClaim> ClaimRules::claim_on(const std::string& run_id) const {
    for (HeldClaim& claim : table_.claims()) {
        if (claim.run_id == run_id) return std::move(claim);
    }
    return std::nullopt;
}

bool ClaimRules::holds(const std::string& run_id, const std::string& owner_id) const {
    const std::optional<HeldClaim> claim = claim_on(run_id);
    return claim && claim->owner.owner_id == owner_id;
}

void ClaimRules::check_abandoned(const HeldClaim& claim) const {
    const bool expired = claim.lease_until <= time_.now;
    if (!expired && !is_dead_owner(claim.owner)) detail::throw_thread_in_use(thread_id_, claim);
}

ClaimResult ClaimRules::apply(const ClaimChange& change) {
    const std::string& owner_id = change.owner.owner_id;
    switch (change.step) {
        case ClaimChange::Step::claim: return claim(change.run_id, change.owner, change.kind);
        case ClaimChange::Step::renew: renew(change.run_id, owner_id); break;
        case ClaimChange::Step::release: release(change.run_id, owner_id); break;
        case ClaimChange::Step::complete: complete(change.run_id, owner_id); break;
        case ClaimChange::Step::mark_complete: mark_complete(change.run_id); break;
    }
    return {};
}

ClaimResult ClaimRules::claim(const std::string& run_id, const ClaimOwner& owner, ClaimKind kind) {
    const RunState state = table_.run_state(run_id);
    if (state == RunState::complete) detail::throw_run_completed(thread_id_, run_id);
    if (state == RunState::open && kind != ClaimKind::continue_run)
        detail::throw_run_claimed(thread_id_, run_id);
    ClaimResult result;
    std::vector<std::string> superseded;
    for (const HeldClaim& claim : table_.claims()) {
        if (claim.owner.owner_id == owner.owner_id) continue;
        // CubePi completes a run without removing its claim.
        if (table_.run_state(claim.run_id) == RunState::open) {
            check_abandoned(claim);
            result.superseded = claim.owner;
            result.superseded_run_id = claim.run_id;
        }
        superseded.push_back(claim.run_id);
    }
    for (const std::string& run : superseded) table_.remove_claim(run);
    if (state == RunState::unknown) table_.open_run(run_id);
    if (!owner.owner_id.empty()) {
        HeldClaim claim;
        claim.run_id = run_id;
        claim.owner = owner;
        claim.lease_until = lease_end();
        table_.put_claim(claim);
    }
    return result;
}

void ClaimRules::renew(const std::string& run_id, const std::string& owner_id) {
    std::optional<HeldClaim> claim = claim_on(run_id);
    if (!claim || claim->owner.owner_id != owner_id) detail::throw_claim_lost(thread_id_, run_id);
    claim->lease_until = lease_end();
    table_.put_claim(*claim);
}

void ClaimRules::release(const std::string& run_id, const std::string& owner_id) {
    if (holds(run_id, owner_id)) table_.remove_claim(run_id);
}

void ClaimRules::require_claim(const std::string& run_id, const std::string& owner_id) const {
    if (!holds(run_id, owner_id)) detail::throw_claim_lost(thread_id_, run_id);
}

void ClaimRules::check_completion(const std::string& run_id, const std::string& owner_id) const {
    switch (table_.run_state(run_id)) {
        case RunState::unknown: detail::throw_run_not_claimed(thread_id_, run_id);
        case RunState::open: require_claim(run_id, owner_id); return;
        case RunState::complete: return;
    }
}

void ClaimRules::complete(const std::string& run_id, const std::string& owner_id) {
    check_completion(run_id, owner_id);
    mark_complete(run_id);
}

void ClaimRules::mark_complete(const std::string& run_id) {
    const RunState state = table_.run_state(run_id);
    if (state == RunState::unknown) detail::throw_run_not_claimed(thread_id_, run_id);
    if (state == RunState::open) table_.complete_run(run_id);
    table_.remove_claim(run_id);
}

}  // namespace cubepi
