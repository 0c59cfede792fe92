#pragma once

#include <cstddef>
#include <cstdint>

#include <sys/types.h>

#include <cubepi/process/sandbox/enter_sandbox.hpp>

// The processes of this machine and their parents, as /proc lists them. Everything here is async-signal-safe: it allocates
// with mmap() alone, so that the child of a fork of a threaded program may use it.

// A supervisor process for each command. It is a small fork of this process that becomes the parent of every process of the
// command whose own parent has exited (a "child subreaper"), and therefore finds all of them, also those in a session or
// process group of their own. It ends the command when this process exits for any reason.

namespace cubepi::detail {

struct ListedProcess {
    pid_t pid = 0;
    pid_t parent = 0;
    pid_t session = 0;
    char state = 0;         ///< 'Z' for a process that has exited and was not waited for
    bool selected = false;  ///< by select_descendants() or select_session()
    std::uint64_t start =
        0;  ///< clock ticks since boot; identifies the process together with the pid
    char name[16] = {};

    bool running() const noexcept { return state != 'Z' && state != 'X' && state != 'x'; }
};

class ProcessTree {
public:
    ProcessTree() noexcept = default;
    ~ProcessTree();
    ProcessTree(const ProcessTree&) = delete;
    ProcessTree& operator=(const ProcessTree&) = delete;

    /// Refreshes the list of processes. Returns false if /proc cannot be read.
    bool scan() noexcept;
    /// Selects the descendants of `ancestor`, without the process itself.
    void select_descendants(pid_t ancestor) noexcept;
    /// Selects the processes of a session.
    void select_session(pid_t session) noexcept;

    const ListedProcess* begin() const noexcept { return entries_; }
    const ListedProcess* end() const noexcept { return entries_ + count_; }

private:
    bool add(int proc, const char* pid) noexcept;
    bool grow() noexcept;

    ListedProcess* entries_ = nullptr;
    std::size_t count_ = 0;
    std::size_t capacity_ = 0;
};

/// Sends a signal to the listed process, not to another one that has reused its pid. Returns 0 or an errno value; ESRCH if the
/// process has exited.
int send_signal(const ListedProcess& process, int signal) noexcept;

/// A request to the supervisor, one byte. The end of the stream means kill, then exit.
enum class SupervisorOrder : char { terminate = 't', kill = 'k' };

/// A process that was killed and has not exited.
struct UnkilledProcess {
    std::int32_t pid = 0;
    std::int32_t error = 0;  ///< an errno value; 0: the signal was sent
    char name[16] = {};
};

/// A report of the supervisor, one packet.
struct SupervisorReport {
    enum class Kind : std::uint8_t {
        started,   ///< the command runs; `value` is its pid
        failed,    ///< the command could not be started; `value` is an errno value
        ended,     ///< the command itself has exited; `value` and `how` are those of waitid()
        all_gone,  ///< no process of the command remains
        unkilled,  ///< some processes have not exited after they were killed
    };
    static constexpr std::uint32_t most_unkilled = 8;

    Kind kind = Kind::started;
    bool all_gone = false;  ///< with `ended`: no process of the command remains
    std::int32_t value = 0;
    std::int32_t how = 0;
    SandboxFailure sandbox =
        {};  ///< with `failed`: the setup of the sandbox, if that was the reason
    std::uint32_t unkilled_count = 0;  ///< may exceed the number of listed processes
    UnkilledProcess unkilled[most_unkilled] = {};
};

/// The data of the supervisor, prepared before the fork.
struct SupervisedCommand {
    const char* program = nullptr;
    char* const* arguments = nullptr;
    char* const* environment = nullptr;
    int working_directory = -1;
    // All others are at least 3.
    int streams[3] = {-1, -1, -1};  ///< become standard input, output and error of the command
    int null = -1;                  ///< /dev/null, open for reading and writing
    int control = -1;               ///< a socket for packets
    const SandboxEntry* sandbox = nullptr;  ///< null: none
};

/// Runs in the child of a fork with all signals blocked. Async-signal-safe.
[[noreturn]] void supervise(const SupervisedCommand& command) noexcept;

}  // namespace cubepi::detail
