#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include <boost/asio/cancellation_state.hpp>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/task.hpp>

// Cancellation has two forms. Inside coroutines it is Asio's terminal cancellation: the awaited operation ends with
// `operation_aborted`, and from then on every further `co_await` throws too. At the boundary to code that is not a
// coroutine it is a `std::stop_token`. Only this header converts between the two.
//
// Cancellation is always rethrown. `co_await` is not allowed in a catch block, so cleanup that
// awaits looks like this (core/outcome.hpp):
//
//     Outcome<> done = co_await outcome_of(work());
//     co_await shield();                       // from here on awaiting works again
//     co_await clean_up();
//     done.rethrow();

namespace cubepi {

/// Returns true for the exception of a cancelled coroutine and for an Error with ErrorCode::cancelled.
bool is_cancellation(const std::exception_ptr& failure) noexcept;

/// Throws the exception of a cancelled coroutine.
[[noreturn]] void throw_cancelled();

/// Returns the same exception as an exception_ptr.
std::exception_ptr make_cancelled();

/// `co_await shield();` makes the current coroutine (and the coroutines that await it) ignore cancellation, including
/// one that has already happened, until `co_await unshield();`. Never suspends, never throws. A cancellation that
/// arrives in between is lost: rethrow the exception that was caught.
inline auto shield() noexcept {
    return boost::asio::this_coro::reset_cancellation_state(boost::asio::disable_cancellation());
}

/// `co_await unshield();` enables cancellation again, from this point on. Never suspends, never throws.
inline auto unshield() noexcept { return boost::asio::this_coro::reset_cancellation_state(); }

/// `(co_await this_cancellation).cancelled() != boost::asio::cancellation_type::none` is true if the current coroutine
/// was cancelled. Never suspends, never throws.
inline constexpr boost::asio::this_coro::cancellation_state_t this_cancellation{};

namespace detail {

Task<> run_cancel_on(std::stop_token token, Task<> task);
Task<> run_stoppable(std::stop_source source, Clock& clock, std::chrono::nanoseconds grace,
                     Task<> task);

template <class T>
Task<> store_result(Task<T> task, std::optional<T>& result) {
    result.emplace(co_await std::move(task));
}

}  // namespace detail

/// Runs `task` and cancels it when `token` is stopped, from any thread. Rethrows the exception of the task, which is a
/// cancellation unless the task finished first or failed otherwise.
template <class T>
Task<T> cancel_on(std::stop_token token, Task<T> task) {
    std::optional<T> result;
    Task<> stored = detail::store_result(std::move(task), result);
    co_await detail::run_cancel_on(std::move(token), std::move(stored));
    co_return std::move(*result);
}

template <>
inline Task<void> cancel_on<void>(std::stop_token token, Task<void> task) {
    return detail::run_cancel_on(std::move(token), std::move(task));
}

/// Runs `task`. If the awaiting coroutine is cancelled, first requests a stop of `source`, so that the task can end by
/// itself, and cancels it only after `grace` (zero: immediately). Waits for the task to end in either case and throws a
/// cancellation, regardless of the task's result. `clock` must outlive the call.
template <class T>
Task<T> stop_on_cancel(std::stop_source source, Clock& clock, std::chrono::nanoseconds grace,
                       Task<T> task) {
    std::optional<T> result;
    Task<> stored = detail::store_result(std::move(task), result);
    co_await detail::run_stoppable(std::move(source), clock, grace, std::move(stored));
    co_return std::move(*result);
}

template <>
inline Task<void> stop_on_cancel<void>(std::stop_source source, Clock& clock,
                                       std::chrono::nanoseconds grace, Task<void> task) {
    return detail::run_stoppable(std::move(source), clock, grace, std::move(task));
}

}  // namespace cubepi
