#pragma once

#include <cstdint>
#include <optional>

#include <cubepi/agent/limits.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/model.hpp>

namespace cubepi::detail {

/// Returns the limit that prevents a run with `turns` turns and a cost of `spent` USD (empty: unknown) from calling its
/// model again (D24); empty if there is none.
std::optional<LimitReachedError> limit_reached(const AgentLimits& limits, std::uint32_t turns,
                                               std::optional<double> spent);

/// Returns the error of a run with a spend limit whose model has no known price (D24); empty if the run may call it.
std::optional<LimitReachedError> price_missing(const AgentLimits& limits, const Model& model);

}  // namespace cubepi::detail
