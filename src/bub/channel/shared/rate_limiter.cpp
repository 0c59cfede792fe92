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

Task<> RateLimiter::acquire(LimitedChat chat) {
    const TimePoint at = reserve(bucket(chat.id), rate_of(chat), clock_.now());
    if (at > clock_.now()) co_await clock_.sleep_until(at);
    const TimePoint of_all = reserve(all_, limits_.all, clock_.now());
    if (of_all > clock_.now()) co_await clock_.sleep_until(of_all);
}

bool RateLimiter::try_acquire(const LimitedChat& chat) {
    const TimePoint now = clock_.now();
    TimePoint& due = bucket(chat.id);
    if (earliest(due, rate_of(chat)) > now || earliest(all_, limits_.all) > now) return false;
    (void)reserve(due, rate_of(chat), now);
    (void)reserve(all_, limits_.all, now);
    return true;
}

void RateLimiter::pause(const LimitedChat& chat, std::chrono::nanoseconds delay) {
    const Rate& rate = rate_of(chat);
    TimePoint& due = bucket(chat.id);
    due = std::max(due, clock_.now() + delay + rate.interval * (rate.burst - 1));
}

}  // namespace bub::shared
