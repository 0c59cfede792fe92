#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <type_traits>
#include <utility>

#include <cubepi/core/agent_event.hpp>
#include <cubepi/core/detail/callable_slot.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi {

namespace detail {
CUBEPI_DETAIL_SLOT(listener,
                   "a listener must be callable with (const AgentEvent&) or (const AgentEvent&, "
                   "std::stop_token) and return void or Task<void>: any other result would be "
                   "lost, and a Task of another type would never run")
}  // namespace detail

/// A receiver of events: a callable `(const AgentEvent&)` or `(const AgentEvent&, std::stop_token)` that returns void
/// or a Task<void>, which is awaited. The token is stopped when the run is aborted. The listener runs on the agent's
/// executor. A callable with another signature or result does not compile.
class Listener {
public:
    template <class F>
        requires(!std::is_same_v<std::remove_cvref_t<F>, Listener>)
    Listener(F callable) {
        constexpr bool with_token =
            std::is_invocable_v<F&, const AgentEvent&, const std::stop_token&>;
        constexpr bool fits =
            with_token ? detail::is_notification<F, const AgentEvent&, const std::stop_token&>()
                       : detail::is_notification<F, const AgentEvent&>();
        detail::listener_slot::check<fits>();
        if constexpr (fits && with_token) {
            bind(std::move(callable));
        } else if constexpr (fits) {
            bind([callable = std::move(callable)](const AgentEvent& event,
                                                  const std::stop_token&) mutable {
                return callable(event);
            });
        }
    }

    bool is_async() const noexcept { return static_cast<bool>(async_); }
    void call(const AgentEvent& event, const std::stop_token& token) const { sync_(event, token); }
    Task<void> call_async(const AgentEvent& event, const std::stop_token& token) const {
        return async_(event, token);
    }

private:
    template <class F>
    void bind(F callable) {
        using Result = std::invoke_result_t<F&, const AgentEvent&, const std::stop_token&>;
        if constexpr (std::is_same_v<Result, Task<void>>) {
            async_ = std::move(callable);
        } else {
            sync_ = [callable = std::move(callable)](const AgentEvent& event,
                                                     const std::stop_token& token) mutable {
                callable(event, token);
            };
        }
    }

    std::function<void(const AgentEvent&, const std::stop_token&)> sync_;
    std::function<Task<void>(const AgentEvent&, const std::stop_token&)> async_;
};

namespace detail {
struct ListenerEntry {
    explicit ListenerEntry(Listener l) : listener(std::move(l)) {}
    Listener listener;
    bool active = true;
};
}  // namespace detail

/// The result of subscribe(). `cancel()` permanently ends the subscription and may be called from inside its own
/// listener; destroying the object does not end it (it corresponds to CubePi's `unsubscribe`). Used on the agent's
/// executor.
class Subscription {
public:
    Subscription() = default;
    explicit Subscription(std::weak_ptr<detail::ListenerEntry> entry) : entry_(std::move(entry)) {}
    void cancel() noexcept {
        if (auto entry = entry_.lock()) entry->active = false;
    }
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

private:
    Subscription subscription_;
};

}  // namespace cubepi
