#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace cubepi::app {

// The protocol between a service and systemd (sd_notify(3)): assignments in a datagram to the socket $NOTIFY_SOCKET.

/// Sends assignments, one per line: "READY=1", "STOPPING=1", "STATUS=...". Does nothing if the program was not started by
/// systemd.
void notify_service_manager(const std::string& assignments);

/// Returns the interval in which WATCHDOG=1 must be sent, half of what systemd waits; empty if it does not expect it.
std::optional<std::chrono::microseconds> watchdog_interval();

/// Returns the assignments that announce a reload: systemd requires the time of the monotonic clock.
std::string reloading_notice();

}  // namespace cubepi::app
