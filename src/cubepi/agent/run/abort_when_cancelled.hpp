#pragma once

#include <functional>
#include <optional>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi::detail {

/// Awaits `run` so that cancelling the awaiting coroutine calls `abort`; the run then closes regularly (D38), and the
/// cancellation is thrown.
Task<void> abort_when_cancelled(Task<void> run, std::function<void()> abort);

template <class T>
Task<T> abort_when_cancelled(Task<T> run, std::function<void()> abort) {
    std::optional<T> result;
    Task<void> stored = store_result(std::move(run), result);
    co_await abort_when_cancelled(std::move(stored), std::move(abort));
    co_return std::move(*result);
}

}  // namespace cubepi::detail
