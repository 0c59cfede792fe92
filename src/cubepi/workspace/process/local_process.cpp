#include <cubepi/workspace/process/local_process.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/workspace/process/command_supervisor.hpp>

namespace cubepi::detail {

namespace {

namespace asio = boost::asio;

/// The limit of one read(), so that a flood of output does not starve the event loop.
constexpr std::size_t read_size = 64 * 1024;

[[noreturn]] void fail(const char* what, int code) {
    throw Error(ErrorCode::io, std::string("A command could not be started: ") + what + ": " +
                                   errno_text(code) + ".");
}

/// A pipe whose descriptors are above those of the standard streams, also in a program that has closed them.
void make_pipe(UniqueFd& reader, UniqueFd& writer) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) fail("pipe", errno);
    const UniqueFd low_reader(ends[0]);
    const UniqueFd low_writer(ends[1]);
    reader = UniqueFd(::fcntl(ends[0], F_DUPFD_CLOEXEC, 3));
    writer = UniqueFd(::fcntl(ends[1], F_DUPFD_CLOEXEC, 3));
    if (!reader || !writer) fail("pipe", errno);
    // Only our end is nonblocking: programs expect a blocking output.
    if (::fcntl(reader.get(), F_SETFL, O_NONBLOCK) != 0) fail("pipe", errno);
}

/// Both ends of the supervisor's socket, above the descriptors of the standard streams.
void make_control(UniqueFd& ours, UniqueFd& theirs) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        fail("socketpair", errno);
    const UniqueFd low_ours(ends[0]);
    const UniqueFd low_theirs(ends[1]);
    ours = UniqueFd(::fcntl(ends[0], F_DUPFD_CLOEXEC, 3));
    theirs = UniqueFd(::fcntl(ends[1], F_DUPFD_CLOEXEC, 3));
    if (!ours || !theirs) fail("socketpair", errno);
}

/// Prevents signal handlers of this program from running in the child of a fork.
class SignalsBlocked {
public:
    SignalsBlocked() {
        sigset_t all;
        sigfillset(&all);
        ::pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

private:
    sigset_t before_{};
};

/// A null-terminated list of pointers to the texts.
std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    pointers.reserve(texts.size() + 1);
    // execve() takes char* for historical reasons and does not modify the texts.
    for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
    pointers.push_back(nullptr);
    return pointers;
}

/// Forks the supervisor, which starts the command and reports its start.
pid_t start_supervisor(const SupervisedCommand& command) {
    const SignalsBlocked blocked;
    const pid_t pid = ::fork();
    if (pid == 0) supervise(command);
    if (pid < 0) fail("fork", errno);
    return pid;
}

/// Returns false if no report is available; sets `ended` at the end of the stream.
bool receive(int control, int flags, SupervisorReport& report, bool& ended) noexcept {
    ssize_t got = -1;
    do {
        got = ::recv(control, &report, sizeof(report), flags);
    } while (got < 0 && errno == EINTR);
    ended = got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
    return got == sizeof(report);
}

SurvivingProcess described(const UnkilledProcess& process) {
    SurvivingProcess survivor;
    survivor.pid = process.pid;
    survivor.name = process.name;
    survivor.reason =
        process.error == 0 ? "it has not exited after SIGKILL" : errno_text(process.error);
    return survivor;
}

std::vector<SurvivingProcess> survivors_in(const SupervisorReport& report) {
    std::vector<SurvivingProcess> survivors;
    const std::uint32_t listed = std::min(report.unkilled_count, SupervisorReport::most_unkilled);
    for (std::uint32_t i = 0; i < listed; ++i) survivors.push_back(described(report.unkilled[i]));
    if (report.unkilled_count == 0 || report.unkilled_count > listed) {
        SurvivingProcess& more = survivors.emplace_back();
        more.name = report.unkilled_count == 0
                        ? "a process that is not listed"
                        : std::to_string(report.unkilled_count - listed) + " more";
        more.reason = "it has not exited";
    }
    return survivors;
}

class LocalProcess final : public Process {
public:
    LocalProcess(const Executor& executor, pid_t leader, UniqueFd supervisor, UniqueFd control,
                 UniqueFd output)
        : leader_(leader),
          supervisor_(std::move(supervisor)),
          control_(executor),
          output_(executor) {
        control_.assign(control.release());
        output_.assign(output.release());
    }

    ~LocalProcess() override {
        // The end of the stream tells the supervisor to kill the remaining processes and to exit.
        boost::system::error_code ignored;
        (void)control_.close(ignored);
        pollfd waiting = {supervisor_.get(), POLLIN, 0};
        ::poll(&waiting, 1, longest_kill_milliseconds);
        siginfo_t info{};
        ::waitid(P_PIDFD, static_cast<id_t>(supervisor_.get()), &info, WEXITED | WNOHANG);
    }

