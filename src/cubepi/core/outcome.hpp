#pragma once

#include <exception>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/task.hpp>

// `co_await` is not allowed in a catch block. Code that has to wait after a failure, or to look at it first, awaits the
// outcome instead of the task:
//
//     Outcome<Reply> reply = co_await outcome_of(ask());
//     if (!reply) co_await clean_up();
//     use(std::move(reply).value());              // rethrows the failure
//
// Cleanup that does not depend on the outcome is passed to with_cleanup.

namespace cubepi {

/// How a task ended: with a value or with an exception.
template <class T = void>
class [[nodiscard]] Outcome {
public:
    using value_type = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

    explicit Outcome(value_type value) : value_(std::move(value)) {}
    explicit Outcome(std::exception_ptr failure) : failure_(std::move(failure)) {}

    bool ok() const noexcept { return value_.has_value(); }
    explicit operator bool() const noexcept { return ok(); }

    /// Null when it is a value.
    const std::exception_ptr& failure() const noexcept { return failure_; }
    /// The task ended because it was cancelled.
    bool cancelled() const noexcept { return is_cancellation(failure_); }
    /// Throws the failure, if there is one.
    void rethrow() const {
        if (failure_) std::rethrow_exception(failure_);
    }

    /// The value; throws the failure.
    value_type& value() & {
        rethrow();
        return *value_;
    }
    value_type&& value() && { return std::move(value()); }

private:
    std::optional<value_type> value_;
    std::exception_ptr failure_;
};

/// Awaits `task` and returns its outcome. Does not throw what the task throws. A coroutine that has been cancelled cannot
/// await anything, this included, until it is shielded (core/cancellation.hpp).
template <class T>
Task<Outcome<T>> outcome_of(Task<T> task) {
    std::exception_ptr failure;
    try {
        if constexpr (std::is_void_v<T>) {
            co_await std::move(task);
            co_return Outcome<T>(std::monostate());
        } else {
            T value = co_await std::move(task);
            co_return Outcome<T>(std::move(value));
        }
    } catch (...) {
        failure = std::current_exception();
    }
    co_return Outcome<T>(std::move(failure));
}

/// Awaits `task`, then `cleanup`, which runs also if the task failed or was cancelled. Returns the value of the task or throws
/// its failure. After a failure the cleanup ignores cancellation, and its own exception is discarded; after a success it
/// can be cancelled, and its exception is thrown.
///
///     std::string text = co_await with_cleanup(read(file), close(file));
template <class T>
Task<T> with_cleanup(Task<T> task, Task<> cleanup) {
    Outcome<T> outcome = co_await outcome_of(std::move(task));
    if (outcome.ok()) {
        co_await std::move(cleanup);
    } else {
        co_await shield();
        (void)co_await outcome_of(std::move(cleanup));
        co_await unshield();
    }
    if constexpr (std::is_void_v<T>) {
        outcome.rethrow();
    } else {
        co_return std::move(outcome).value();
    }
}

}  // namespace cubepi
