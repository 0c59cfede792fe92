#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>

#include <cubepi/core/task.hpp>
#include <cubepi/core/worker_pool.hpp>

namespace cubepi {

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
