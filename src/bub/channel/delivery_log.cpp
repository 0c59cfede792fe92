#include <bub/channel/delivery_log.hpp>

#include <cstdlib>
#include <utility>

namespace bub {

namespace {

std::uint64_t number_of(const std::string& id) { return std::strtoull(id.c_str(), nullptr, 10); }

}  // namespace

Task<std::string> MemoryDeliveryLog::intend(Envelope message) {
    const std::uint64_t number = ++next_;
    open_.emplace(number, std::move(message));
    co_return std::to_string(number);
}

Task<> MemoryDeliveryLog::sent(std::string id) {
    open_.erase(number_of(id));
    co_return;
}

Task<> MemoryDeliveryLog::failed(std::string id, std::string) {
    open_.erase(number_of(id));
    co_return;
}

Task<std::vector<Delivery>> MemoryDeliveryLog::unsettled() {
    std::vector<Delivery> deliveries;
    for (const auto& [number, message] : open_) {
        Delivery delivery;
        delivery.id = std::to_string(number);
        delivery.message = message;
        deliveries.push_back(std::move(delivery));
    }
    co_return deliveries;
}

}  // namespace bub
