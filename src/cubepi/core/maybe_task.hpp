#pragma once

#include <optional>
#include <utility>

#include <cubepi/core/task.hpp>

namespace cubepi {

/// The outcome of an operation that seldom has to wait: its value, or a task that will return it. An operation that
/// completes at once costs no coroutine.
///
///     MaybeTask<int> outcome = lookup(key);
///     int value = 0;
///     if (outcome.is_pending()) {
///         value = co_await std::move(outcome).task();
///     } else {
///         value = std::move(outcome).value();
///     }
template <class T = void>
class [[nodiscard]] MaybeTask {
public:
    MaybeTask(T value) : value_(std::move(value)) {}
    MaybeTask(Task<T> task) : task_(std::move(task)) {}

    /// True: task() returns the value. False: value() does.
    bool is_pending() const noexcept { return task_.valid(); }
    T value() && { return std::move(*value_); }
    Task<T> task() && { return std::move(task_); }

private:
    std::optional<T> value_;
    Task<T> task_;
};

template <>
class [[nodiscard]] MaybeTask<void> {
public:
    /// Completed.
    MaybeTask() = default;
    MaybeTask(Task<void> task) : task_(std::move(task)) {}

    bool is_pending() const noexcept { return task_.valid(); }
    Task<void> task() && { return std::move(task_); }

private:
    Task<void> task_;
};

}  // namespace cubepi
