#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/sanitizer_test_support.hpp>
#include <cubepi/core/scoped_test_directory.hpp>

// Runs this program again, as the process that is killed or as a concurrent one. And the steps at which such a process kills itself:
// before, in the middle of, and after a write to a file, and before and after a rename and a removal; worker_process.cpp replaces write,
// rename, renameat, unlink and unlinkat.

namespace cubepi::crash_tests {

class TestDirectory : public ScopedTestDirectory {
public:
    TestDirectory() : ScopedTestDirectory(memory_directory()) {}
};

/// The end of a worker.
struct Ended {
    bool killed = false;  ///< by SIGKILL
    int status = 0;       ///< the exit status, if it was not killed
};

/// A worker of this program (see tests_or_worker). Killed with its object.
class WorkerProcess {
public:
    explicit WorkerProcess(std::vector<std::string> arguments);
    ~WorkerProcess();
    WorkerProcess(const WorkerProcess&) = delete;
    WorkerProcess& operator=(const WorkerProcess&) = delete;

    /// Waits for its end; an end that Ended cannot represent fails the test.
    Ended wait();
    /// Waits until it has stopped itself or ended. Returns true if it has stopped (SIGSTOP).
    bool wait_until_frozen();
    /// Continues it (SIGCONT).
    void thaw();

private:
    void note_end(int status);

    pid_t pid_ = 0;
    bool over_ = false;
    Ended ended_;
};

/// Runs one worker to its end.
Ended run_worker(std::vector<std::string> arguments);

/// The remains of a worker that was to be killed at step `step`.
struct Remains {
    const std::filesystem::path& directory;
    std::size_t step;
    bool killed;  ///< false: it ended before that step
};

/// For long tests: the number of steps from one kill to the next.
inline constexpr std::size_t kill_stride = under_sanitizer ? 7 : 1;

/// Runs `worker DIRECTORY STEP` in a new directory for step 1, 1 + stride, 1 + 2 * stride, ..., and passes the remains to `check`,
/// until one ends by itself (with status 0) or a check fails. Returns the number of the last step.
std::size_t kill_at_each_step(const std::string& worker,
                              const std::function<void(const Remains&)>& check,
                              std::size_t stride = 1);

/// A worker: receives the arguments without its name, returns the exit status.
using Worker = std::function<int(const std::vector<std::string>& arguments)>;
/// The main function: runs the worker named by the first argument, else the tests.
int tests_or_worker(int argc, char** argv, const std::map<std::string, Worker>& workers);

// In the worker.

/// Starts counting steps; the process kills itself at step `kill_at`, unless it is zero.
void arm(std::size_t kill_at);
/// Calls the function at each step instead, with the number of the step, on the thread of the step.
void arm(std::function<void(std::size_t step)> at_step);
void disarm();
/// A step other than a write to a file.
void step();
/// A note of the test itself, which is not a step.
void write_without_step(int fd, std::string_view bytes);

}  // namespace cubepi::crash_tests
