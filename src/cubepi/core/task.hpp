#pragma once

#include <cubepi/core/detail/compiler_requirements.hpp>

#include <cubepi/core/detail/asio_abi.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/this_coro.hpp>

namespace cubepi {

/// A coroutine that starts when it is awaited and runs on the executor of whoever awaits it.
///
/// Every Task honours terminal cancellation (see core/cancellation.hpp) unless its documentation
/// says otherwise; it then ends by throwing, never by returning early. A Task may be awaited once.
/// Parameters of coroutines are taken by value.
template <class T = void>
using Task = boost::asio::awaitable<T>;

/// Where coroutines run. An executor given to this library is serial: it runs one thing at a time
/// (an `io_context` that one thread runs, or a strand).
using Executor = boost::asio::any_io_executor;

/// `Executor executor = co_await this_executor;` Never suspends, never throws.
inline constexpr boost::asio::this_coro::executor_t this_executor{};

/// Goes to the back of the executor's queue, so that others get a turn.
Task<> yield_now();

}  // namespace cubepi
