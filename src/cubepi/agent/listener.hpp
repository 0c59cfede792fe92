#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <stop_token>
#include <utility>

#include <cubepi/core/agent_event.hpp>
#include <cubepi/core/detail/async_function.hpp>

namespace cubepi {

namespace detail {
CUBEPI_DETAIL_SLOT(listener,
                   "a listener must be callable with (const AgentEvent&) or (const AgentEvent&, "
                   "std::stop_token) and return void or Task<void>: any other result would be "
                   "lost, and a Task of another type would never run")
}  // namespace detail

/// A receiver of events: a callable `(const AgentEvent&)` or `(const AgentEvent&, std::stop_token)` that returns void or a
/// Task<void>, which is awaited. The token fires when the run is aborted. The listener runs on the agent's executor.
/// A callable with another signature or result does not compile.
using AgentListener =
    detail::AsyncFunction<void(const AgentEvent&, const std::stop_token&), detail::listener_slot,
                          detail::AsyncRules{.last_is_optional = true}>;

/// The types of events that a subscription receives; by default all of them.
class EventTypes {
public:
    constexpr EventTypes() noexcept = default;
    /// All types but these: a listener that does not need the deltas of answers omits `message_update`, of which there are many.
    static constexpr EventTypes all_but(std::initializer_list<AgentEventType> omitted) noexcept {
        EventTypes types;
        for (const AgentEventType type : omitted) types.bits_ &= ~bit(type);
        return types;
    }
    constexpr bool contains(AgentEventType type) const noexcept { return (bits_ & bit(type)) != 0; }

private:
    static constexpr std::uint32_t bit(AgentEventType type) noexcept {
        return std::uint32_t{1} << static_cast<unsigned>(type);
    }
    std::uint32_t bits_ = ~std::uint32_t{0};
};

namespace detail {
struct ListenerEntry {
    ListenerEntry(AgentListener l, EventTypes t) : listener(std::move(l)), types(t) {}
    AgentListener listener;
    EventTypes types;
    bool active = true;
};
}  // namespace detail

/// The result of subscribe(). `cancel()` permanently ends the subscription and may be called from inside its own
/// listener; destroying the object does not end it (ScopedSubscription does). Used on the agent's executor.
class Subscription {
public:
    Subscription() = default;
    explicit Subscription(std::weak_ptr<detail::ListenerEntry> entry) : entry_(std::move(entry)) {}
    void cancel() noexcept {
        if (auto entry = entry_.lock()) entry->active = false;
    }
    /// The same as cancel(), as in CubePi: `auto unsubscribe = agent.subscribe(...); unsubscribe();`.
    void operator()() noexcept { cancel(); }
    bool active() const noexcept {
        auto entry = entry_.lock();
        return entry && entry->active;
    }

private:
    std::weak_ptr<detail::ListenerEntry> entry_;
};

/// A subscription that ends with its scope.
class ScopedSubscription {
public:
    ScopedSubscription() = default;
    ScopedSubscription(Subscription subscription) : subscription_(std::move(subscription)) {}
    ScopedSubscription(ScopedSubscription&& other) noexcept
        : subscription_(std::exchange(other.subscription_, Subscription())) {}
    ScopedSubscription& operator=(ScopedSubscription&& other) noexcept {
        std::swap(subscription_, other.subscription_);
        return *this;
    }
    ~ScopedSubscription() { subscription_.cancel(); }
    /// Ends the subscription before the scope does.
    void operator()() noexcept { subscription_.cancel(); }

private:
    Subscription subscription_;
};

}  // namespace cubepi
