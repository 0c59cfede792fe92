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

/// The limits that a service documents.
struct RateLimits {
    Rate chat;   ///< of a private chat
    Rate group;  ///< of a group
    Rate all;    ///< of all chats together
};

/// A chat whose messages are counted.
struct LimitedChat {
    std::string id = {};
    bool is_group = false;
};

/// Delays messages so that the service does not reject them. Used on one executor. The clock must outlive it.
class RateLimiter {
public:
    RateLimiter(cubepi::Clock& clock, RateLimits limits) : clock_(clock), limits_(limits) {}

    /// Waits until a message may be sent to the chat. Callers of one chat are served in order.
    Task<> acquire(LimitedChat chat);
    /// Returns false if a message would have to wait.
    bool try_acquire(const LimitedChat& chat);
    /// Sends nothing to the chat for this time, as the service demands.
    void pause(const LimitedChat& chat, std::chrono::nanoseconds delay);

private:
    using TimePoint = cubepi::Clock::time_point;

    const Rate& rate_of(const LimitedChat& chat) const {
        return chat.is_group ? limits_.group : limits_.chat;
    }
    /// Returns the earliest time for the next message.
    static TimePoint earliest(TimePoint due, const Rate& rate) {
        return due - rate.interval * (rate.burst - 1);
    }
    /// Reserves the next message and returns its time.
    static TimePoint reserve(TimePoint& due, const Rate& rate, TimePoint now);
    TimePoint& bucket(const std::string& chat);

    cubepi::Clock& clock_;
    const RateLimits limits_;
    /// The time at which the next message would be due if all had been sent at the rate of the limit.
    std::map<std::string, TimePoint> chats_;
    TimePoint all_{};
};

}  // namespace bub::shared
