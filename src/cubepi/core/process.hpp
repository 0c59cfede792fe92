#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/task.hpp>

// The port through which modules start child processes. The module process implements it; a test replaces it with
// Runtime::with_processes.

namespace cubepi {

/// The exit status of a process: an exit code or a signal.
struct ExitStatus {
    std::optional<int> code;
    std::optional<int> signal;
    bool ok() const noexcept { return code == 0; }
};

/// A process that was asked to exit and did not.
struct SurvivingProcess {
    std::int64_t pid = 0;  ///< 0: unknown
    std::string name;
    std::string reason;  ///< "operation not permitted"
};

/// The parameters of a child process.
struct ProcessOptions {
    std::string program;  ///< a path, or a name that is searched in PATH of the child's environment
    std::vector<std::string> arguments;  ///< without the program itself
    std::string directory;               ///< empty: that of this process
    /// "NAME=value"; absent: the variables of this process, without secrets (D58). child_environment() applies a policy.
    std::optional<std::vector<std::string>> environment;
    bool input = true;          ///< false: standard input is /dev/null
    bool merge_errors = false;  ///< standard error is a part of the output, in the order of writing
    /// If output and standard error together have more bytes, reading throws Error(too_large). Zero: no limit.
    std::uint64_t max_output_bytes = 0;
    /// Kills all processes after this time; wait() then throws TimeoutError. Zero: no limit.
    std::chrono::nanoseconds timeout = std::chrono::nanoseconds::zero();

    explicit ProcessOptions(std::string name) : program(std::move(name)) {}
};

/// A child process with all processes that it starts. Used on the executor on which it was started. The destructor kills all
/// remaining processes.
///
/// Nothing is buffered here: a process whose output is not read waits in its write, and write() waits for a process that does
/// not read. To pass more than the pipes hold (64 KiB), write and read concurrently.
class Process {
public:
    virtual ~Process() = default;

    /// Writes all bytes to standard input. One writer at a time. Throws Error(disconnected) if the process has closed its
    /// input or has exited, or after close_input(). A call that is cancelled may have written a part. The default is for a
    /// process without input.
    virtual Task<> write(std::string bytes) {
        (void)bytes;
        throw Error(ErrorCode::disconnected, "The process has no standard input.");
        co_return;
    }

    /// Ends standard input; a waiting write() throws.
    virtual void close_input() noexcept {}

    /// Waits for output and appends the bytes to `out`. Returns false at the end of the output, which may be long after the
    /// process has exited, because its child processes may hold the stream open. One reader at a time.
    virtual Task<bool> read(std::string& out) = 0;

    /// The same for standard error, which is at its end if it is merged with the output.
    virtual Task<bool> read_error(std::string& out) {
        (void)out;
        co_return false;
    }

    /// Appends available output without waiting. Returns false if there is none.
    virtual bool read_ready(std::string& out) = 0;

    /// True at the end of the output.
    virtual bool output_ended() const noexcept = 0;

    /// Stops reading; a waiting read() or read_error() returns false.
    virtual void close_output() noexcept = 0;

    /// Waits for the process itself to exit.
    virtual Task<ExitStatus> wait() = 0;

    /// Kills all processes (SIGKILL) and returns immediately.
    virtual void kill() noexcept = 0;

    /// True if no process is known to run. Child processes may outlive the process.
    virtual bool all_ended() const noexcept { return true; }

    /// Waits until all processes have exited. The default waits for the process itself.
    virtual Task<> wait_all() { co_await wait(); }

    /// Asks all processes to terminate (SIGTERM), kills those that remain after `grace` (zero: kills all at once), and waits
    /// for their end. Returns those that could not be ended. The default calls kill().
    virtual Task<std::vector<SurvivingProcess>> terminate(std::chrono::nanoseconds grace) {
        (void)grace;
        kill();
        co_await wait();
        co_return std::vector<SurvivingProcess>();
    }

    /// Like terminate() without grace, for destructors: blocks for at most about one second. The default calls kill().
    virtual std::vector<SurvivingProcess> end_now() noexcept {
        kill();
        return {};
    }

    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;

protected:
    Process() = default;
};

/// An interface that starts child processes. Thread-safe.
class ProcessLauncher {
public:
    virtual ~ProcessLauncher() = default;

    /// Returns when the program runs. Throws Error: not_found (the program or the directory), permission_denied,
    /// invalid_argument (a zero byte), io.
    virtual Task<std::shared_ptr<Process>> start(ProcessOptions options) = 0;

    ProcessLauncher(const ProcessLauncher&) = delete;
    ProcessLauncher& operator=(const ProcessLauncher&) = delete;

protected:
    ProcessLauncher() = default;
};

}  // namespace cubepi
