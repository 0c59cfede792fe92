#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

// A server of event streams in a separate process, so that its work is not measured.

namespace cubepi::bench {

/// Nanoseconds of the machine's monotonic clock, the same in all processes.
std::int64_t now_ns() noexcept;

/// The format of an event: `before`, the send time in 20 digits, `after`.
struct EventForm {
    std::string opening;  ///< events that come first
    std::string before;
    std::string after;
    std::string closing;  ///< events that come last
};

class EventServer {
public:
    /// Each connection that sends a request receives `events` events. With a period each connection receives one event per
    /// period, the connections spread over it; without a period as many as it accepts.
    EventServer(EventForm form, int events, std::int64_t period_us);
    ~EventServer();
    EventServer(const EventServer&) = delete;
    EventServer& operator=(const EventServer&) = delete;
    std::uint16_t port() const noexcept { return port_; }

private:
    pid_t process_ = 0;
    std::uint16_t port_ = 0;
};

}  // namespace cubepi::bench
