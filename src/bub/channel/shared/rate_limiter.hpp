#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <utility>

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
    /// Returns the number of processes that send to the service with the same account at the moment.
    using CountSenders = std::function<std::size_t()>;

    /// `all` is the limit of all chats together. This process uses its share of it (D289); `count_senders` may be empty: all of it. Another
    /// number applies to messages that begin to wait after it.
    RateLimiter(cubepi::Clock& clock, Rate all, CountSenders count_senders = {})
        : clock_(clock), limit_of_all_(all), count_senders_(std::move(count_senders)) {}

    /// Waits until a message may be sent to the chat, which has this limit. Callers of one chat are served in order.
    Task<> acquire(std::string chat, Rate rate) {
        const TimePoint at = reserve(bucket(chat), rate, clock_.now());
        if (at > clock_.now()) co_await clock_.sleep_until(at);
        const TimePoint of_all = reserve(all_, rate_of_all(), clock_.now());
        if (of_all > clock_.now()) co_await clock_.sleep_until(of_all);
    }
    /// Returns true if a message would have to wait.
    bool must_wait(const std::string& chat, Rate rate) {
        const TimePoint now = clock_.now();
        return earliest(bucket(chat), rate) > now || earliest(all_, rate_of_all()) > now;
    }
    /// Returns false if a message would have to wait.
    bool try_acquire(const std::string& chat, Rate rate) {
        if (must_wait(chat, rate)) return false;
        const TimePoint now = clock_.now();
        (void)reserve(bucket(chat), rate, now);
        (void)reserve(all_, rate_of_all(), now);
        return true;
    }
    /// Sends nothing to the chat for this time, as the service demands.
    void pause(const std::string& chat, Rate rate, std::chrono::nanoseconds delay) {
        TimePoint& due = bucket(chat);
        due = std::max(due, clock_.now() + delay + rate.interval * (rate.burst - 1));
    }

private:
    using TimePoint = cubepi::Clock::time_point;
    /// Beyond this number, chats without recent messages are forgotten.
    static constexpr std::size_t max_chats = 4096;

    Rate rate_of_all() const {
        if (!count_senders_) return limit_of_all_;
        const int senders = std::max(1, static_cast<int>(count_senders_()));
        return {limit_of_all_.interval * senders, std::max(1, limit_of_all_.burst / senders)};
    }
    /// Returns the earliest time for the next message.
    static TimePoint earliest(TimePoint due, const Rate& rate) {
        return due - rate.interval * (rate.burst - 1);
    }
    /// Reserves the next message and returns its time.
    static TimePoint reserve(TimePoint& due, const Rate& rate, TimePoint now) {
        const TimePoint at = std::max(now, earliest(due, rate));
        due = std::max(due, now) + rate.interval;
        return at;
    }
    TimePoint& bucket(const std::string& chat) {
        const TimePoint now = clock_.now();
        if (chats_.size() >= max_chats)
            std::erase_if(chats_, [now](const auto& entry) { return entry.second <= now; });
        return chats_[chat];
    }

    cubepi::Clock& clock_;
    const Rate limit_of_all_;
    const CountSenders count_senders_;
    /// The time at which the next message would be due if all had been sent at the rate of the limit.
    std::map<std::string, TimePoint> chats_;
    TimePoint all_{};
};

}  // namespace bub::shared
