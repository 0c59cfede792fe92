#include <bub/channel/delivery/gateway_wakes.hpp>

#include <boost/asio/post.hpp>

namespace bub::detail {

GatewayWakes::GatewayWakes(cubepi::PostgresOptions options, std::string channel,
                           std::function<std::int64_t()> here)
    : here_(std::move(here)),
      notifications_(std::move(options), std::move(channel),
                     [this](const std::string& payload) { receive(payload); }) {}

void GatewayWakes::add(cubepi::Executor executor,
                       const std::shared_ptr<cubepi::AsyncEvent>& event) {
    const std::lock_guard lock(mutex_);
    events_.emplace_back(std::move(executor), event);
}

void GatewayWakes::receive(const std::string& payload) {
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