    Task<bool> read(std::string& out) override {
        // Output without pauses must not keep other handlers from running.
        if (read_since_pause_ >= most_without_pause) {
            read_since_pause_ = 0;
            co_await yield_now();
        }
        for (;;) {
            const std::size_t before = out.size();
            const bool any = read_ready(out);
            read_since_pause_ += out.size() - before;
            if (any) co_return true;
            if (output_ended_) co_return false;
            boost::system::error_code code;
            read_since_pause_ = 0;
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
        (void)output_.close(ignored);
    }

    Task<ExitStatus> wait() override {
        while (!exited_) co_await next_report();
        co_return status_;
    }

    void terminate() noexcept override { order(SupervisorOrder::terminate); }
    void kill() noexcept override { order(SupervisorOrder::kill); }
    bool all_ended() const noexcept override { return all_ended_; }

    Task<> wait_all() override {
        while (!is_over()) co_await next_report();
    }

    Task<std::vector<SurvivingProcess>> end() override {
        const std::size_t before = kills_reported_;
        kill();
        while (!kill_is_over(before)) co_await next_report();
        co_return survivors_;
    }

    std::vector<SurvivingProcess> end_now() noexcept override {
        const std::size_t before = kills_reported_;
        kill();
        while (!kill_is_over(before)) {
            pollfd waiting = {control_.native_handle(), POLLIN, 0};
            if (::poll(&waiting, 1, longest_kill_milliseconds) == 0) break;
            take_reports();
        }
        return survivors_;
    }

private:
    /// Longer than the supervisor tries to end the processes.
    static constexpr int longest_kill_milliseconds = 3000;
    static constexpr std::size_t most_without_pause = std::size_t{256} << 10U;

    bool kill_is_over(std::size_t reported_before) const noexcept {
        return is_over() || kills_reported_ > reported_before;
    }

    void order(SupervisorOrder what) noexcept {
        if (is_over()) return;
        const char byte = static_cast<char>(what);
        (void)!::send(control_.native_handle(), &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    }

    /// Waits for a report.
    Task<> next_report() {
        if (take_reports()) co_return;
        co_await control_.async_wait(asio::posix::descriptor_base::wait_read, asio::use_awaitable);
        take_reports();
    }

    /// Whether there was a report, or the supervisor is known to have exited.
    bool take_reports() {
        SupervisorReport report;
        bool any = false;
        bool ended = false;
        while (!is_over() && receive(control_.native_handle(), MSG_DONTWAIT, report, ended)) {
            take(report);
            any = true;
        }
        if (ended && !all_ended_) lose();
        return any || is_over();
    }

    bool is_over() const noexcept { return all_ended_ || lost_; }

    void take(const SupervisorReport& report) {
        using Kind = SupervisorReport::Kind;
        if (report.kind == Kind::ended) {
            exited_ = true;
            if (report.how == CLD_EXITED)
                status_.code = report.value;
            else
                status_.signal = report.value;
        }
        all_ended_ = report.kind == Kind::all_gone || report.all_gone;
        if (all_ended_) survivors_.clear();
        if (report.kind != Kind::unkilled) return;
        ++kills_reported_;
        survivors_ = survivors_in(report);
    }

    /// Handles the death of the supervisor. The command itself is killed with it, and the processes of its session are found
    /// by the session id; processes that have left the session are not.
    void lose() {
        if (lost_) return;
        lost_ = true;
        ProcessTree tree;
        (void)tree.scan();
        tree.select_session(leader_);
        for (const ListedProcess& one : tree) {
            if (one.selected) (void)send_signal(one, SIGKILL);
        }
        SurvivingProcess& unknown = survivors_.emplace_back();
        unknown.name = "processes that left the command's session";
        unknown.reason = "the process that supervised the command was killed";
        if (exited_) return;
        exited_ = true;
        status_.signal = SIGKILL;
    }

    const pid_t leader_;
    const UniqueFd supervisor_;
    bool exited_ = false;
    bool all_ended_ = false;
    bool lost_ = false;  ///< the supervisor exited before the command
    bool output_ended_ = false;
    std::size_t read_since_pause_ = 0;  ///< bytes
    std::size_t kills_reported_ = 0;
    ExitStatus status_;
    std::vector<SurvivingProcess> survivors_;
    asio::posix::stream_descriptor control_;
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
    UniqueFd control;
    UniqueFd theirs;
    make_control(control, theirs);
    const std::vector<std::string> words = {shell, "-c", command};
    const std::vector<char*> arguments = pointers_to(words);
    const std::vector<char*> variables = pointers_to(environment);
    SupervisedCommand supervised;
    supervised.program = shell.c_str();
    supervised.arguments = arguments.data();
    supervised.environment = variables.data();
    supervised.working_directory = working_directory;
    supervised.output = writer.get();
    supervised.control = theirs.get();
    const pid_t pid = start_supervisor(supervised);
    // The pid remains valid until the process has been waited for.
    UniqueFd supervisor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    const int no_handle = supervisor ? 0 : errno;
    theirs = UniqueFd();
    SupervisorReport report;
    bool ended = false;
    const bool reported = receive(control.get(), 0, report, ended);
    if (reported && no_handle == 0 && report.kind == SupervisorReport::Kind::started) {
        return std::make_shared<LocalProcess>(executor, report.value, std::move(supervisor),
                                              std::move(control), std::move(reader));
    }
    control = UniqueFd();
    ::waitpid(pid, nullptr, 0);
    if (no_handle != 0) fail("pidfd_open (Linux 5.4 or newer is needed)", no_handle);
    if (!reported) fail("the supervising process exited", EPIPE);
    fail(report.value == E2BIG ? "the command or the environment is too long" : shell.c_str(),
         report.value);
}

}  // namespace cubepi::detail
