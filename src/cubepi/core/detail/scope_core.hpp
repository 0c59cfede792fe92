#pragma once

#include <cstddef>
#include <exception>

#include <boost/asio/this_coro.hpp>

#include <cubepi/core/task.hpp>

namespace cubepi::detail {

struct ScopeChild;
struct JoinStart;

/// `co_await keep_going();` From here on a cancelled coroutine can still await; the awaited operations see the
/// cancellation.
inline auto keep_going() noexcept { return boost::asio::this_coro::throw_if_cancelled(false); }

/// Ends keep_going(): the next await throws again if the coroutine is cancelled.
inline auto stop_at_cancellation() noexcept { return boost::asio::this_coro::throw_if_cancelled(true); }

/// The part of TaskScope, TaskGroup and BackgroundScope that knows Asio.
class ScopeCore {
public:
    ScopeCore(Executor executor, bool cancel_on_failure) noexcept
        : executor_(std::move(executor)), cancel_on_failure_(cancel_on_failure) {}
    ~ScopeCore();

    const Executor& executor() const noexcept { return executor_; }

    /// `failure`, where given, receives the child's own exception and lives as long as the scope.
    void spawn(Executor executor, Task<> task, std::exception_ptr* failure);
    void cancel() noexcept;
    Task<> join(bool rethrow = true);

    bool cancelled() const noexcept { return cancelled_; }
    std::size_t live() const noexcept { return live_; }
    const std::exception_ptr& first_failure() const noexcept { return first_failure_; }

    ScopeCore(const ScopeCore&) = delete;
    ScopeCore& operator=(const ScopeCore&) = delete;

private:
    friend struct ScopeChild;
    friend struct JoinStart;
    struct JoinNode;

    void ended(ScopeChild& child, std::exception_ptr failure) noexcept;
    void record(std::exception_ptr* own, std::exception_ptr failure) noexcept;
    void unlink(ScopeChild& child) noexcept;

    Executor executor_;
    ScopeChild* children_ = nullptr;
    JoinNode* joiner_ = nullptr;
    std::size_t live_ = 0;
    std::exception_ptr first_failure_;
    bool cancel_on_failure_;
    bool cancelled_ = false;
};

}  // namespace cubepi::detail
