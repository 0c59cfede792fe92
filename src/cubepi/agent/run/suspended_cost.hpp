#pragma once

#include <optional>

#include <cubepi/core/json.hpp>

namespace cubepi::detail {

/// Returns what the suspended run of a thread has cost, in USD (D166). Absent: unknown. Zero if the thread has no suspended run, or one
/// of a version that did not store the cost. `extra`: the state of the thread.
std::optional<double> suspended_cost(const JsonObject& extra);

}  // namespace cubepi::detail
