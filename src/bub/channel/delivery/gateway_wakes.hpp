#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/sql/postgres_notifications.hpp>

namespace bub::detail {

/// Notifications between the gateways of an account: each wakes one of them, by its number (D238). Thread-safe.
class GatewayWakes {
public:
    /// `here`: returns the number of this gateway.
    GatewayWakes(cubepi::PostgresOptions options, std::string channel,
                 std::function<std::int64_t()> here);

    void wake(std::int64_t gateway) { notifications_.notify(std::to_string(gateway)); }
    /// Sets the event, on its executor, whenever this gateway is woken. The executor must outlive this object.
    void add(cubepi::Executor executor, const std::shared_ptr<cubepi::AsyncEvent>& event);

private:
    void receive(const std::string& payload);

    const std::function<std::int64_t()> here_;
    std::mutex mutex_;
    std::vector<std::pair<cubepi::Executor, std::weak_ptr<cubepi::AsyncEvent>>> events_;
    cubepi::PostgresNotifications notifications_;  // last: its thread uses the others
};

}  // namespace bub::detail
