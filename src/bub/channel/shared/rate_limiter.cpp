#include <bub/channel/shared/rate_limiter.hpp>

#include <algorithm>

namespace bub::shared {

namespace {

/// Beyond this number, chats without recent messages are forgotten.
constexpr std::size_t max_chats = 4096;

}  // namespace

RateLimiter::TimePoint RateLimiter::reserve(TimePoint& due, const Rate& rate, TimePoint now) {
    const TimePoint at = std::max(now, earliest(due, rate));
    due = std::max(due, now) + rate.interval;
    return at;
}

RateLimiter::TimePoint& RateLimiter::bucket(const std::string& chat) {
    if (chats_.size() >= max_chats) {
        const TimePoint now = clock_.now();
        std::erase_if(chats_, [now](const auto& entry) { return entry.second <= now; });
    }
    return chats_[chat];
}

Task<> RateLimiter::acquire(std::string chat, Rate rate) {
    const TimePoint at = reserve(bucket(chat), rate, clock_.now());
    if (at > clock_.now()) co_await clock_.sleep_until(at);
    const TimePoint of_all = reserve(all_, rate_of_all_, clock_.now());
    if (of_all > clock_.now()) co_await clock_.sleep_until(of_all);
}

bool RateLimiter::try_acquire(const std::string& chat, Rate rate) {
    const TimePoint now = clock_.now();
    TimePoint& due = bucket(chat);
    if (earliest(due, rate) > now || earliest(all_, rate_of_all_) > now) return false;
    (void)reserve(due, rate, now);
    (void)reserve(all_, rate_of_all_, now);
    return true;
}

void RateLimiter::pause(const std::string& chat, Rate rate, std::chrono::nanoseconds delay) {
    TimePoint& due = bucket(chat);
    due = std::max(due, clock_.now() + delay + rate.interval * (rate.burst - 1));
}

}  // namespace bub::shared
