#include <cubepi/process/supervisor/command_supervisor.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <ctime>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cubepi/core/support/posix_file.hpp>

namespace cubepi::detail {

namespace {

using Kind = SupervisorReport::Kind;

struct KernelDirectoryEntry {
    std::uint64_t inode;
    std::int64_t offset;
    unsigned short length;
    unsigned char type;
    char name[1];
};

/// Parses the number at `at` and moves `at` after it and the following blank.
std::uint64_t take_number(const char*& at) noexcept {
    std::uint64_t value = 0;
    while (*at == '-') ++at;
    for (; *at >= '0' && *at <= '9'; ++at) value = value * 10 + static_cast<unsigned>(*at - '0');
    while (*at == ' ') ++at;
    return value;
}

/// Parses "PID (NAME) STATE PPID PGRP SESSION ..."; the start time is field 22. The name may contain any characters.
bool parse_stat(const char* text, ListedProcess& process) noexcept {
    const char* name = std::strchr(text, '(');
    const char* name_end = std::strrchr(text, ')');
    if (name == nullptr || name_end == nullptr || name_end[1] != ' ' || name_end[2] == '\0')
        return false;
    std::size_t length = static_cast<std::size_t>(name_end - name - 1);
    if (length >= sizeof(process.name)) length = sizeof(process.name) - 1;
    std::memcpy(process.name, name + 1, length);
    process.name[length] = '\0';
    process.state = name_end[2];
    if (name_end[3] != ' ') return false;
    const char* at = name_end + 4;
    process.parent = static_cast<pid_t>(take_number(at));
    take_number(at);  // process group
    process.session = static_cast<pid_t>(take_number(at));
    constexpr int first_skipped = 7;
    constexpr int start_time = 22;
    for (int field = first_skipped; field < start_time; ++field) take_number(at);
    process.start = take_number(at);
    return true;
}

bool read_process(int proc, const char* pid, ListedProcess& process) noexcept {
    char path[32];
    const std::size_t length = std::strlen(pid);
    constexpr char suffix[] = "/stat";
    if (length + sizeof(suffix) > sizeof(path)) return false;
    std::memcpy(path, pid, length);
    std::memcpy(path + length, suffix, sizeof(suffix));
    const UniqueFd file = open_file(path, O_RDONLY, 0, proc);
    if (!file) return false;
    char text[1024];
    const ssize_t got = ::read(file.get(), text, sizeof(text) - 1);
    if (got <= 0) return false;
    text[got] = '\0';
    const char* at = text;
    process.pid = static_cast<pid_t>(take_number(at));
    return parse_stat(text, process);
}

UniqueFd open_proc() noexcept { return open_file("/proc", O_RDONLY | O_DIRECTORY); }

constexpr int standard_streams = 3;

void close_between(int first, int last) noexcept {
    if (first > last) return;
    if (::syscall(SYS_close_range, first, last, 0) == 0) return;
    constexpr int highest = 65536;  // for a kernel before 5.9
    for (int one = first; one <= std::min(last, highest); ++one) ::close(one);
}

constexpr std::size_t most_inherited = 8;

/// The descriptors of a sandbox. -1 stands for none.
struct SandboxFds {
    int fds[most_inherited - 2];

    explicit SandboxFds(const SandboxEntry& sandbox) noexcept
        : fds{sandbox.ruleset,        sandbox.namespaces.user, sandbox.namespaces.network,
              sandbox.namespaces.ipc, sandbox.wrapper_options, sandbox.wrapper_filter} {}
};

/// The inherited descriptors that the supervisor uses besides the standard streams, sorted. -1 stands for none.
struct InheritedFds {
    int fds[most_inherited];

