#include <cubepi/core/worker_pool.hpp>

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>
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
