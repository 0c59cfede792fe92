#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace cubepi {

/// Threads for calls that block. Threads start when there is work for them, never more than
/// `max_threads` at once (plus one for each that is stuck, up to twice the number). Any thread may
/// call any member.
class WorkerPool {
public:
    struct Stats {
        std::size_t threads = 0;  ///< started so far
        std::size_t running = 0;  ///< jobs that run now, stuck ones included
        std::size_t stuck = 0;    ///< jobs that run although whoever asked for them has given up
        std::size_t queued = 0;   ///< jobs that wait for a thread
    };

    /// `name` is what debuggers show, at most 15 characters. Starts no thread.
    explicit WorkerPool(std::size_t max_threads, std::string name = "cubepi-worker");

    /// Drops the jobs that have not started and waits for those that have.
    ~WorkerPool();

    /// Runs `job` on a thread of the pool, in order of arrival. An exception that leaves the job
    /// ends the program: use offload() (core/offload.hpp) for anything that can throw.
    void post(std::function<void()> job);

    Stats stats() const;

    WorkerPool(const WorkerPool&) = delete;
    WorkerPool& operator=(const WorkerPool&) = delete;

    /// For offload(): a running job that nobody waits for any more counts as stuck until it ends.
    void job_abandoned();
    void abandoned_job_ended();

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace cubepi
