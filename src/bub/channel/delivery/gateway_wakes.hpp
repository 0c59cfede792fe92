#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/sql/postgres_notifications.hpp>
#include <cubepi/sql/support/transaction.hpp>

namespace bub::detail {

/// The messages whose ends this gateway waits for, by their keys (D273). Thread-safe.
class EndWaits {
public:
    using Time = cubepi::Clock::time_point;

    /// Begins a wait. The event is set on the executor, which must outlive the wait, when the message has ended.
    std::shared_ptr<cubepi::AsyncEvent> begin(const std::string& key,
                                              const cubepi::Executor& executor, Time now);
    /// Ends a wait. An end between two waits is remembered.
    void leave(const std::string& key);
    void end(const std::string& key);
    bool has_ended(const std::string& key) const;
    void forget(const std::string& key);
    /// Returns the messages to look for, once in each interval for all waits; nothing if it is too early. Those that were not waited for
    /// in the last ten are dropped.
    std::optional<std::vector<std::string>> due(Time now, std::chrono::nanoseconds interval);

private:
    struct Wait {
        std::shared_ptr<cubepi::AsyncEvent> event = std::make_shared<cubepi::AsyncEvent>();
        std::optional<cubepi::Executor> executor = {};  ///< of those that wait
        int waiting = 0;
        bool ended = false;
        Time used = {};
    };

    mutable std::mutex mutex_;
    std::map<std::string, Wait> waits_;
    std::optional<Time> looked_at_;
};

/// Notifications between the gateways of an account: each wakes one of them, by its number (D238), or says to all that a message has
/// ended (D273). Thread-safe.
class GatewayWakes {
public:
    /// `here`: returns the number of this gateway.
    GatewayWakes(cubepi::PostgresOptions options, std::string channel,
                 std::function<std::int64_t()> here, std::shared_ptr<EndWaits> ends);

    void wake(std::int64_t gateway) { notifications_.notify(std::to_string(gateway)); }
    void announce_end(const std::string& key) { notifications_.notify(end_prefix + key); }
    /// Sets the event, on its executor, whenever this gateway is woken. The executor must outlive this object.
    void add(cubepi::Executor executor, const std::shared_ptr<cubepi::AsyncEvent>& event);
    /// Has the database of the deliveries notify this gateway itself, at most once in the interval (PostgresNotifications::echo()). Blocks.
    void check(cubepi::detail::SqlStore& deliveries, std::chrono::nanoseconds interval);
    std::string problem() const { return notifications_.problem(); }

private:
    void receive(const std::string& payload);

    /// Programs that do not know it compare the payload with their number.
    static constexpr const char* end_prefix = "end_";

    const std::string channel_;
    const std::function<std::int64_t()> here_;
    const std::shared_ptr<EndWaits> ends_;
    std::optional<EndWaits::Time> checked_;  ///< of check()
    std::mutex mutex_;
    std::vector<std::pair<cubepi::Executor, std::weak_ptr<cubepi::AsyncEvent>>> events_;
    cubepi::PostgresNotifications notifications_;  // last: its thread uses the others
};

}  // namespace bub::detail
