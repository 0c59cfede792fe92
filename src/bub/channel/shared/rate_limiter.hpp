#pragma once

#include <chrono>
#include <map>
#include <string>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/task.hpp>

namespace bub::shared {

using cubepi::Task;

/// A number of messages per time, with a short burst.
struct Rate {
    std::chrono::nanoseconds interval;  ///< between two messages
    int burst;                          ///< messages that may follow each other at once
};

/// Delays messages so that the service does not reject them. Used on one executor. The clock must outlive it.
class RateLimiter {
public:
    /// `all` is the limit of all chats together.
    RateLimiter(cubepi::Clock& clock, Rate all) : clock_(clock), rate_of_all_(all) {}

    /// Waits until a message may be sent to the chat, which has this limit. Callers of one chat are served in order.
    Task<> acquire(std::string chat, Rate rate);
    /// Returns false if a message would have to wait.
    bool try_acquire(const std::string& chat, Rate rate);
    /// Sends nothing to the chat for this time, as the service demands.
    void pause(const std::string& chat, Rate rate, std::chrono::nanoseconds delay);

private:
    using TimePoint = cubepi::Clock::time_point;

    /// Returns the earliest time for the next message.
    static TimePoint earliest(TimePoint due, const Rate& rate) {
        return due - rate.interval * (rate.burst - 1);
    }
    /// Reserves the next message and returns its time.
    static TimePoint reserve(TimePoint& due, const Rate& rate, TimePoint now);
    TimePoint& bucket(const std::string& chat);

    cubepi::Clock& clock_;
    const Rate rate_of_all_;
    /// The time at which the next message would be due if all had been sent at the rate of the limit.
    std::map<std::string, TimePoint> chats_;
    TimePoint all_{};
};

}  // namespace bub::shared
