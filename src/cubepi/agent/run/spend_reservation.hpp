#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <cubepi/agent/run_account.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/provider/provider.hpp>

namespace cubepi::detail {

/// The cost that one model call can have, reserved in the account of its run while the call is made (D120). It ends when the
/// object is destroyed or ended.
class SpendReservation {
public:
    SpendReservation() = default;
    SpendReservation(const SpendReservation&) = delete;
    SpendReservation& operator=(const SpendReservation&) = delete;
    ~SpendReservation() { end(0.0); }

    /// Reserves the cost of the request, and lowers the limit of its answer to what the account has left. Of a fallback chain, the
    /// dearest model counts. Returns the error of the run if that is too little, or if the price of a model is unknown. Does nothing
    /// if the account has no limit.
    std::optional<LimitReachedError> reserve(std::shared_ptr<RunAccount> account,
                                             const Provider& provider, ModelRequest& request);
    /// Returns what is reserved; empty if nothing is.
    std::optional<double> usd() const noexcept {
        return account_ ? std::optional<double>(usd_) : std::nullopt;
    }
    /// Ends the reservation for a call that cost `cost`; empty: unknown, so that all that was reserved counts.
    void end(std::optional<double> cost);

private:
    std::shared_ptr<RunAccount> account_;  // null: nothing is reserved
    double usd_ = 0.0;
};

/// Returns an upper estimate of the request's prompt in tokens: two bytes a token for the system prompt, the tools and the messages,
/// scaled up if the endpoint reported more than that for the last answer and what precedes it. The report alone is not enough:
/// tools and messages may have been added or restored before it. What the endpoint has compacted is not sent again, or not read;
/// `is_one_model`: no other model may answer.
std::int64_t most_prompt_tokens(const ModelRequest& request, bool is_one_model = true);

}  // namespace cubepi::detail
