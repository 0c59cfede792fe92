#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>

#include <cubepi/core/task.hpp>

namespace cubepi {

/// Threads for blocking calls. Threads are started on demand, at most `max_threads` at once (plus one for each that is
/// stuck, up to twice the number). Thread-safe.
class WorkerPool {
public:
    struct Stats {
        std::size_t threads = 0;  ///< started so far
        std::size_t running = 0;  ///< jobs in progress, including stuck ones
        std::size_t stuck = 0;    ///< jobs in progress whose caller has given up
        std::size_t queued = 0;   ///< jobs that wait for a thread
    };

    /// `name` is shown by debuggers, at most 15 characters. Starts no thread.
    explicit WorkerPool(std::size_t max_threads, std::string name = "cubepi-worker");

    /// Discards the jobs that have not started and waits for the others.
    ~WorkerPool();

    /// Runs `job` on a thread of the pool, in order of arrival. An exception that leaves the job terminates the
    /// program: use offload() (core/offload.hpp) for anything that can throw.
    void post(std::function<void()> job);

    Stats stats() const;

    WorkerPool(const WorkerPool&) = delete;
    WorkerPool& operator=(const WorkerPool&) = delete;

    /// Reports, for offload(), that a running job has no waiting caller; it counts as stuck until it ends.
    void job_abandoned();
    void abandoned_job_ended();

private:
    struct State;
    std::shared_ptr<State> state_;
};

namespace detail {

/// A call that runs on a thread of the pool. Shared by the awaiting coroutine and the thread, because either may end
/// first.
class OffloadJob {
public:
    virtual ~OffloadJob() = default;
    virtual void call(std::stop_token token) = 0;

    OffloadJob(const OffloadJob&) = delete;
    OffloadJob& operator=(const OffloadJob&) = delete;

protected:
    OffloadJob() = default;
};

/// Runs the job on the pool and waits for it; rethrows its exception.
Task<> run_offloaded(WorkerPool& pool, std::shared_ptr<OffloadJob> job);

template <class F, class = void>
struct OffloadResult {
    using type = std::invoke_result_t<F&>;
};
template <class F>
struct OffloadResult<F, std::enable_if_t<std::is_invocable_v<F&, std::stop_token>>> {
    using type = std::invoke_result_t<F&, std::stop_token>;
};

template <class F, class R>
class OffloadCall final : public OffloadJob {
public:
    explicit OffloadCall(F function) : function_(std::move(function)) {}

    void call(std::stop_token token) override {
        if constexpr (std::is_void_v<R>) {
            invoke(std::move(token));
        } else {
            result_.emplace(invoke(std::move(token)));
        }
    }

    R take() {
        if constexpr (!std::is_void_v<R>) return std::move(*result_);
    }

private:
    R invoke(std::stop_token token) {
        if constexpr (std::is_invocable_v<F&, std::stop_token>) {
            return function_(std::move(token));
        } else {
            return function_();
        }
    }

    struct Nothing {};
    F function_;
    std::optional<std::conditional_t<std::is_void_v<R>, Nothing, R>> result_;
};

}  // namespace detail

/// Calls `function()` or `function(std::stop_token)` on a thread of the pool and returns its result, or rethrows its
/// exception, on the caller's executor.
///
/// Cancellation: the stop token is stopped and the coroutine resumes immediately (with `operation_aborted`), while the
/// thread may still be executing the call; its result is then discarded. Therefore `function` must own or share
/// everything it uses; a reference to the caller's frame is a bug. A call that has not started is never made. `pool`
/// must outlive the calls that wait for it.
template <class F>
auto offload(WorkerPool& pool, F function) -> Task<typename detail::OffloadResult<F>::type> {
    using R = typename detail::OffloadResult<F>::type;
    auto job = std::make_shared<detail::OffloadCall<F, R>>(std::move(function));
    std::shared_ptr<detail::OffloadJob> base = job;
    co_await detail::run_offloaded(pool, std::move(base));
    co_return job->take();
}

}  // namespace cubepi
