#pragma once

#include <chrono>

#include <cubepi/core/task.hpp>

namespace cubepi::app {

/// How long the end of the input is held back when the terminal is gone. The kernel sends SIGHUP just after it; the signal,
/// unless it is ignored, decides how the program ends.
constexpr std::chrono::milliseconds hangup_grace(200);
/// Between two stops of a background job.
constexpr std::chrono::milliseconds pause_between_stops(50);

/// True unless `terminal` is the controlling terminal and another process group is its foreground job. A process in the
/// background must not read the terminal or change its settings: the kernel stops it (SIGTTIN, SIGTTOU).
bool in_foreground(int terminal) noexcept;

/// Stops the process group as the kernel does when a background job reads its terminal, until the shell continues it. Returns
/// false without stopping if no shell could continue it (an orphaned process group) or SIGTTIN is ignored.
bool stop_in_background() noexcept;

/// Stops the process group until it is the foreground job of `terminal`. Returns false if that cannot happen; see
/// stop_in_background(). Signals are handled between two stops, so a termination signal can cancel the wait.
Task<bool> wait_for_foreground(int terminal);

}  // namespace cubepi::app
