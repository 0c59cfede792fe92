#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task_scope.hpp>

#include "console.hpp"

namespace cubepi::app {

/// Requests a stop when the user interrupts or leaves.
inline Task<> stop_on_interrupt(std::shared_ptr<Console> console, std::stop_source stop) {
    co_await console->interrupted();
    stop.request_stop();
}

/// Runs `work` until the user interrupts it or leaves, which cancels it: then returns nothing. Rethrows its failure. For work that
/// reads no keys and may wait for a database or a network.
template <class T>
Task<std::optional<T>> unless_interrupted(std::shared_ptr<Console> console, Task<T> work) {
    const Executor executor = co_await this_executor;
    std::stop_source stop;
    BackgroundScope keys(executor);
    keys.spawn(stop_on_interrupt(console, stop));
    Task<T> cancellable = cancel_on(stop.get_token(), std::move(work));
    Outcome<T> done = co_await outcome_of(std::move(cancellable));
    co_await shield();
    co_await keys.close();
    co_await unshield();
    std::optional<T> result;
    if (!done && done.cancelled() && stop.stop_requested()) co_return result;
    result.emplace(std::move(done).value());
    co_return result;
}

}  // namespace cubepi::app
