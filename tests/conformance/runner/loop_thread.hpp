#pragma once

#include <chrono>

#include <cubepi/core/task.hpp>

namespace conformance {

/// Runs a task on an event loop of its own on this thread; throws what it throws. False when it has not ended within
/// `limit`: the loop and what lives in it are then left alone for good, since nothing can be said about them.
bool run_within(cubepi::Task<> task, std::chrono::steady_clock::duration limit);

}  // namespace conformance
