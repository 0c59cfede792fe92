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

// Cancellation has two sides. Inside coroutines it is Asio's terminal cancellation: the operation
// that is awaited ends with `operation_aborted`, and from then on every further `co_await` throws
// too. At the boundary to code that is no coroutine it is a `std::stop_token`. This header is the
// bridge; nothing else translates between the two.
//
// Cancellation is always rethrown. `co_await` is not allowed in a catch block, so cleanup that
// awaits looks like this (core/outcome.hpp):
//
//     Outcome<> done = co_await outcome_of(work());
//     co_await shield();                       // from here on awaiting works again
//     co_await clean_up();
//     done.rethrow();

namespace cubepi {

/// True for what a cancelled coroutine throws, and for an Error with ErrorCode::cancelled.
bool is_cancellation(const std::exception_ptr& failure) noexcept;

/// Throws what a cancelled coroutine throws.
[[noreturn]] void throw_cancelled();

/// The same as an exception_ptr.
std::exception_ptr make_cancelled();

/// `co_await shield();` makes the current coroutine (with all that awaits it) deaf to cancellation,
/// also to one that has happened, until `co_await unshield();`. Never suspends, never throws. A
/// cancellation that arrives in between is lost: rethrow what you caught.
inline auto shield() noexcept {
    return boost::asio::this_coro::reset_cancellation_state(boost::asio::disable_cancellation());
}

/// `co_await unshield();` listens to cancellation again, from now on. Never suspends, never throws.
inline auto unshield() noexcept { return boost::asio::this_coro::reset_cancellation_state(); }

/// `(co_await this_cancellation).cancelled() != boost::asio::cancellation_type::none` tells whether
/// the current coroutine was cancelled. Never suspends, never throws.
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

/// Runs `task` and cancels it when `token` is stopped, from whatever thread. It then throws what
/// the task throws, which is a cancellation unless the task finished first or failed otherwise.
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

/// Runs `task`. When the awaiting coroutine is cancelled, first requests a stop of `source`, so
/// that the task can end by itself, and cancels it only after `grace` (zero: at once). Waits for
/// the task to end in either case and throws a cancellation, whatever the task did with the
/// request. `clock` outlives the call.
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
