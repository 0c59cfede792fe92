#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/provider/observers.hpp>
#include <cubepi/provider/provider.hpp>

namespace cubepi {

/// A model of a chain that was passed over, and what came after it.
struct Failover {
    enum class Cause : std::uint8_t {
        failed,          ///< it was asked and failed
        cooling_down,    ///< it failed a short while ago and is left alone
        context_window,  ///< the request does not fit it
    };
    Cause cause = Cause::failed;
    Model from = {};
    std::optional<Model> to = {};  ///< absent: no model is left
    std::string reason = {};       ///< for people; for `failed` the model's error text
    ErrorInfo error = {};
};
std::string_view to_string(Failover::Cause cause) noexcept;

namespace detail {
CUBEPI_DETAIL_SLOT(failover_observer,
                   "a failover observer must be callable with (const Failover&) and return void or "
                   "Task<void>")
}  // namespace detail

/// `callback(const Failover&)`; returns void or a Task<void>, which is awaited.
using FailoverObserver = detail::Observer<detail::failover_observer_slot, Failover>;

struct FallbackOptions {
    /// What makes the chain go on. `unavailable` stands for all that the network does as well (CubePi's
    /// ProviderUnavailable). An abort never does.
    std::set<ErrorCode> trigger_errors = {ErrorCode::rate_limited, ErrorCode::unavailable,
                                          ErrorCode::context_length, ErrorCode::model_not_found};
    /// For how long a model that failed is left alone, by all runs that share the chain; longer where the endpoint
    /// said so (retry-after, up to an hour). A prompt that was too long is no reason. Zero: never.
    std::chrono::nanoseconds cool_down = std::chrono::seconds(30);
    /// Told of each model that was passed over, besides the `notice` of the stream. What it throws becomes a
    /// `notice`.
    std::optional<FailoverObserver> on_failover = {};
};

/// Several models as one: when a model fails before it has said anything, the next one is asked.
///
///     FallbackBoundModel model({openai.model("gpt-5.1"), claude.model("claude-sonnet-4-5")});
///     Agent agent({.model = model});
///
/// - Each model is asked with its own provider's retries; then the chain goes on, for errors of `trigger_errors`
///   only. Never once text, thinking or a call has been shown.
/// - Each model that is passed over is a `notice` event with the code "failover".
/// - The answer's `provider_id` and `model_id` say which model it is of.
/// - The model that answered stays for the rest of the run; the next run starts at the first again. A model in its
///   cool-down is asked only when nothing else is left.
/// - A model whose context window is known and smaller than the request (estimated) is passed over.
/// - When all have failed, the error lists what each one said.
///
/// It is a BoundModel: pass it on by value wherever one is taken. Copies share cool-downs. `spec()` is the first
/// model's. Observers belong to the providers of the chain's models. Any thread may call any member.
class FallbackBoundModel : public BoundModel {
public:
    /// Throws Error(invalid_argument) when the chain is empty or a model of it has no provider.
    explicit FallbackBoundModel(std::vector<BoundModel> chain, FallbackOptions options = {});

    const std::vector<BoundModel>& chain() const noexcept;
};

}  // namespace cubepi
