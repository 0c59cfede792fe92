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
/// object is destroyed or settled.
class SpendReservation {
public:
    SpendReservation() = default;
    SpendReservation(const SpendReservation&) = delete;
    SpendReservation& operator=(const SpendReservation&) = delete;
    ~SpendReservation() { settle(0.0); }

    /// Reserves the cost of the request, and lowers the limit of its answer to what the account has left. Returns the error of
    /// the run if that is too little, or if the price of the model is unknown. Does nothing if the account has no limit.
    std::optional<LimitReachedError> reserve(std::shared_ptr<RunAccount> account,
                                             ModelRequest& request);
    /// Ends the reservation for a call that cost `cost`; empty: unknown, so that all that was reserved counts.
    void settle(std::optional<double> cost);

private:
    std::shared_ptr<RunAccount> account_;  // null: nothing is reserved
    double usd_ = 0.0;
};

/// Returns an upper estimate of the request's prompt in tokens: what the endpoint reported for the last answer, with two bytes a
/// token for what was added since.
std::int64_t most_prompt_tokens(const ModelRequest& request);

}  // namespace cubepi::detail
