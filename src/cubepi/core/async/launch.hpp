#pragma once

#include <exception>
#include <utility>

#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/version.hpp>

#include <cubepi/core/task.hpp>

// Boost 1.81's co_spawn posts and dispatches through the type-erased executor three times for each coroutine, even for
// one that ends immediately: 5,000 instructions. On the current executor this is unnecessary. Avoiding it relies on an
// implementation detail of Asio that was verified for this version only; with other versions co_spawn is used
// (-DCUBEPI_PLAIN_CO_SPAWN forces that).
#if BOOST_VERSION == 108100 && !defined(CUBEPI_PLAIN_CO_SPAWN)
#define CUBEPI_DIRECT_LAUNCH 1
#else
#define CUBEPI_DIRECT_LAUNCH 0
#endif

namespace cubepi::detail {

#if CUBEPI_DIRECT_LAUNCH

using LaunchedTask =
    boost::asio::awaitable<boost::asio::detail::awaitable_thread_entry_point, Executor>;

template <class End>
LaunchedTask launched(Task<> task, End end) {
    co_await std::move(task);
    std::move(end)(nullptr);
}

/// Starts `task`, which must not throw, on the current executor and runs it until it first suspends. `end` is called
/// when it has ended, possibly before this returns. `end` has the cancellation slot of the task.
template <class End>
void launch_here(const Executor& executor, Task<> task, End end) {
    const boost::asio::cancellation_slot slot = end.get_cancellation_slot();
    const boost::asio::cancellation_state state(slot);
    LaunchedTask entry = launched(std::move(task), std::move(end));
    boost::asio::detail::awaitable_handler<Executor, void> thread(std::move(entry), executor, slot,
                                                                  state);
    thread.launch();
}

#else

template <class End>
void launch_here(const Executor& executor, Task<> task, End end) {
    boost::asio::co_spawn(executor, std::move(task), std::move(end));
}

#endif

/// Like launch_here(), on another executor. `end` is called there.
template <class End>
void launch_on(const Executor& executor, Task<> task, End end) {
    boost::asio::co_spawn(executor, std::move(task), std::move(end));
}

}  // namespace cubepi::detail
