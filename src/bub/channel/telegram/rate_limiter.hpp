#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/task.hpp>

namespace bub::telegram {

using cubepi::Task;

/// A number of messages per time, with a short burst.
struct Rate {
    std::chrono::nanoseconds interval;  ///< between two messages
    int burst;                          ///< messages that may follow each other at once
};

/// The limits that Telegram documents: about one message per second in a chat, 20 per minute in a group, 30 per second in all
/// (https://core.telegram.org/bots/faq).
struct RateLimits {
    Rate chat{std::chrono::seconds(1), 3};
    Rate group{std::chrono::seconds(4), 5};
    Rate all{std::chrono::milliseconds(67), 15};

    RateLimits() {}
};

/// Delays messages so that the service does not reject them. Used on one executor. The clock must outlive it.
class RateLimiter {
public:
    explicit RateLimiter(cubepi::Clock& clock, RateLimits limits = RateLimits())
        : clock_(clock), limits_(limits) {}

    /// Waits until a message may be sent to the chat. Callers of one chat are served in order.
    Task<> acquire(std::int64_t chat);
    /// Returns false if a message would have to wait.
    bool try_acquire(std::int64_t chat);
    /// Sends nothing to the chat for this time, as the service demands.
    void pause(std::int64_t chat, std::chrono::nanoseconds delay);

private:
    using TimePoint = cubepi::Clock::time_point;
    /// The time at which the next message would be due if all had been sent at the rate of the limit.
    using Buckets = std::map<std::int64_t, TimePoint>;

    const Rate& rate_of(std::int64_t chat) const { return chat < 0 ? limits_.group : limits_.chat; }
    /// Returns the earliest time for the next message.
    static TimePoint earliest(TimePoint due, const Rate& rate) {
        return due - rate.interval * (rate.burst - 1);
    }
    /// Reserves the next message and returns its time.
    static TimePoint reserve(TimePoint& due, const Rate& rate, TimePoint now);
    TimePoint& bucket(std::int64_t chat);
    void forget_idle(TimePoint now);

    cubepi::Clock& clock_;
    const RateLimits limits_;
    Buckets chats_;
    TimePoint all_{};
};

}  // namespace bub::telegram
