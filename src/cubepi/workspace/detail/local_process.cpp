#include <cubepi/workspace/detail/local_process.hpp>

#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/workspace/detail/unique_fd.hpp>

namespace cubepi::detail {

namespace {

namespace asio = boost::asio;

/// The most that one read() takes, so that a flood of output does not starve the rest of the loop.
constexpr std::size_t read_size = 64 * 1024;

[[noreturn]] void fail(const char* what, int code) {
    throw Error(ErrorCode::io, std::string("A command could not be started: ") + what + ": " +
                                   std::strerror(code) + ".");
}

/// A pipe whose ends are above the standard streams, also in a program that has closed those.
void make_pipe(UniqueFd& reader, UniqueFd& writer) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) fail("pipe", errno);
    const UniqueFd low_reader(ends[0]);
    const UniqueFd low_writer(ends[1]);
    reader = UniqueFd(::fcntl(ends[0], F_DUPFD_CLOEXEC, 3));
    writer = UniqueFd(::fcntl(ends[1], F_DUPFD_CLOEXEC, 3));
    if (!reader || !writer) fail("pipe", errno);
    // Only our end: the command's must block, as programs expect.
    if (::fcntl(reader.get(), F_SETFL, O_NONBLOCK) != 0) fail("pipe", errno);
}

struct SpawnSettings {
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;

    SpawnSettings() {
        posix_spawnattr_init(&attributes);
        posix_spawn_file_actions_init(&actions);
    }
    ~SpawnSettings() {
        posix_spawn_file_actions_destroy(&actions);
        posix_spawnattr_destroy(&attributes);
    }
    SpawnSettings(const SpawnSettings&) = delete;
    SpawnSettings& operator=(const SpawnSettings&) = delete;
};

/// The new process has default signal handling and nothing of ours open. A session of its own keeps it away from our
/// terminal: no prompt for a password there, and no Ctrl-C meant for us.
pid_t spawn(const std::string& shell, const std::string& command, int folder, int output,
            const std::vector<std::string>& environment) {
    SpawnSettings settings;
    sigset_t signals;
    sigfillset(&signals);
    posix_spawnattr_setsigdefault(&settings.attributes, &signals);
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&settings.attributes, &signals);
    posix_spawnattr_setflags(&settings.attributes,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    auto* actions = &settings.actions;
    int code = posix_spawn_file_actions_addfchdir_np(actions, folder);
    if (code == 0) code = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
    if (code == 0) code = posix_spawn_file_actions_adddup2(actions, output, 1);
    if (code == 0) code = posix_spawn_file_actions_adddup2(actions, output, 2);
    if (code == 0) code = posix_spawn_file_actions_addclosefrom_np(actions, 3);
    if (code != 0) fail("preparing it", code);

    std::string program = shell;
    std::string flag = "-c";
    std::string text = command;
    char* arguments[] = {program.data(), flag.data(), text.data(), nullptr};
    std::vector<char*> variables;
    variables.reserve(environment.size() + 1);
    // posix_spawn takes char* for historical reasons and changes nothing.
    for (const auto& entry : environment) variables.push_back(const_cast<char*>(entry.c_str()));
    variables.push_back(nullptr);
    pid_t pid = -1;
    code = ::posix_spawn(&pid, shell.c_str(), actions, &settings.attributes, arguments,
                         variables.data());
    if (code != 0)
        fail(code == E2BIG ? "the command or the environment is too long" : shell.c_str(), code);
    return pid;
}

/// The leader stays unreaped until the output has ended: as long as it is a zombie, its process group id cannot be given
/// to somebody else, so that signals to the group always go to the right one.
class LocalProcess final : public Process {
public:
    LocalProcess(const Executor& executor, pid_t pid, UniqueFd pidfd, UniqueFd output)
        : pid_(pid), exit_(executor), output_(executor) {
        exit_.assign(pidfd.release());
        output_.assign(output.release());
    }

