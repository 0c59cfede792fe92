#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <bub/tape/tape_store.hpp>
#include <cubepi/checkpoint/claims/claim_rules.hpp>

namespace bub::detail {

/// A tape's side state as used by a checkpointer: {"claims", "open_runs", "pending", "answers"}.
class SideState {
public:
    explicit SideState(const JsonObject& state) : state_(state) {}

    bool is_open(const std::string& run_id) const;
    bool holds(const std::string& run_id, const std::string& owner_id) const;
    const JsonArray& list(std::string_view name) const;

    static cubepi::detail::HeldClaim read_claim(const JsonObject& json);
    static JsonObject claim_json(const cubepi::detail::HeldClaim& claim);
    /// Returns the list with this name, creating it if missing.
    static JsonArray& edit(JsonObject& state, std::string_view name);
    /// Removes empty lists.
    static void tidy(JsonObject& state);

private:
    const JsonObject& state_;
};

/// Returns the text under `key`; empty if absent.
std::string state_text(const JsonObject& object, std::string_view key);

/// Throws StaleAppendError if one of the claims is no longer held (D50).
void check_claims(const JsonObject& state, const std::string& tape,
                  const std::vector<TapeClaim>& claims);

}  // namespace bub::detail
