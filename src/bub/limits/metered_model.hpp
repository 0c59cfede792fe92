#pragma once

#include <functional>
#include <optional>

#include <cubepi/core/usage.hpp>
#include <cubepi/provider/provider.hpp>

namespace bub {

/// Receives the tokens and the cost (USD; absent: unknown) of a call. Must not throw.
using ChargeCall =
    std::function<void(const cubepi::Usage& usage, const std::optional<double>& cost)>;

/// Returns a model that passes its calls to `model`, and the usage of each to `charge` when it ends: also of one that fails or is dropped,
/// as far as the endpoint has reported it. Of a fallback chain, the model that has answered counts.
cubepi::BoundModel metered_model(const cubepi::BoundModel& model, ChargeCall charge);

}  // namespace bub
