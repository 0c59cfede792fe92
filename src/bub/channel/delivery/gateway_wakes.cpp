#include <bub/channel/delivery/gateway_wakes.hpp>

#include <boost/asio/post.hpp>

#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>

namespace bub::detail {

std::shared_ptr<cubepi::AsyncEvent> EndWaits::begin(const std::string& key,
                                                    const cubepi::Executor& executor, Time now) {
    const std::lock_guard lock(mutex_);
    Wait& wait = waits_[key];
    ++wait.waiting;
    wait.executor = executor;
    wait.used = now;
    if (wait.ended) wait.event->set();
    return wait.event;
}

void EndWaits::leave(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto found = waits_.find(key);
    if (found != waits_.end() && --found->second.waiting <= 0) found->second.executor.reset();
}

void EndWaits::end(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto found = waits_.find(key);
    if (found == waits_.end()) return;
    Wait& wait = found->second;
    wait.ended = true;
    if (wait.executor) boost::asio::post(*wait.executor, [event = wait.event] { event->set(); });
}

bool EndWaits::has_ended(const std::string& key) const {
    const std::lock_guard lock(mutex_);
    const auto found = waits_.find(key);
    return found != waits_.end() && found->second.ended;
}

void EndWaits::forget(const std::string& key) {
    const std::lock_guard lock(mutex_);
    waits_.erase(key);
}

std::optional<std::vector<std::string>> EndWaits::due(Time now, std::chrono::nanoseconds interval) {
    const std::lock_guard lock(mutex_);
    if (looked_at_ && now - *looked_at_ < interval) return std::nullopt;
    looked_at_ = now;
    constexpr int most_intervals = 10;
    std::erase_if(waits_, [&](const auto& one) {
        return one.second.waiting <= 0 && now - one.second.used > most_intervals * interval;
    });
    std::vector<std::string> keys;
    for (const auto& [key, wait] : waits_) keys.push_back(key);
    return keys;
}

GatewayWakes::GatewayWakes(cubepi::PostgresOptions options, std::string channel,
                           std::function<std::int64_t()> here, std::shared_ptr<EndWaits> ends)
    : channel_(std::move(channel)),
      here_(std::move(here)),
      ends_(std::move(ends)),
      notifications_(std::move(options), channel_,
                     [this](const std::string& payload) { receive(payload); }) {}

void GatewayWakes::add(cubepi::Executor executor,
                       const std::shared_ptr<cubepi::AsyncEvent>& event) {
    const std::lock_guard lock(mutex_);
    events_.emplace_back(std::move(executor), event);
}

void GatewayWakes::check(cubepi::detail::SqlStore& deliveries, std::chrono::nanoseconds interval) {
    const EndWaits::Time now = deliveries.options().runtime->clock->now();
    if (checked_ && now - *checked_ < interval) return;
    checked_ = now;
    const std::string echo = notifications_.echo();
    if (echo.empty()) return;
    cubepi::detail::SqlBatch batch;
    batch.add("SELECT pg_notify($1, $2)").text(channel_).text(echo);
    try {
        (void)cubepi::run(deliveries.execute(std::move(batch)));
    } catch (...) {
        // It is one that has not arrived. A failure of another kind must not end the thread.
    }
}

void GatewayWakes::receive(const std::string& payload) {
    if (payload.starts_with(end_prefix)) ends_->end(payload.substr(std::string(end_prefix).size()));
    if (payload != std::to_string(here_())) return;
    const std::lock_guard lock(mutex_);
    std::erase_if(events_, [](const auto& one) { return one.second.expired(); });
    for (const auto& [executor, event] : events_) {
        boost::asio::post(executor, [event = event] {
            if (const auto waited = event.lock()) waited->set();
        });
    }
}

}  // namespace bub::detail
