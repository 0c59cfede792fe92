#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/tape/tape_store.hpp>
#include <cubepi/checkpoint/claim_rules.hpp>

namespace bub::detail {

/// A tape's side state as used by a checkpointer: {"claims", "open_runs", "pending", "answers", "batches",
/// "answered"}.
class SideState {
public:
    explicit SideState(const JsonObject& state) : state_(state) {}

    bool is_open(const std::string& run_id) const;
    bool holds(const std::string& run_id, const std::string& owner_id) const;
    const JsonArray& list(std::string_view name) const;

    /// Returns the list with this name, creating it if missing.
    static JsonArray& edit(JsonObject& state, std::string_view name);
    /// Removes the mark and all answers of a run that completes (D62).
    static void remove_answers_of_run(JsonObject& state, const std::string& run_id);
    /// Removes empty lists.
    static void tidy(JsonObject& state);

private:
    const JsonObject& state_;
};

/// The runs and claims in a tape's side state. Completed runs are on the tape, not in the side state: `completed` is one
/// of them, known to the caller. A run whose completion event the caller appends remains open until complete_run().
class SideStateClaims final : public cubepi::ClaimTable {
public:
    explicit SideStateClaims(JsonObject& state, std::string completed = {})
        : state_(state), completed_(std::move(completed)) {}

    cubepi::RunState run_state(const std::string& run_id) const override;
    std::vector<cubepi::HeldClaim> claims() const override;
    void open_run(const std::string& run_id) override;
    void complete_run(const std::string& run_id) override;
    void put_claim(const cubepi::HeldClaim& claim) override;
    void remove_claim(const std::string& run_id) override;

private:
    JsonObject& state_;
    std::string completed_;
};

/// Throws StaleAppendError if one of the claims is no longer held (D50).
void check_claims(const JsonObject& state, const std::string& tape,
                  const std::vector<TapeClaim>& claims);

}  // namespace bub::detail
