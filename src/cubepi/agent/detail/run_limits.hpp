#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <cubepi/agent/limits.hpp>
#include <cubepi/core/model.hpp>

namespace cubepi::detail {

/// Why a run that had `turns` turns and cost `spent` USD (empty: not known) may not call its model again (D24), for
/// the person who reads it. Empty: it may.
std::optional<std::string> limit_reached(const AgentLimits& limits, std::uint32_t turns,
                                         std::optional<double> spent);

/// Why a run with a limit of money may not call `model` at all: its price is not known (D24). Empty: it may.
std::optional<std::string> price_missing(const AgentLimits& limits, const Model& model);

}  // namespace cubepi::detail
