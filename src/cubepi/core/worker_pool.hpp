#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

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

}  // namespace cubepi
