#pragma once

#include <cubepi/core/detail/compiler_requirements.hpp>

#include <cubepi/core/detail/asio_abi.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/this_coro.hpp>

namespace cubepi {

/// A coroutine that starts when it is awaited and runs on the executor of the awaiting coroutine.
///
/// Every Task honors terminal cancellation (see core/cancellation.hpp) unless documented otherwise; it then ends by
/// throwing, never by returning early. A Task may be awaited once. Coroutine parameters are passed by value.
template <class T = void>
using Task = boost::asio::awaitable<T>;

/// The executor of coroutines. An executor passed to this library must be serial: it runs one handler at a time (an
/// `io_context` run by one thread, or a strand).
using Executor = boost::asio::any_io_executor;

/// `Executor executor = co_await this_executor;` Never suspends, never throws.
inline constexpr boost::asio::this_coro::executor_t this_executor{};

/// Moves the coroutine to the end of the executor's queue, so that others can run.
Task<> yield_now();

}  // namespace cubepi
