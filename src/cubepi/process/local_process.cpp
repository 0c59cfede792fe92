#include <cubepi/process/local_process.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <string_view>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/support/blocked_signals.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/process/environment.hpp>
#include <cubepi/process/sandbox/sandbox_plan.hpp>
#include <cubepi/process/supervisor/command_supervisor.hpp>

namespace cubepi {

namespace detail {

namespace {

namespace asio = boost::asio;

/// The limit of one read(), so that a flood of output does not starve the event loop.
constexpr std::size_t read_size = 64 * 1024;

[[noreturn]] void fail(const std::string& program, std::string_view what, int code) {
    const bool is_missing = code == ENOENT || code == ENOTDIR;
    const bool is_denied = code == EACCES || code == EPERM;
    std::string text = "The program " + program + " could not be started: ";
    if (!what.empty()) text.append(what).append(": ");
    throw Error(is_missing  ? ErrorCode::not_found
                : is_denied ? ErrorCode::permission_denied
                            : ErrorCode::io,
                text + errno_text(code) + ".");
}

/// The two ends of a pipe or of a socket for packets. Their descriptors are above those of the standard streams, also in a
/// program that has closed them.
struct Ends {
    UniqueFd ours;
    UniqueFd theirs;

    Ends() = default;
    /// `our_end` is 0 for the reading end of a pipe.
    Ends(const std::string& program, bool is_pipe, int our_end) {
        int ends[2] = {-1, -1};
        const int made = is_pipe ? ::pipe2(ends, O_CLOEXEC)
                                 : ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
        const UniqueFd low_first(ends[0]);
        const UniqueFd low_second(ends[1]);
        if (made == 0) {
            ours = UniqueFd(::fcntl(ends[our_end], F_DUPFD_CLOEXEC, 3));
            theirs = UniqueFd(::fcntl(ends[1 - our_end], F_DUPFD_CLOEXEC, 3));
        }
        if (!ours || !theirs) fail(program, is_pipe ? "pipe" : "socketpair", errno);
    }
};

/// A null-terminated list of pointers to the texts.
std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    pointers.reserve(texts.size() + 1);
    for (const std::string& text : texts) {
        if (text.find('\0') != std::string::npos) {
            throw Error(ErrorCode::invalid_argument,
                        "A program, its arguments and variables must not contain a zero byte.");
        }
        // execve() takes char* for historical reasons and does not modify the texts.
        pointers.push_back(const_cast<char*>(text.c_str()));
    }
    pointers.push_back(nullptr);
    return pointers;
}

/// Returns the path of a program. A name without a slash is searched in PATH of the child's environment.
std::string find_program(const std::string& name, const std::vector<std::string>& environment,
                         int directory) {
    if (name.find('/') != std::string::npos) return name;
    std::string_view path;
    for (const std::string& variable : environment) {
        if (variable.starts_with("PATH=")) path = std::string_view(variable).substr(5);
    }
    for (std::string_view rest = path; !rest.empty();) {
        const std::string_view part = rest.substr(0, rest.find(':'));
        rest.remove_prefix(std::min(rest.size(), part.size() + 1));
        const std::string candidate = std::string(part) + "/" + name;
        struct stat info{};
        if (!part.empty() && ::fstatat(directory, candidate.c_str(), &info, 0) == 0 &&
            S_ISREG(info.st_mode) &&
            ::faccessat(directory, candidate.c_str(), X_OK, AT_EACCESS) == 0) {
            return candidate;
        }
    }
    throw Error(ErrorCode::not_found, "The program " + name + " was not found" +
                                          (path.empty() ? ", because PATH is empty" : " in PATH") +
                                          ". Install it, or name it by its path.");
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

bool would_block(ssize_t result) noexcept {
    return result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

class LocalProcess final : public Process {
public:
    /// `sandbox`: null: none.
    LocalProcess(const Executor& executor, std::shared_ptr<Clock> clock,
                 const ProcessOptions& options, const SandboxProfile* sandbox)
        : program_(options.program),
          timeout_(options.timeout),
          max_output_(options.max_output_bytes),
          clock_(std::move(clock)),
          control_(executor),
          input_(executor),
          output_(executor),
          errors_(executor) {
        launch(options, sandbox);
        if (timeout_ <= std::chrono::nanoseconds::zero()) return;
        timer_ = clock_->timer(executor);
        timer_->expires_after(timeout_, [this] {
            timed_out_ = true;
            kill();
            watch_kill(kills_reported_);
        });
    }

    ~LocalProcess() override {
        // The end of the stream tells the supervisor to kill the remaining processes and to exit.
        close(control_);
        resume_supervisor();
        pollfd waiting = {supervisor_.get(), POLLIN, 0};
        if (::poll(&waiting, 1, longest_kill_milliseconds) == 0 && end_stopped_supervisor())
            ::poll(&waiting, 1, longest_kill_milliseconds);
        siginfo_t info{};
        ::waitid(P_PIDFD, static_cast<id_t>(supervisor_.get()), &info, WEXITED | WNOHANG);
    }

    /// Waits for the program to run: blocks for about a millisecond.
    void finish_start() {
        while (leader_ < 0 && !is_over()) {
            pollfd waiting = {control_.native_handle(), POLLIN, 0};
            // The program may stop the supervisor before the report about its start.
            constexpr int pause_milliseconds = 100;
            if (::poll(&waiting, 1, pause_milliseconds) == 0) resume_supervisor();
            take_reports();
        }
        if (leader_ >= 0) return;
        if (lost_) fail(program_, "the supervising process exited", EPIPE);
        if (!sandbox_problem_.empty()) {
            throw Error(ErrorCode::io, "The program " + program_ +
                                           " was not started, because its sandbox could not be "
                                           "set up: " +
                                           sandbox_problem_ + ".");
        }
        fail(program_, start_error_ == E2BIG ? "the arguments or the environment are too long" : "",
             start_error_);
    }

    Task<> write(std::string bytes) override {
        for (std::string_view rest = bytes; !rest.empty();) {
            if (must_pause()) co_await yield_now();
            if (!input_.is_open()) throw_closed_input("it is closed");
            const ssize_t put = write_some(rest);
            if (put > 0) {
                rest.remove_prefix(static_cast<std::size_t>(put));
                moved_since_pause_ += static_cast<std::size_t>(put);
            } else if (would_block(put)) {
                co_await ready(input_, asio::posix::descriptor_base::wait_write);
            } else {
                const std::string reason = errno_text(errno);
                close_input();
                throw_closed_input(reason);
            }
        }
    }

    void close_input() noexcept override { close(input_); }

    Task<bool> read(std::string& out) override { return read_from(output_, out); }
    Task<bool> read_error(std::string& out) override { return read_from(errors_, out); }
    bool read_ready(std::string& out) override { return read_now(output_, out); }
    bool output_ended() const noexcept override { return !output_.is_open(); }

    void close_output() noexcept override {
        close(output_);
        close(errors_);
    }

    Task<ExitStatus> wait() override {
        // A program of another user cannot be killed.
        while (!exited_ && !(timed_out_ && kills_reported_ > 0)) co_await next_report();
        if (timed_out_ && (!exited_ || status_.signal == SIGKILL))
            throw_timeout("time limit of " + program_, timeout_);
        co_return status_;
    }

    void kill() noexcept override { order(SupervisorOrder::kill); }
    bool all_ended() const noexcept override { return all_ended_; }

    Task<> wait_all() override {
        while (!is_over()) co_await next_report();
    }

    Task<std::vector<SurvivingProcess>> terminate(std::chrono::nanoseconds grace) override {
        if (grace > std::chrono::nanoseconds::zero()) {
            order(SupervisorOrder::terminate);
            Task<> all_gone = wait_all();
            const Clock::time_point deadline = deadline_after(clock_->now(), grace);
            (void)co_await run_until(*clock_, deadline, std::move(all_gone));
        }
        const std::size_t before = kills_reported_;
        kill();
        watch_kill(before);
        while (!kill_is_over(before)) co_await next_report();
        co_return survivors_;
    }

    std::vector<SurvivingProcess> end_now() noexcept override {
        const std::size_t before = kills_reported_;
        kill();
        while (!kill_is_over(before)) {
            pollfd waiting = {control_.native_handle(), POLLIN, 0};
            const bool is_late = ::poll(&waiting, 1, longest_kill_milliseconds) == 0;
            if (is_late && !end_stopped_supervisor()) break;
            take_reports();
        }
        return survivors_;
    }

private:
    using Descriptor = asio::posix::stream_descriptor;

    /// Longer than the supervisor tries to end the processes.
    static constexpr int longest_kill_milliseconds = 3000;
    static constexpr std::size_t most_without_pause = std::size_t{256} << 10U;

    /// Forks the supervisor, which starts the program and reports its start.
    void launch(const ProcessOptions& options, const SandboxProfile* sandbox) {
        const std::string where = options.directory.empty() ? "." : options.directory;
        if (where.find('\0') != std::string::npos)
            throw Error(ErrorCode::invalid_argument, "A directory must not contain a zero byte.");
        const UniqueFd directory = open_file(where.c_str(), O_PATH | O_DIRECTORY);
        if (!directory) fail(program_, "directory " + where, errno);
        std::vector<std::string> environment =
            options.environment ? *options.environment : child_environment(EnvironmentPolicy());
        std::string program = find_program(program_, environment, directory.get());
        std::vector<std::string> words = options.arguments;
        words.insert(words.begin(), program_);
        if (sandbox) {
            plan_ = std::make_unique<SandboxPlan>(*sandbox, directory.get());
            if (plan_->is_wrapped()) {
                // bubblewrap would only print that the program is missing.
                if (::faccessat(directory.get(), program.c_str(), X_OK, AT_EACCESS) != 0)
                    fail(program_, "", errno);
                plan_->wrap(program, words, environment);
            }
        }
        const std::vector<char*> arguments = pointers_to(words);
        const std::vector<char*> variables = pointers_to(environment);

        const UniqueFd low_null = open_file("/dev/null", O_RDWR);
        const UniqueFd null(::fcntl(low_null.get(), F_DUPFD_CLOEXEC, 3));
        if (!null) fail(program_, "/dev/null", errno);
        Ends control(program_, false, 0);
        Ends input = options.input ? Ends(program_, true, 1) : Ends();
        Ends output(program_, true, 0);
        Ends errors = options.merge_errors ? Ends() : Ends(program_, true, 0);
        adopt(control_, control.ours);
        adopt(input_, input.ours);
        adopt(output_, output.ours);
        adopt(errors_, errors.ours);

        SupervisedCommand command;
        command.program = program.c_str();
        command.arguments = arguments.data();
        command.environment = variables.data();
        command.working_directory = directory.get();
        command.streams[STDIN_FILENO] = options.input ? input.theirs.get() : null.get();
        command.streams[STDOUT_FILENO] = output.theirs.get();
        command.streams[STDERR_FILENO] =
            options.merge_errors ? output.theirs.get() : errors.theirs.get();
        command.null = null.get();
        command.control = control.theirs.get();
        if (plan_) command.sandbox = &plan_->entry();
        pid_t pid = -1;
        {
            // No signal handler of this program may run in the child.
            const BlockedSignals blocked;
            pid = ::fork();
            if (pid == 0) supervise(command);
        }
        if (pid < 0) fail(program_, "fork", errno);
        // The pid remains valid until the process has been waited for.
        supervisor_ = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
        if (!supervisor_) {
            const int code = errno;
            close(control_);
            ::waitpid(pid, nullptr, 0);
            fail(program_, "pidfd_open (Linux 5.4 or newer is needed)", code);
        }
    }

    /// Makes only our end nonblocking: programs expect blocking streams.
    static void adopt(Descriptor& stream, UniqueFd& fd) {
        if (!fd) return;
        stream.assign(fd.get());
        (void)fd.release();
        stream.native_non_blocking(true);
    }

    static void close(Descriptor& stream) noexcept {
        boost::system::error_code ignored;
        (void)stream.close(ignored);
    }

    /// Waits for a stream. Closing it meanwhile is not an error.
    static Task<> ready(Descriptor& stream, asio::posix::descriptor_base::wait_type what) {
        boost::system::error_code code;
        co_await stream.async_wait(what, asio::redirect_error(asio::use_awaitable, code));
        if (code && stream.is_open()) throw_cancelled();
    }

    /// Data without pauses must not keep other handlers from running.
    bool must_pause() noexcept {
        if (moved_since_pause_ < most_without_pause) return false;
        moved_since_pause_ = 0;
        return true;
    }

    [[noreturn]] void throw_closed_input(const std::string& reason) const {
        throw Error(ErrorCode::disconnected,
                    "The standard input of " + program_ + " cannot be written: " + reason + ".");
    }

    ssize_t write_some(std::string_view bytes) noexcept {
        ssize_t put = -1;
        int code = 0;
        {
            const NoSigpipe guard;
            put = ::write(input_.native_handle(), bytes.data(), bytes.size());
            code = errno;
        }
        errno = code;
        return put;
    }

    Task<bool> read_from(Descriptor& stream, std::string& out) {
        if (must_pause()) co_await yield_now();
        while (stream.is_open()) {
            if (read_now(stream, out)) co_return true;
            if (!stream.is_open()) break;
            moved_since_pause_ = 0;
            co_await ready(stream, asio::posix::descriptor_base::wait_read);
        }
        co_return false;
    }

    bool read_now(Descriptor& stream, std::string& out) {
        if (!stream.is_open()) return false;
        const std::size_t old_size = out.size();
        out.resize(old_size + read_size);
        const ssize_t got = ::read(stream.native_handle(), out.data() + old_size, read_size);
        const bool ended = got <= 0 && !would_block(got);
        const std::size_t bytes = got > 0 ? static_cast<std::size_t>(got) : 0;
        out.resize(old_size + bytes);
        moved_since_pause_ += bytes;
        received_ += bytes;
        if (ended) close(stream);
        if (max_output_ != 0 && received_ > max_output_) {
            out.resize(old_size);
            close_output();
            throw Error(ErrorCode::too_large, "The output of " + program_ + " has more than " +
                                                  std::to_string(max_output_) + " bytes.");
        }
        return got > 0;
    }

    bool kill_is_over(std::size_t reported_before) const noexcept {
        return is_over() || kills_reported_ > reported_before;
    }

    void order(SupervisorOrder what) noexcept {
        if (is_over()) return;
        const char byte = static_cast<char>(what);
        (void)!::send(control_.native_handle(), &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        resume_supervisor();
    }

    void signal_supervisor(int signal) const noexcept {
        (void)::syscall(SYS_pidfd_send_signal, supervisor_.get(), signal, nullptr, 0);
    }

    /// Resumes the supervisor, which the command may have stopped.
    void resume_supervisor() const noexcept { signal_supervisor(SIGCONT); }

    /// Kills a supervisor that is stopped although it was resumed, and the command with it; lose() does the rest. Returns false
    /// if it is not stopped.
    bool end_stopped_supervisor() const noexcept {
        siginfo_t info{};
        const int found = ::waitid(P_PIDFD, static_cast<id_t>(supervisor_.get()), &info,
                                   WSTOPPED | WNOHANG | WNOWAIT);
        if (found != 0 || info.si_pid == 0) return false;
        kill_processes(info.si_pid);
        signal_supervisor(SIGKILL);
        return true;
    }

    /// Kills the processes of the command's session, and the descendants of `ancestor` (-1: none) and of these processes.
    void kill_processes(pid_t ancestor) const noexcept {
        ProcessTree tree;
        (void)tree.scan();
        if (leader_ >= 0) tree.select_session(leader_);
        tree.select_descendants(ancestor);
        for (const ListedProcess& one : tree) {
            if (one.selected) (void)send_signal(one, SIGKILL);
        }
    }

    /// Ends the supervisor if a kill takes too long because the command stops it again and again. The processes are real, and so
    /// is the time that they need, also if the clock is that of a test.
    void watch_kill(std::size_t reported_before) {
        if (is_over()) return;
        if (!guard_) guard_ = SystemClock().timer(control_.get_executor());
        const std::chrono::milliseconds limit(longest_kill_milliseconds);
        guard_->expires_after(limit, [this, reported_before] {
            take_reports();
            if (!kill_is_over(reported_before) && !end_stopped_supervisor())
                watch_kill(reported_before);
        });
    }

    /// Waits for a report. Several may wait: an arrival wakes all of them, also if one of them has read it.
    Task<> next_report() {
        co_await control_.async_wait(asio::posix::descriptor_base::wait_read, asio::use_awaitable);
        take_reports();
    }

    void take_reports() {
        SupervisorReport report;
        while (!is_over()) {
            const ssize_t got =
                ::recv(control_.native_handle(), &report, sizeof(report), MSG_DONTWAIT);
            if (got == sizeof(report)) {
                take(report);
            } else if (would_block(got)) {
                return;
            } else {
                lose();
            }
        }
    }

    bool is_over() const noexcept { return all_ended_ || lost_; }

    void take(const SupervisorReport& report) {
        using Kind = SupervisorReport::Kind;
        if (report.kind == Kind::started) leader_ = report.value;
        if (report.kind == Kind::failed) {
            start_error_ = report.value;
            if (plan_) sandbox_problem_ = plan_->describe(report.sandbox);
        }
        if (report.kind == Kind::started || report.kind == Kind::failed) plan_.reset();
        if (report.kind == Kind::ended) {
            exited_ = true;
            if (report.how == CLD_EXITED)
                status_.code = report.value;
            else
                status_.signal = report.value;
        }
        all_ended_ =
            report.kind == Kind::all_gone || report.kind == Kind::failed || report.all_gone;
        if (all_ended_) {
            survivors_.clear();
            stop_timers();
        }
        if (report.kind != Kind::unkilled) return;
        ++kills_reported_;
        survivors_ = survivors_in(report);
    }

    /// Handles the death of the supervisor. The command itself is killed with it, and the processes of its session are found
    /// by the session id; processes that have left the session are not.
    void lose() {
        lost_ = true;
        stop_timers();
        kill_processes(-1);
        SurvivingProcess& unknown = survivors_.emplace_back();
        unknown.name = "processes that left the command's session";
        unknown.reason = "the process that supervised the command was killed";
        if (exited_) return;
        exited_ = true;
        status_.signal = SIGKILL;
    }

    void stop_timers() noexcept {
        timer_.reset();
        if (guard_) guard_->cancel();
    }

    const std::string program_;
    const std::chrono::nanoseconds timeout_;
    const std::uint64_t max_output_;
    const std::shared_ptr<Clock> clock_;
    UniqueFd supervisor_;
    pid_t leader_ = -1;
    int start_error_ = 0;
    std::unique_ptr<SandboxPlan> plan_;  ///< until the start; null: no sandbox
    std::string sandbox_problem_;        ///< why the sandbox could not be set up
    bool exited_ = false;
    bool all_ended_ = false;
    bool lost_ = false;  ///< the supervisor exited before the command
    bool timed_out_ = false;
    std::size_t moved_since_pause_ = 0;  ///< bytes
    std::uint64_t received_ = 0;         ///< bytes of output and standard error
    std::size_t kills_reported_ = 0;
    ExitStatus status_;
    std::vector<SurvivingProcess> survivors_;
    Descriptor control_;
    Descriptor input_;
    Descriptor output_;
    Descriptor errors_;
    std::unique_ptr<ClockTimer> timer_;
    std::unique_ptr<ClockTimer> guard_;  ///< of a kill
};

Task<std::shared_ptr<Process>> start_local(std::shared_ptr<Clock> clock, ProcessOptions options,
                                           std::shared_ptr<const SandboxProfile> sandbox) {
    const Executor executor = co_await this_executor;
    const auto process =
        std::make_shared<LocalProcess>(executor, std::move(clock), options, sandbox.get());
    process->finish_start();
    co_return process;
}

class LocalLauncher final : public ProcessLauncher {
public:
    LocalLauncher(std::shared_ptr<Clock> clock, std::shared_ptr<const SandboxProfile> sandbox)
        : clock_(std::move(clock)), sandbox_(std::move(sandbox)) {}

    Task<std::shared_ptr<Process>> start(ProcessOptions options) override {
        return start_local(clock_, std::move(options), sandbox_);
    }

private:
    const std::shared_ptr<Clock> clock_;
    const std::shared_ptr<const SandboxProfile> sandbox_;
};

}  // namespace

}  // namespace detail

std::shared_ptr<ProcessLauncher> launcher_of(const Runtime& runtime) {
    return launcher_of(runtime, nullptr);
}

std::shared_ptr<ProcessLauncher> launcher_of(const Runtime& runtime,
                                             std::shared_ptr<const SandboxProfile> sandbox) {
    if (runtime.processes) return runtime.processes;
    return std::make_shared<detail::LocalLauncher>(runtime.clock, std::move(sandbox));
}

}  // namespace cubepi
