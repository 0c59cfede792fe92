#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/clock.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi {

namespace detail {

/// Returns true if the task ended by itself, false if the deadline cancelled it.
Task<bool> run_until(Clock& clock, Clock::time_point deadline, Task<> task);

[[noreturn]] void throw_timeout(std::string timeout_name, std::chrono::nanoseconds limit);

}  // namespace detail

/// Runs `task` and cancels it after `limit`; waits for it to end and throws TimeoutError. A task that finishes despite
/// the cancellation keeps its result. Cancelling the caller cancels the task. `clock` must outlive the call. `name` is
/// TimeoutError::timeout().
template <class T>
Task<T> with_timeout(Clock& clock, std::chrono::nanoseconds limit, Task<T> task,
                     std::string name = "timeout") {
    std::optional<T> result;
    Task<> stored = detail::store_result(std::move(task), result);
    const bool in_time =
        co_await detail::run_until(clock, deadline_after(clock.now(), limit), std::move(stored));
    if (!in_time) detail::throw_timeout(std::move(name), limit);
    co_return std::move(*result);
}

template <>
inline Task<void> with_timeout<void>(Clock& clock, std::chrono::nanoseconds limit, Task<void> task,
                                     std::string name) {
    const bool in_time =
        co_await detail::run_until(clock, deadline_after(clock.now(), limit), std::move(task));
    if (!in_time) detail::throw_timeout(std::move(name), limit);
}

}  // namespace cubepi
