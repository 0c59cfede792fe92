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

/// `on_idle`, where given, is called when nothing is ready; false means that it could not make
/// anything ready either.
void run_blocking(Task<> task, std::function<bool()> on_idle = {});

}  // namespace detail

/// The event loop that run() uses on this thread. It is kept from call to call, so that what is
/// bound to it (kept connections) is still there the next time, and ends with the thread. Throws
/// Error(invalid_state) once the thread-local objects of the thread have been destroyed.
boost::asio::io_context& this_thread_context();

/// Runs `task` to its end on this thread and gives its result or throws its exception: for programs
/// without an event loop. Between calls nothing runs.
///
/// Throws Error(invalid_state) on a thread that is inside run() already: co_await the task there
/// instead. Throws the same once the thread-local objects of the thread have been destroyed, as they
/// are when a static destructor runs.
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