    ~LocalProcess() override {
        if (!exited_ || !output_ended_) kill();
        if (!exited_) {
            // After SIGKILL this takes microseconds; the limit is for a process stuck in the kernel.
            pollfd waiting{};
            waiting.fd = exit_.native_handle();
            waiting.events = POLLIN;
            ::poll(&waiting, 1, 1000);
        }
        siginfo_t info{};
        if (!lost_) ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG);
    }

    Task<bool> read(std::string& out) override {
        for (;;) {
            if (read_ready(out)) co_return true;
            if (output_ended_) co_return false;
            boost::system::error_code code;
            co_await output_.async_wait(asio::posix::descriptor_base::wait_read,
                                        asio::redirect_error(asio::use_awaitable, code));
            if (output_ended_) co_return false;
            if (code) throw_cancelled();
        }
    }

    bool read_ready(std::string& out) override {
        if (output_ended_) return false;
        const std::size_t old_size = out.size();
        out.resize(old_size + read_size);
        ssize_t got = -1;
        do {
            got = ::read(output_.native_handle(), out.data() + old_size, read_size);
        } while (got < 0 && errno == EINTR);
        const bool ended = got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
        out.resize(old_size + (got > 0 ? static_cast<std::size_t>(got) : 0));
        if (ended) close_output();
        return got > 0;
    }

    bool output_ended() const noexcept override { return output_ended_; }

    void close_output() noexcept override {
        output_ended_ = true;
        boost::system::error_code ignored;
        output_.close(ignored);
    }

    Task<ExitStatus> wait() override {
        while (!exited_) {
            co_await exit_.async_wait(asio::posix::descriptor_base::wait_read, asio::use_awaitable);
            look();
        }
        ExitStatus status;
        if (info_.si_code == CLD_EXITED)
            status.code = info_.si_status;
        else
            status.signal = info_.si_status;
        co_return status;
    }

    void terminate() noexcept override { signal_group(SIGTERM); }
    void kill() noexcept override { signal_group(SIGKILL); }

private:
    void signal_group(int signal) noexcept {
        if (!lost_) ::kill(-pid_, signal);
    }

    void look() noexcept {
        siginfo_t info{};
        if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
            // Somebody else has reaped it (a program that ignores SIGCHLD): how it ended is not known, and the number
            // may be another's by now.
            lost_ = true;
            info.si_pid = pid_;
            info.si_code = CLD_EXITED;
            info.si_status = -1;
        }
        if (info.si_pid == 0) return;
        info_ = info;
        exited_ = true;
    }

    const pid_t pid_;
    bool exited_ = false;
    bool lost_ = false;
    bool output_ended_ = false;
    siginfo_t info_{};
    asio::posix::stream_descriptor exit_;
    asio::posix::stream_descriptor output_;
};

}  // namespace

void set_variable(std::vector<std::string>& environment, std::string_view assignment) {
    const auto prefix = assignment.substr(0, assignment.find('=') + 1);
    for (auto& entry : environment) {
        if (entry.starts_with(prefix)) {
            entry = assignment;
            return;
        }
    }
    environment.emplace_back(assignment);
}

std::shared_ptr<Process> start_local_process(Executor executor, const std::string& shell,
                                             const std::string& command, int working_directory,
                                             const std::vector<std::string>& environment) {
    if (command.find('\0') != std::string::npos) {
        throw Error(ErrorCode::invalid_argument, "A command must not contain a zero byte.");
    }
    UniqueFd reader;
    UniqueFd writer;
    make_pipe(reader, writer);
    const pid_t pid = spawn(shell, command, working_directory, writer.get(), environment);
    // Until it is waited for the process cannot vanish, so the number still means it.
    UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!pidfd) {
        const int code = errno;
        ::kill(-pid, SIGKILL);
        ::waitpid(pid, nullptr, 0);
        fail("pidfd_open (Linux 5.3 or newer is needed)", code);
    }
    return std::make_shared<LocalProcess>(executor, pid, std::move(pidfd), std::move(reader));
}

}  // namespace cubepi::detail
