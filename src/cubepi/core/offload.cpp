#include <cubepi/core/offload.hpp>

#include <mutex>
#include <utility>

#include <cubepi/core/async/post.hpp>
#include <cubepi/core/event_signal.hpp>

namespace cubepi::detail {

namespace {

struct OffloadState {
    explicit OffloadState(Executor caller, std::shared_ptr<OffloadJob> call)
        : executor(std::move(caller)), job(std::move(call)) {}

    const Executor executor;
    std::shared_ptr<OffloadJob> job;
    std::stop_source stop;
    std::exception_ptr failure;  // written by the worker before it posts
    AsyncEvent* done = nullptr;  // the caller's; null after it has left. Used on its executor only.

    std::mutex mutex;
    bool caller_gone = false;
    bool running = false;
};

/// Runs on a thread of the pool.
void work(WorkerPool& pool, std::shared_ptr<OffloadState> state) {
    {
        const std::lock_guard lock(state->mutex);
        if (state->caller_gone) return;
        state->running = true;
    }
    try {
        state->job->call(state->stop.get_token());
    } catch (...) {
        state->failure = std::current_exception();
    }
    // Under the lock, because the caller's frame and then its event loop may be destroyed as soon as it is released.
    const std::lock_guard lock(state->mutex);
    state->running = false;
    if (state->caller_gone) {
        pool.abandoned_job_ended();
        return;
    }
    // The caller receives the job, so that its captures are destroyed on the caller's executor, not here.
    post_to(state->executor, [state, job = std::move(state->job)] {
        if (state->done) state->done->set();
    });
}

/// A guard that tells the worker that the caller no longer waits, however the caller's frame ends.
struct CallerLeaves {
    WorkerPool& pool;
    OffloadState& state;

    ~CallerLeaves() {
        bool abandoned = false;
        {
            const std::lock_guard lock(state.mutex);
            state.caller_gone = true;
            abandoned = state.running;
            if (abandoned) pool.job_abandoned();
        }
        state.done = nullptr;
        if (abandoned) state.stop.request_stop();
    }
};

}  // namespace

Task<> run_offloaded(WorkerPool& pool, std::shared_ptr<OffloadJob> job) {
    AsyncEvent done;
    const auto state = std::make_shared<OffloadState>(co_await this_executor, std::move(job));
    state->done = &done;
    const CallerLeaves leaves{pool, *state};
    pool.post([&pool, state]() mutable { work(pool, std::move(state)); });
    co_await done.wait();
    // Moved out of the state, which may be destroyed on the worker: the exception belongs to the caller alone.
    if (std::exception_ptr failure = std::exchange(state->failure, nullptr))
        std::rethrow_exception(std::move(failure));
}

}  // namespace cubepi::detail
