#include <cubepi/core/timeout.hpp>

#include <cstdio>
#include <exception>
#include <memory>
#include <utility>

#include <cubepi/core/detail/scope_core.hpp>
#include <cubepi/core/error.hpp>

namespace cubepi::detail {

namespace {

/// Most tasks with a deadline complete without waiting: `over` then avoids the timer.
Task<> note_end(Task<> task, bool& over) {
    struct Note {
        bool& over;
        ~Note() { over = true; }
    } note{over};
    co_await std::move(task);
}

}  // namespace

Task<bool> run_until(Clock& clock, Clock::time_point deadline, Task<> task) {
    const Executor executor = co_await this_executor;
    bool over = false;
    bool fired = false;
    std::exception_ptr own;
    std::unique_ptr<ClockTimer> timer;
    ScopeCore scope(executor, false);
    scope.spawn(note_end(std::move(task), over), &own);
    if (!over) {
        timer = clock.timer(executor);
        timer->expires_at(deadline, [&scope, &fired] {
            fired = true;
            scope.cancel();
        });
    }
    const bool throws = co_await throws_when_cancelled;
    co_await throw_when_cancelled(false);
    const std::exception_ptr failure = co_await scope.join_failure();
    co_await throw_when_cancelled(throws);
    if (timer) timer->cancel();
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
