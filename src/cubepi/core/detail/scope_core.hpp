#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <utility>

#include <boost/asio/this_coro.hpp>

#include <cubepi/core/task.hpp>

namespace cubepi::detail {

struct ScopeChild;
struct JoinNode;
struct ScopeAccess;

/// `const bool throws = co_await throws_when_cancelled;` Never suspends, never throws.
inline constexpr boost::asio::this_coro::throw_if_cancelled_0_t throws_when_cancelled{};

/// `co_await throw_when_cancelled(false);` From here on a cancelled coroutine can still await; the operations observe
/// the cancellation. Restore the old value before leaving, also by an exception.
inline auto throw_when_cancelled(bool value) noexcept {
    return boost::asio::this_coro::throw_if_cancelled(value);
}

/// A receiver of the events of a scope whose owner does not wait in join_failure(). Must not throw.
class ScopeObserver {
public:
    virtual void failed(std::exception_ptr failure) noexcept = 0;
    virtual void emptied() noexcept = 0;

protected:
    ~ScopeObserver() = default;
};

/// The part of all scopes that depends on Asio.
class ScopeCore {
public:
    ScopeCore(Executor executor, bool cancel_on_failure, ScopeObserver* observer = nullptr) noexcept
        : executor_(std::move(executor)),
          observer_(observer),
          cancel_on_failure_(cancel_on_failure) {}
    ~ScopeCore();

    const Executor& executor() const noexcept { return executor_; }

    /// Starts a child, by default on the scope's own executor. `failure` receives the exception thrown by the child,
    /// including cancellations; it must live as long as the scope. `keep_alive` is released after the child's end was
    /// recorded.
    void spawn(Task<> task, std::exception_ptr* failure = nullptr,
               const Executor* executor = nullptr, std::shared_ptr<void> keep_alive = nullptr);

    void cancel() noexcept;

    /// A failure that cancels the children also cancels those of `other`, which must live as long as this scope.
    void cancel_with(ScopeCore& other) noexcept { companion_ = &other; }

    /// Waits for all children. Returns a cancellation if the awaiting coroutine was cancelled, else the first failure,
    /// else null. A cancellation that arrives while it waits calls `on_cancel`, if set, instead of cancel(). One
    /// coroutine at a time.
    Task<std::exception_ptr> join_failure(std::function<void()> on_cancel = {});

    /// Calls join_failure() and throws its result.
    Task<> join();

    bool cancelled() const noexcept { return cancelled_; }
    std::size_t live() const noexcept { return live_; }

    ScopeCore(const ScopeCore&) = delete;
    ScopeCore& operator=(const ScopeCore&) = delete;

private:
    friend struct ScopeChild;
    friend struct JoinNode;

    void ended(ScopeChild& child);
    void notify_empty();
    void abandoned(ScopeChild& child) noexcept;
    void record(std::exception_ptr* own, std::exception_ptr failure) noexcept;
    void unlink(ScopeChild& child) noexcept;

    Executor executor_;
    ScopeObserver* observer_;
    ScopeCore* companion_ = nullptr;
    ScopeChild* children_ = nullptr;
    JoinNode* joiner_ = nullptr;
    std::size_t live_ = 0;
    std::exception_ptr first_failure_;
    bool cancel_on_failure_;
    bool cancelled_ = false;
    bool emitting_ = false;
};

}  // namespace cubepi::detail
