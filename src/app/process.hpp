#pragma once

#include <csignal>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/log.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi::app {

/// Calls `signalled` for each of `signals` while the object exists (SIGINT: Ctrl-C; SIGPIPE: the output pipe was closed).
/// Signals that the program was started to ignore (nohup) stay ignored. Used on one executor.
class SignalWatch {
public:
    SignalWatch(Executor executor, std::function<void(int signal)> signalled,
                std::initializer_list<int> signals = {SIGINT, SIGTERM, SIGHUP, SIGPIPE});
    ~SignalWatch();
    SignalWatch(const SignalWatch&) = delete;
    SignalWatch& operator=(const SignalWatch&) = delete;

private:
    struct State;
    std::shared_ptr<State> state_;
};

/// Thrown to end the process because of a signal, with the exit status 128 + signal.
class EndedBySignal final : public std::exception {
public:
    explicit EndedBySignal(int signal) : signal_(signal) {}
    int signal() const noexcept { return signal_; }
    const char* what() const noexcept override { return "ended by a signal"; }

private:
    int signal_;
};

/// Requests a stop of `stop` at the first signal that ends the process; a second signal ends the process at once. Used on
/// one executor.
class StopAtSignal {
public:
    StopAtSignal(Executor executor, std::stop_source stop);
    /// Returns the signal; 0: none.
    int signal() const noexcept { return signal_; }

private:
    int signal_ = 0;
    SignalWatch watch_;
};

/// Runs `work`. SIGINT, SIGTERM, SIGHUP and SIGPIPE cancel it; then EndedBySignal is thrown once the work has ended.
template <class T>
Task<T> until_signal(Task<T> work) {
    const Executor executor = co_await this_executor;
    std::stop_source stop;
    const StopAtSignal signals(executor, stop);
    std::optional<T> result;
    std::exception_ptr failure;
    try {
        result = co_await cancel_on(stop.get_token(), std::move(work));
    } catch (...) {
        failure = std::current_exception();
    }
    if (signals.signal() != 0) throw EndedBySignal(signals.signal());
    if (failure) std::rethrow_exception(failure);
    co_return std::move(*result);
}

/// Keeps the keys of this process from other processes of the same user: its memory cannot be read or traced, it leaves no
/// core file, and the environment that the kernel shows for it is empty (getenv() still has all variables). For the
/// beginning of main(), before there are other threads.
///
/// No core limit is set: a process that cannot be dumped leaves no core file, and children keep the limit of the user.
void protect_process();

/// Returns the name of the user who runs this process, or the user id as text if the system has no name for it.
std::string local_user();

/// "cubepi 0.1.0"
const char* version_text() noexcept;

/// "2026-03-01 14:30:05 +0100": a time in the local time zone with its offset from UTC; "-" if it is unknown (not positive).
std::string local_time(double unix_seconds);

/// The same for an ISO 8601 time, without zone UTC. Text that is not a time is returned as it is.
std::string local_time(std::string_view iso_time);

/// local_time() to the minute, for a table at a terminal of `columns` columns: without zone, and on a narrow one without year.
std::string short_local_time(double unix_seconds, std::size_t columns);

/// Converts the value of `option` to ISO 8601 in UTC. A time without zone is local; a date alone is the start of the
/// local day, or with `end_of_day` its end. Empty text stays empty. Throws Error(invalid_argument).
std::string utc_time(const std::string& option, const std::string& text, bool end_of_day);

/// The options of the log as given; empty: not given.
struct LogFlags {
    std::string level = {};   ///< --log-level
    std::string format = {};  ///< --log-format
};

struct LogSettings {
    LogLevel level = LogLevel::off;
    std::optional<LogFormat> format = {};  ///< absent: what fits standard error
};

/// Returns the settings of the flags, else of `variable`, the value of CUBEPI_LOG: LEVEL or LEVEL:FORMAT. Throws
/// Error(invalid_argument).
LogSettings log_settings(const LogFlags& flags, std::string_view variable);

/// Sets the log of the default runtime, which writes to standard error: with priorities if that is systemd's journal. `chat`: in a chat
/// standard error must not be the terminal. Throws Error(invalid_argument).
void set_up_log(const LogFlags& flags, bool chat);

/// Writes a warning of a service to standard error, for its operator: with a priority if that is systemd's journal. Omitted if the log is
/// on and its lines are JSON, which the text would break; the part that warns logs an event.
void warn_operator(const std::string& text);

}  // namespace cubepi::app
