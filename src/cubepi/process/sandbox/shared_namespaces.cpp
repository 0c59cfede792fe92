#include <cubepi/process/sandbox/shared_namespaces.hpp>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sched.h>
#include <string_view>

#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cubepi/core/support/blocked_signals.hpp>

namespace cubepi::detail {

namespace {

struct Pipe {
    UniqueFd read;
    UniqueFd write;
    Pipe() {
        int ends[2] = {-1, -1};
        if (::pipe2(ends, O_CLOEXEC) != 0) return;
        const UniqueFd low_read(ends[0]);
        const UniqueFd low_write(ends[1]);
        // Above the standard streams, which the program may have closed.
        read = UniqueFd(::fcntl(ends[0], F_DUPFD_CLOEXEC, 3));
        write = UniqueFd(::fcntl(ends[1], F_DUPFD_CLOEXEC, 3));
    }
    explicit operator bool() const noexcept { return read && write; }
};

/// Runs in the child of a fork. The maps of the user namespace can be written only while other processes may inspect this one.
/// It has a copy of the program's memory with its keys, so it becomes a shell first, which waits for the end of its input.
[[noreturn]] void hold_namespaces(int input, int output) noexcept {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWIPC) != 0 ||
        ::dup2(input, STDIN_FILENO) < 0 || ::dup2(output, STDOUT_FILENO) < 0 ||
        ::dup2(output, STDERR_FILENO) < 0) {
        const int code = errno;
        (void)!::write(output, &code, sizeof(code));
        ::_exit(1);
    }
    char shell[] = "/bin/sh";
    char option[] = "-c";
    char script[] = "echo; read -r line";
    char* arguments[] = {shell, option, script, nullptr};
    char* variables[] = {nullptr};
    ::execve(shell, arguments, variables);
    const int code = errno;
    (void)!::write(output, &code, sizeof(code));
    ::_exit(1);
}

bool write_text(const std::string& path, std::string_view text) {
    const UniqueFd file = open_file(path.c_str(), O_WRONLY);
    return file && write_all(file.get(), text);
}

/// Returns the map of a user namespace in which each id stands for itself. Root uses files of others, so it has all the ids that this
/// process has; another user may map only its own.
std::string identity_map(const char* current, unsigned own) {
    std::string text;
    std::ifstream lines(current);
    unsigned long first = 0;
    unsigned long parent = 0;
    unsigned long count = 0;
    while (::geteuid() == 0 && lines >> first >> parent >> count) {
        const std::string id = std::to_string(first);
        text += id + " " + id + " " + std::to_string(count) + "\n";
    }
    const std::string id = std::to_string(own);
    return text.empty() ? id + " " + id + " 1\n" : text;
}

/// The result of the probe: 0, or where it failed and why.
struct ProbeResult {
    std::int32_t step = 0;
    std::int32_t error = 0;
    bool terminals = false;
};

/// Runs in the child of a fork: does what a sandbox does.
[[noreturn]] void probe(const NamespaceFds& shared, int output) noexcept {
    const auto end = [output](int step, int error, bool terminals) {
        ProbeResult result;
        result.step = step;
        result.error = error;
        result.terminals = terminals;
        (void)!::write(output, &result, sizeof(result));
        ::_exit(0);
    };
    const MountStep steps[] = {{MountStep::Kind::open, "/tmp", 0},
                               {MountStep::Kind::seal, "/", 0},
                               {MountStep::Kind::mask_directory, "/tmp", 0},
                               {MountStep::Kind::attach, "/tmp", 0}};
    SandboxEntry entry;
    entry.namespaces = shared;
    entry.has_mounts = true;
    entry.steps = steps;
    entry.step_count = std::size(steps);
    entry.directory = "/";
    const UniqueFd root = open_file("/", O_PATH | O_DIRECTORY);
    struct stat info{};
    if (::fstat(root.get(), &info) != 0) end(1, errno, false);
    entry.directory_device = info.st_dev;
    entry.directory_inode = info.st_ino;
    const SandboxFailure failed = enter_mounts(entry);
    if (failed.stage != SandboxStage::none)
        end(2 + static_cast<int>(failed.stage), failed.error, false);
    if (const int error = raise_loopback(); error != 0) end(1, error, false);
    const bool terminals = ::mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
                                   "newinstance,ptmxmode=0666,mode=0620") == 0;
    end(0, 0, terminals);
    ::_exit(0);
}

void create(SharedNamespaces& made) {
    const auto fail = [&made](std::string_view what, int error) {
        made = SharedNamespaces();
        made.problem = std::string(what) + ": " + errno_text(error);
    };
    Pipe input;
    Pipe output;
    if (!input || !output) return fail("pipe", errno);
    pid_t holder = -1;
    {
        const BlockedSignals blocked;
        holder = ::fork();
        if (holder == 0) hold_namespaces(input.read.get(), output.write.get());
    }
    if (holder < 0) return fail("fork", errno);
    input.read = UniqueFd();
    output.write = UniqueFd();
    std::array<char, sizeof(int)> answer{};
    ssize_t size = -1;
    do {
        size = ::read(output.read.get(), answer.data(), answer.size());
    } while (size < 0 && errno == EINTR);
    const std::string process = "/proc/" + std::to_string(holder);
    const auto release = [&] {
        input.write = UniqueFd();
        while (::waitpid(holder, nullptr, 0) < 0 && errno == EINTR) continue;
    };
    if (size != 1) {
        int code = EIO;
        if (size == sizeof(int)) std::memcpy(&code, answer.data(), sizeof(code));
        release();
        return fail("user namespaces are not permitted", code);
    }
    const bool mapped =
        write_text(process + "/setgroups", "deny") &&
        write_text(process + "/uid_map", identity_map("/proc/self/uid_map", ::geteuid())) &&
        write_text(process + "/gid_map", identity_map("/proc/self/gid_map", ::getegid()));
    int error = errno;
    const auto open = [&](const char* name) {
        const UniqueFd low = open_file((process + "/ns/" + name).c_str(), O_RDONLY);
        return UniqueFd(::fcntl(low.get(), F_DUPFD_CLOEXEC, 3));
    };
    if (mapped) {
        made.user = open("user");
        made.network = open("net");
        made.ipc = open("ipc");
        error = errno;
    }
    release();
    if (!made.user || !made.network || !made.ipc)
        return fail("user namespaces are not permitted", error);

    Pipe results;
    if (!results) return fail("pipe", errno);
    pid_t child = -1;
    {
        const BlockedSignals blocked;
        child = ::fork();
        if (child == 0) probe(made.descriptors(), results.write.get());
    }
    if (child < 0) return fail("fork", errno);
    results.write = UniqueFd();
    ProbeResult result;
    do {
        size = ::read(results.read.get(), &result, sizeof(result));
    } while (size < 0 && errno == EINTR);
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;
    if (size != sizeof(result)) return fail("the test of namespaces ended", EIO);
    if (result.step != 0) return fail("mounts in namespaces are not permitted", result.error);
    made.terminals = result.terminals;
}

}  // namespace

const SharedNamespaces& shared_namespaces() {
    static const SharedNamespaces shared = [] {
        SharedNamespaces made;
        create(made);
        return made;
    }();
    return shared;
}

}  // namespace cubepi::detail