    explicit InheritedFds(const SupervisedCommand& command) noexcept
        : fds{command.control, command.null, -1, -1, -1, -1, -1, -1} {
        if (command.sandbox != nullptr) {
            const SandboxFds sandbox(*command.sandbox);
            std::copy(std::begin(sandbox.fds), std::end(sandbox.fds), fds + 2);
        }
        std::sort(fds, fds + most_inherited);
    }
};

/// Closes all inherited descriptors except the standard streams, these, and the places of a sandbox.
void close_all_but(const InheritedFds& inherited, const SandboxEntry* sandbox) noexcept {
    int next = standard_streams;
    const auto retain = [&next](int fd) {
        if (fd < next) return;
        close_between(next, fd - 1);
        next = fd + 1;
    };
    const int* place = sandbox ? sandbox->places : nullptr;
    const int* const end = sandbox ? place + sandbox->place_count : nullptr;
    for (const int fd : inherited.fds) {
        for (; place != end && *place < fd; ++place) retain(*place);
        retain(fd);
    }
    for (; place != end; ++place) retain(*place);
    close_between(next, static_cast<int>(~0U >> 1U));
}

void close_sandbox(const SandboxEntry& sandbox) noexcept {
    const SandboxFds all(sandbox);
    for (const int fd : all.fds) {
        if (fd >= 0) ::close(fd);
    }
    for (std::size_t i = 0; i < sandbox.place_count; ++i) ::close(sandbox.places[i]);
}

/// Why a command could not be started.
struct StartFailure {
    int error = 0;  ///< an errno value; 0: it runs
    SandboxFailure sandbox;
};

void reset_signals() noexcept {
    struct sigaction standard = {};
    standard.sa_handler = SIG_DFL;
    for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, &standard, nullptr);
}

/// Runs in the child of the supervisor. Reports an error through `failure`, which a successful exec closes.
[[noreturn]] void become_command(const SupervisedCommand& command, int failure) noexcept {
    // If the supervisor itself is killed, at least the command is killed too.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::setsid();
    StartFailure reason;
    if (command.sandbox != nullptr) reason.sandbox = enter_sandbox(*command.sandbox);
    reason.error = reason.sandbox.error;
    if (reason.sandbox.stage == SandboxStage::none) {
        // Again, because the kernel resets this when credentials change.
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        sigset_t none;
        sigemptyset(&none);
        ::sigprocmask(SIG_SETMASK, &none, nullptr);
        ::execve(command.program, command.arguments, command.environment);
        reason.error = errno;
    }
    (void)!::write(failure, &reason, sizeof(reason));
    ::_exit(127);
}

class Supervisor {
public:
    explicit Supervisor(const SupervisedCommand& command) noexcept : control_(command.control) {}

    StartFailure start(const SupervisedCommand& command) noexcept {
        if (::fchdir(command.working_directory) != 0) return {errno, {}};
        for (int stream = 0; stream < standard_streams; ++stream) {
            if (::dup2(command.streams[stream], stream) < 0) return {errno, {}};
        }
        close_all_but(InheritedFds(command), command.sandbox);
        if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return {errno, {}};
        sigset_t ended;
        sigemptyset(&ended);
        sigaddset(&ended, SIGCHLD);
        signals_ = ::signalfd(-1, &ended, SFD_CLOEXEC | SFD_NONBLOCK);
        if (signals_ < 0) return {errno, {}};
        int failure[2];
        if (::pipe2(failure, O_CLOEXEC) != 0) return {errno, {}};
        // The child shares this memory until its exec, and only makes system calls. A fork would copy the page tables of a
        // possibly large memory a second time.
        const pid_t pid = ::vfork();  // NOLINT(clang-analyzer-security.insecureAPI.vfork)
        if (pid == 0) become_command(command, failure[1]);
        const int fork_error = errno;
        ::close(failure[1]);
        // Only the command holds its ends of the pipes, so that each side sees when the other closes its end.
        for (int stream = 0; stream < standard_streams; ++stream)
            (void)::dup2(command.null, stream);
        ::close(command.null);
        if (command.sandbox != nullptr) close_sandbox(*command.sandbox);
        (void)!::chdir("/");
        if (pid < 0) return {fork_error, {}};
        StartFailure reason;
        const ssize_t got = ::read(failure[0], &reason, sizeof(reason));
        ::close(failure[0]);
        if (got == sizeof(reason)) return reason;
        leader_ = pid;
        return {};
    }

    void report_start(const StartFailure& reason) const noexcept {
        SupervisorReport report;
        report.kind = reason.error == 0 ? Kind::started : Kind::failed;
        report.value = reason.error == 0 ? leader_ : reason.error;
        report.sandbox = reason.sandbox;
        send(report);
    }

