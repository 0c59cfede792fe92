#pragma once

#include <chrono>

#include <cubepi/core/task.hpp>

namespace conformance {

/// Runs a task on an event loop of its own on this thread and rethrows its exception. Returns false if it has not ended within
/// `limit`: the loop and its objects are then leaked, because their state is unknown.
bool run_within(cubepi::Task<> task, std::chrono::steady_clock::duration limit);

}  // namespace conformance
