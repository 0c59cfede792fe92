#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

// This program, run again as the process that is killed, or as one beside it.

namespace cubepi::crash_tests {

/// A directory of its own for one test, gone with it.
class TestDirectory {
public:
    TestDirectory();
    ~TestDirectory();
    TestDirectory(const TestDirectory&) = delete;
    TestDirectory& operator=(const TestDirectory&) = delete;
    const std::filesystem::path& path() const noexcept { return path_; }

private:
    std::filesystem::path path_;
};

/// How a worker ended.
struct Ended {
    bool killed = false;  ///< by SIGKILL
    int status = 0;       ///< what it returned, when it was not
};

/// A worker of this program (see tests_or_worker). Killed with its object.
class WorkerProcess {
public:
    explicit WorkerProcess(std::vector<std::string> arguments);
    ~WorkerProcess();
    WorkerProcess(const WorkerProcess&) = delete;
    WorkerProcess& operator=(const WorkerProcess&) = delete;

    /// Returns when it is over; that it ended in another way than Ended knows fails the test.
    Ended wait();
    /// Returns when it has stopped itself, or is over. True: it has stopped (SIGSTOP).
    bool wait_until_frozen();
    /// It goes on (SIGCONT).
    void thaw();

private:
    void note_end(int status);

    pid_t pid_ = 0;
    bool over_ = false;
    Ended ended_;
};

/// One worker from its start to its end.
Ended run_worker(std::vector<std::string> arguments);

/// What a worker left that was to be killed at step `step`.
struct Remains {
    const std::filesystem::path& directory;
    std::size_t step;
    bool killed;  ///< false: it came to its end before that step
};

/// Runs `worker FOLDER STEP` in a fresh directory for step 1, 2, 3, ..., and gives `check` what each left, until one comes to its
/// end (with status 0) or a check fails. The number of steps.
std::size_t kill_at_each_step(const std::string& worker,
                              const std::function<void(const Remains&)>& check);

/// A worker's arguments, without its name; gives the exit status.
using Worker = std::function<int(const std::vector<std::string>& arguments)>;
/// The main function: runs the worker that the first argument names, else the tests.
int tests_or_worker(int argc, char** argv, const std::map<std::string, Worker>& workers);

}  // namespace cubepi::crash_tests
