#pragma once

#include <memory>

#include <cubepi/agent/checkpointer.hpp>

#include "points.hpp"

namespace cubepi::abort_tests {

/// A slow store in memory, so that a run can be aborted while it is being claimed, loaded and stored.
std::shared_ptr<Checkpointer> make_waiting_store(Points& points);

}  // namespace cubepi::abort_tests