    [[noreturn]] void watch() noexcept {
        for (;;) {
            reap();
            if (all_gone_) ::_exit(0);
            wait_for_event();
            if (!take_orders()) {
                kill_all();
                ::_exit(0);
            }
        }
    }

private:
    void send(const SupervisorReport& report) const noexcept {
        (void)!::send(control_, &report, sizeof(report), MSG_NOSIGNAL);
    }

    /// Waits for an exited child or a request.
    void wait_for_event() const noexcept {
        pollfd events[2] = {{control_, POLLIN, 0}, {signals_, POLLIN, 0}};
        if (::poll(events, 2, -1) > 0) clear_signals();
    }

    /// Reaps exited children. Each process of the command becomes a child, or descends from one.
    void reap() noexcept {
        SupervisorReport report;
        bool leader_ended = false;
        for (;;) {
            siginfo_t info{};
            if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG) != 0) {
                all_gone_ = true;
                break;
            }
            if (info.si_pid == 0) break;
            if (info.si_pid != leader_) continue;
            leader_ended = true;
            report.value = info.si_status;
            report.how = info.si_code;
        }
        if (!leader_ended && !all_gone_) return;
        // One packet, so that a command without remaining processes is not mistaken for one with such processes.
        report.kind = leader_ended ? Kind::ended : Kind::all_gone;
        report.all_gone = all_gone_;
        if (leader_ended) leader_ = -1;
        send(report);
    }

    /// Returns false if no further request can arrive, so that this process can exit.
    bool take_orders() noexcept {
        for (;;) {
            char order = 0;
            const ssize_t got = ::recv(control_, &order, 1, MSG_DONTWAIT);
            if (got < 0 && errno == EINTR) continue;
            if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
            if (got <= 0) return false;
            if (order == static_cast<char>(SupervisorOrder::terminate)) signal_all(SIGTERM);
            if (order == static_cast<char>(SupervisorOrder::kill)) kill_all();
        }
    }

    struct Signalled {
        int sent = 0;
        int refused = 0;
    };

    /// Signals every running process of the command.
    Signalled signal_all(int signal) noexcept {
        Signalled result;
        if (!tree_.scan() && leader_ > 0) {
            // Without /proc, at least the process group of the command is known.
            result.sent = ::kill(-leader_, signal) == 0 ? 1 : 0;
            return result;
        }
        tree_.select_descendants(::getpid());
        for (const ListedProcess& one : tree_) {
            if (!one.selected || !one.running()) continue;
            const int error = send_signal(one, signal);
            result.sent += error == 0 ? 1 : 0;
            result.refused += error != 0 && error != ESRCH ? 1 : 0;
        }
        return result;
    }

    /// Repeats, because a process can start another one until the signal reaches it. The children of a killed process become
    /// children of this one, so the end of all children is the end of the command.
    void kill_all() noexcept {
        constexpr int most_rounds = 100;
        constexpr int pause_milliseconds = 10;
        for (int round = 0; round < most_rounds; ++round) {
            reap();
            if (all_gone_) return;
            const Signalled killed = signal_all(SIGKILL);
            if (killed.sent == 0 && killed.refused > 0) break;
            wait_for_end(pause_milliseconds);
        }
        reap();
        if (!all_gone_) report_unkilled();
    }

    void wait_for_end(int milliseconds) const noexcept {
        pollfd event = {signals_, POLLIN, 0};
        if (::poll(&event, 1, milliseconds) > 0) clear_signals();
    }

    void clear_signals() const noexcept {
        signalfd_siginfo ignored;
        while (::read(signals_, &ignored, sizeof(ignored)) > 0) continue;
    }

    void report_unkilled() noexcept {
        (void)tree_.scan();
        tree_.select_descendants(::getpid());
        SupervisorReport report;
        report.kind = Kind::unkilled;
        for (const ListedProcess& one : tree_) {
            if (!one.selected || !one.running()) continue;
            const int error = send_signal(one, SIGKILL);
            if (error == ESRCH) continue;
            if (report.unkilled_count < SupervisorReport::most_unkilled) {
                UnkilledProcess& unkilled = report.unkilled[report.unkilled_count];
                unkilled.pid = one.pid;
                unkilled.error = error;
                std::memcpy(unkilled.name, one.name, sizeof(unkilled.name));
            }
            ++report.unkilled_count;
        }
        send(report);
    }

    const int control_;
    int signals_ = -1;
    pid_t leader_ = -1;
    bool all_gone_ = false;
    ProcessTree tree_;
};

}  // namespace

