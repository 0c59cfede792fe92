#include <cubepi/core/offload.hpp>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>

#include <boost/asio/post.hpp>

#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/support/blocked_signals.hpp>

namespace cubepi {

struct WorkerPool::State {
    State(std::size_t most, std::string pool_name)
        : max_threads(std::max<std::size_t>(most, 1)), name(std::move(pool_name)) {
        name.resize(std::min<std::size_t>(name.size(), 15));
    }

    const std::size_t max_threads;
    std::string name;

    mutable std::mutex mutex;
    std::condition_variable work;
    std::deque<std::function<void()>> queue;
    std::vector<std::thread> threads;
    std::size_t idle = 0;
    std::size_t running = 0;
    std::size_t stuck = 0;
    bool stopping = false;

    bool wants_thread() const {
        return queue.size() > idle && threads.size() < max_threads + std::min(stuck, max_threads);
    }

    static void run(const std::shared_ptr<State>& self);
    static void add_thread(const std::shared_ptr<State>& self);
};

void WorkerPool::State::run(const std::shared_ptr<State>& self) {
    pthread_setname_np(pthread_self(), self->name.c_str());
    std::unique_lock lock(self->mutex);
    for (;;) {
        ++self->idle;
        self->work.wait(lock, [&self] { return self->stopping || !self->queue.empty(); });
        --self->idle;
        if (self->stopping) return;
        std::function<void()> job = std::move(self->queue.front());
        self->queue.pop_front();
        ++self->running;
        lock.unlock();
        job();
        job = nullptr;
        lock.lock();
        --self->running;
    }
}

void WorkerPool::State::add_thread(const std::shared_ptr<State>& self) {
    const detail::BlockedSignals blocked;
    try {
        self->threads.emplace_back([self] { run(self); });
    } catch (const std::system_error& error) {
        if (!self->threads.empty()) return;  // the others will execute it
        self->queue.pop_back();
        throw Error(ErrorCode::io, "cannot start a worker thread: " + std::string(error.what()) +
                                       "; check the limit of processes (ulimit -u)");
    }
}

WorkerPool::WorkerPool(std::size_t max_threads, std::string name)
    : state_(std::make_shared<State>(max_threads, std::move(name))) {}

WorkerPool::~WorkerPool() {
    std::deque<std::function<void()>> dropped;
    std::vector<std::thread> threads;
    {
        const std::lock_guard lock(state_->mutex);
        state_->stopping = true;
        dropped.swap(state_->queue);
        threads.swap(state_->threads);
    }
    state_->work.notify_all();
    dropped.clear();
    for (std::thread& thread : threads) {
        if (thread.get_id() == std::this_thread::get_id()) {
            thread.detach();  // the last owner of the pool was one of its jobs
        } else {
            thread.join();
        }
    }
}

void WorkerPool::post(std::function<void()> job) {
    {
        const std::lock_guard lock(state_->mutex);
        state_->queue.push_back(std::move(job));
        if (state_->wants_thread()) State::add_thread(state_);
    }
    state_->work.notify_one();
}

WorkerPool::Stats WorkerPool::stats() const {
    const std::lock_guard lock(state_->mutex);
    Stats stats;
    stats.threads = state_->threads.size();
    stats.running = state_->running;
    stats.stuck = state_->stuck;
    stats.queued = state_->queue.size();
    return stats;
}

void WorkerPool::job_abandoned() {
    const std::lock_guard lock(state_->mutex);
    ++state_->stuck;
    if (!state_->stopping && state_->wants_thread()) State::add_thread(state_);
}

void WorkerPool::abandoned_job_ended() {
    const std::lock_guard lock(state_->mutex);
    --state_->stuck;
}

}  // namespace cubepi

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
    boost::asio::post(state->executor, [state, job = std::move(state->job)] {
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
