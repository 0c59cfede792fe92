#pragma once

#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/task.hpp>

namespace boost::asio {
class io_context;
}

namespace cubepi {

namespace detail {

/// `on_idle`, if set, is called when nothing is ready; it returns false if it could not make anything ready either.
void run_blocking(Task<> task, std::function<bool()> on_idle = {});

}  // namespace detail

/// Returns the event loop that run() uses on this thread. It persists between calls, so that objects bound to it
/// (pooled connections) remain usable, and is destroyed with the thread. Throws Error(invalid_state) once the
/// thread-local objects of the thread have been destroyed.
boost::asio::io_context& this_thread_context();

/// Runs `task` to its end on this thread and returns its result or throws its exception; for programs without an event
/// loop. Nothing runs between calls.
///
/// Throws Error(invalid_state) on a thread that is already inside run(): co_await the task there instead. Throws the
/// same once the thread-local objects of the thread have been destroyed, as they are when a static destructor runs.
template <class T>
T run(Task<T> task) {
    if constexpr (std::is_void_v<T>) {
        detail::run_blocking(std::move(task));
    } else {
        std::optional<T> result;
        detail::run_blocking(detail::store_result(std::move(task), result));
        return std::move(*result);
    }
}

}  // namespace cubepi