ProcessTree::~ProcessTree() {
    if (entries_ != nullptr) ::munmap(entries_, capacity_ * sizeof(ListedProcess));
}

bool ProcessTree::grow() noexcept {
    constexpr std::size_t first = 1024;
    const std::size_t capacity = capacity_ == 0 ? first : capacity_ * 2;
    void* memory = ::mmap(nullptr, capacity * sizeof(ListedProcess), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return false;
    if (entries_ != nullptr) {
        std::memcpy(memory, static_cast<const void*>(entries_), count_ * sizeof(ListedProcess));
        ::munmap(entries_, capacity_ * sizeof(ListedProcess));
    }
    entries_ = static_cast<ListedProcess*>(memory);
    capacity_ = capacity;
    return true;
}

bool ProcessTree::add(int proc, const char* pid) noexcept {
    if (count_ == capacity_ && !grow()) return false;
    ListedProcess process;
    if (read_process(proc, pid, process)) entries_[count_++] = process;
    return true;  // a process that exited meanwhile is skipped
}

bool ProcessTree::scan() noexcept {
    count_ = 0;
    const UniqueFd proc = open_proc();
    if (!proc) return false;
    alignas(KernelDirectoryEntry) char buffer[16 * 1024];
    bool good = true;
    for (;;) {
        const long got = ::syscall(SYS_getdents64, proc.get(), buffer, sizeof(buffer));
        if (got <= 0) {
            good = good && got == 0;
            break;
        }
        for (long at = 0; at < got;) {
            const auto* entry = reinterpret_cast<const KernelDirectoryEntry*>(buffer + at);
            at += entry->length;
            const bool is_process = entry->name[0] >= '1' && entry->name[0] <= '9';
            if (is_process) good = add(proc.get(), entry->name) && good;
        }
    }
    return good;
}

void ProcessTree::select_descendants(pid_t ancestor) noexcept {
    // The kernel lists processes in the order of their pids.
    const auto selected = [this, ancestor](pid_t pid) {
        if (pid == ancestor) return true;
        const ListedProcess* found = std::lower_bound(
            begin(), end(), pid,
            [](const ListedProcess& process, pid_t number) { return process.pid < number; });
        return found != end() && found->pid == pid && found->selected;
    };
    for (bool changed = true; changed;) {
        changed = false;
        for (std::size_t i = 0; i < count_; ++i) {
            ListedProcess& one = entries_[i];
            if (one.selected || one.pid == ancestor || !selected(one.parent)) continue;
            one.selected = changed = true;
        }
    }
}

void ProcessTree::select_session(pid_t session) noexcept {
    for (std::size_t i = 0; i < count_; ++i) entries_[i].selected = entries_[i].session == session;
}

int send_signal(const ListedProcess& process, int signal) noexcept {
    const UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
    if (!handle) return errno;
    // The handle refers to one process, so the result of this check also applies to the signal.
    ListedProcess now;
    char pid[16] = {};
    std::to_chars(pid, pid + sizeof(pid) - 1, process.pid);
    const UniqueFd proc = open_proc();
    const bool same = proc && read_process(proc.get(), pid, now) && now.start == process.start;
    if (!same) return ESRCH;
    return ::syscall(SYS_pidfd_send_signal, handle.get(), signal, nullptr, 0) == 0 ? 0 : errno;
}

void supervise(const SupervisedCommand& command) noexcept {
    ::setsid();  // no signals from a terminal
    // This process is a copy of another one's memory, including keys, and must not be readable.
    ::prctl(PR_SET_DUMPABLE, 0);
    ::prctl(PR_SET_NAME, "cubepi-command");
    // The command may have stopped this process, which must notice the end of its parent all the same.
    ::prctl(PR_SET_PDEATHSIG, SIGCONT);
    reset_signals();
    Supervisor supervisor(command);
    const StartFailure reason = supervisor.start(command);
    supervisor.report_start(reason);
    if (reason.error != 0) ::_exit(1);
    supervisor.watch();
}

}  // namespace cubepi::detail
