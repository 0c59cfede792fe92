#pragma once

#include <functional>
#include <string>
#include <vector>

#include <bub/tape/tape_store.hpp>
#include <bub/tape/turn_lease.hpp>
#include <cubepi/checkpoint/claim_rules.hpp>
#include <cubepi/checkpoint/support/question_state.hpp>

// The side state of a tape as used by a checkpointer.

namespace bub::detail {

using cubepi::detail::pending_requests;

/// The claims and open runs in a tape's side state: {"claims", "open_runs"}. Its other lists are those of
/// cubepi::ThreadStates.
class SideState {
public:
    explicit SideState(const JsonObject& state) : state_(state) {}

    bool is_open(const std::string& run_id) const;
    bool holds(const std::string& run_id, const std::string& owner_id) const;
    /// Returns true if all claims are held (D50).
    bool holds_all(const std::vector<TapeClaim>& claims) const;

private:
    const JsonObject& state_;
};

/// The runs and claims in a tape's side state. Completed runs are on the tape, not in the side state: a run whose completion
/// event the caller appends remains open until complete_run().
class SideStateClaims final : public cubepi::ClaimTable {
public:
    explicit SideStateClaims(JsonObject& state) : state_(state) {}

    cubepi::RunState run_state(const std::string& run_id) const override;
    std::vector<cubepi::HeldClaim> claims() const override;
    void open_run(const std::string& run_id) override;
    void complete_run(const std::string& run_id) override;
    void put_claim(const cubepi::HeldClaim& claim) override;
    void remove_claim(const std::string& run_id) override;

private:
    JsonObject& state_;
};

/// Throws StaleAppendError if the owner does not hold the claim on the run (D50).
void check_claim(const JsonObject& state, const std::string& tape, const std::string& run_id,
                 const std::string& owner_id);
/// Does so for each of the claims.
void check_claims(const JsonObject& state, const std::string& tape,
                  const std::vector<TapeClaim>& claims);

/// Calls `edit` under a lease: claims of earlier leases of its session have expired, and claims that it makes or renews are marked
/// as those of this lease.
Json edit_under_lease(JsonObject& state, const TurnLease& lease,
                      const std::function<Json(JsonObject& state)>& edit);

}  // namespace bub::detail
