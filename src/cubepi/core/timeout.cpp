#include <cubepi/core/timeout.hpp>

#include <cstdio>
#include <exception>
#include <memory>
#include <utility>

#include <cubepi/core/detail/scope_core.hpp>
#include <cubepi/core/error.hpp>

namespace cubepi::detail {

Task<bool> run_until(Clock& clock, Clock::time_point deadline, Task<> task) {
    const Executor executor = co_await this_executor;
    bool fired = false;
    std::exception_ptr own;
    ScopeCore scope(executor, false);
    scope.spawn(std::move(task), &own);
    const std::unique_ptr<ClockTimer> timer = clock.timer(executor);
    timer->expires_at(deadline, [&scope, &fired] {
        fired = true;
        scope.cancel();
    });
    const bool throws = co_await throws_when_cancelled;
    co_await throw_when_cancelled(false);
    const std::exception_ptr failure = co_await scope.join_failure();
    co_await throw_when_cancelled(throws);
    timer->cancel();
    if (fired && is_cancellation(own)) {
        if (is_cancellation(failure)) std::rethrow_exception(failure);
        co_return false;
    }
    if (failure) std::rethrow_exception(failure);
    if (own) std::rethrow_exception(own);
    co_return true;
}

void throw_timeout(std::string timeout_name, std::chrono::nanoseconds limit) {
    const double seconds = std::chrono::duration<double>(limit).count();
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", seconds);
    std::string message = "timed out after " + std::string(text) + " s (" + timeout_name + ")";
    throw TimeoutError(std::move(timeout_name), message);
}

}  // namespace cubepi::detail
