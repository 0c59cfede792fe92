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

/// A model of a chain that was skipped, and the model that follows it.
struct Failover {
    enum class Cause : std::uint8_t {
        failed,          ///< it was called and failed
        cooling_down,    ///< it failed recently and is not called yet
        context_window,  ///< the request does not fit its context window
    };
    Cause cause = Cause::failed;
    Model from = {};
    std::optional<Model> to = {};  ///< absent: no model is left
    std::string reason = {};       ///< readable text; for `failed` the error text of the model
    ErrorInfo error = {};
};
std::string_view to_string(Failover::Cause cause) noexcept;

/// A call that the provider of a model of the chain repeats.
struct ModelRetry {
    Model model = {};
    int attempt = 0;                     ///< of this model: 1 is the first repetition
    std::chrono::milliseconds delay{0};  ///< before the repetition
    std::string reason = {};             ///< the text of the notice
};

namespace detail {
CUBEPI_DETAIL_SLOT(failover_observer,
                   "a failover observer must be callable with (const Failover&) and return void or "
                   "Task<void>")
CUBEPI_DETAIL_SLOT(retry_observer,
                   "a retry observer must be callable with (const ModelRetry&) and return void or "
                   "Task<void>")
}  // namespace detail

/// `callback(const Failover&)`; returns void or a Task<void>, which is awaited.
using FailoverObserver = detail::Observer<detail::failover_observer_slot, Failover>;
/// `callback(const ModelRetry&)`; likewise.
using RetryObserver = detail::Observer<detail::retry_observer_slot, ModelRetry>;

struct FallbackOptions {
    /// Errors after which the chain calls the next model. `unavailable` includes all network failures (CubePi's
    /// ProviderUnavailable). An abort never continues the chain.
    std::set<ErrorCode> trigger_errors = {ErrorCode::rate_limited, ErrorCode::unavailable,
                                          ErrorCode::context_length, ErrorCode::model_not_found};
    /// The time for which a model that failed is not called, by all runs that share the chain; longer if the endpoint
    /// requested it (retry-after, up to an hour). A prompt that was too long does not start it. Zero: off.
    std::chrono::nanoseconds cool_down = std::chrono::seconds(30);
    /// Called for each model that was skipped, in addition to the `notice` of the stream. An exception that it throws
    /// becomes a `notice`.
    std::optional<FailoverObserver> on_failover = {};
    /// Called for each `notice` with the code "retry" of a model, before the repetition. Exceptions as for on_failover.
    std::optional<RetryObserver> on_retry = {};
    /// Begin each call of a run with the model that answered the run's last one. False: always with the first one.
    bool sticky_within_run = true;
};

/// Several models used as one: if a model fails before it has produced content, the next one is called.
///
///     FallbackBoundModel model({openai.model("gpt-5.1"), claude.model("claude-sonnet-4-5")});
///     Agent agent({.model = model});
///
/// - Each model is called with the retries of its own provider; then the chain continues, for errors of
///   `trigger_errors` only. It never continues after text, thinking or a call has been shown.
/// - Each skipped model is reported by a `notice` event with the code "failover".
/// - The `provider_id` and `model_id` of the answer name the model that produced it.
/// - The model that answered stays for the rest of the run, unless `sticky_within_run` is false; the next run starts at the first again. A model in its
///   cool-down is called only if no other is left.
/// - A model whose context window is known and smaller than the estimated request is skipped.
/// - If all models fail, the error text lists the failure of each; ErrorInfo::message has the last one.
///
/// It is a BoundModel: pass it by value wherever one is accepted. Copies share cool-downs. `spec()` is the first
/// model's. Observers belong to the providers of the chain's models. Any thread may call any member.
class FallbackBoundModel : public BoundModel {
public:
    /// Throws Error(invalid_argument) if the chain is empty or a model of it has no provider.
    explicit FallbackBoundModel(std::vector<BoundModel> chain, FallbackOptions options = {});

    const std::vector<BoundModel>& chain() const noexcept;
};

}  // namespace cubepi
