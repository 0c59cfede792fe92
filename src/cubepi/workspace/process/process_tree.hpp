#pragma once

#include <cstddef>
#include <cstdint>

#include <sys/types.h>

// The processes of this machine and their parents, as /proc lists them. Everything here is async-signal-safe: it allocates
// with mmap() alone, so that the child of a fork of a threaded program may use it.

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

}  // namespace cubepi::detail
