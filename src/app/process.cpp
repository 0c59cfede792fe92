#include "process.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include <boost/asio/signal_set.hpp>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bub/tape/support/encoding.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/version.hpp>

#include "terminal/terminal_stream.hpp"
#include "terminal/terminal_text.hpp"

namespace cubepi::app {

namespace {

bool is_ignored(int signal) {
    struct sigaction action = {};
    return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

constexpr std::int64_t second = 1'000'000;

bool has_zone(std::string_view iso_time) {
    const std::size_t time = iso_time.find_first_of("Tt ");
    return time != std::string_view::npos &&
           iso_time.find_first_of("Zz+-", time + 1) != std::string_view::npos;
}

/// The time at which a local clock shows the same as a UTC clock at `microseconds`.
std::int64_t from_local(std::int64_t microseconds) {
    std::int64_t seconds = microseconds / second;
    std::int64_t rest = microseconds % second;
    if (rest < 0) {
        rest += second;
        --seconds;
    }
    const auto shown = static_cast<std::time_t>(seconds);
    std::tm parts = {};
    if (!gmtime_r(&shown, &parts)) return microseconds;
    parts.tm_isdst = -1;
    return static_cast<std::int64_t>(std::mktime(&parts)) * second + rest;
}

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

LogLevel level_of(const std::string& text, const std::string& source) {
    if (const std::optional<LogLevel> level = parse_log_level(text)) return *level;
    throw Error(
        ErrorCode::invalid_argument,
        source + ": '" + text + "' is not a log level; use debug, info, warning, error or off");
}

LogFormat format_of(const std::string& text, const std::string& source) {
    if (text == "text") return LogFormat::text;
    if (text == "json") return LogFormat::json;
    throw Error(ErrorCode::invalid_argument,
                source + ": '" + text + "' is not a log format; use text or json");
}

/// systemd sets JOURNAL_STREAM to the device and inode of its socket, also for children that have another standard error.
bool is_journal(int descriptor) {
    struct stat info = {};
    if (fstat(descriptor, &info) != 0) return false;
    return variable("JOURNAL_STREAM") ==
           std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino);
}

/// The format of the log, if it is on.
std::optional<LogFormat>& log_format() {
    static std::optional<LogFormat> format;
    return format;
}

}  // namespace

struct SignalWatch::State : std::enable_shared_from_this<SignalWatch::State> {
    State(const Executor& executor, std::function<void(int)> callback,
          std::initializer_list<int> wanted)
        : signals(executor), signalled(std::move(callback)) {
        for (const int signal : wanted) {
            if (!is_ignored(signal)) signals.add(signal);
        }
    }
    void wait() {
        signals.async_wait(
            [self = shared_from_this()](const boost::system::error_code& failed, int signal) {
                if (failed || !self->signalled) return;
                self->signalled(signal);
                self->wait();
            });
    }
    boost::asio::signal_set signals;
    std::function<void(int signal)> signalled;
};

SignalWatch::SignalWatch(Executor executor, std::function<void(int signal)> signalled,
                         std::initializer_list<int> signals)
    : state_(std::make_shared<State>(executor, std::move(signalled), signals)) {
    state_->wait();
}

SignalWatch::~SignalWatch() {
    state_->signalled = nullptr;
    state_->signals.cancel();
}

StopAtSignal::StopAtSignal(Executor executor, std::stop_source stop)
    : watch_(std::move(executor), [this, stop = std::move(stop)](int signal) mutable {
          if (signal_ != 0 && signal == SIGPIPE) return;
          if (signal_ != 0) std::_Exit(128 + signal);
          signal_ = signal;
          stop.request_stop();
      }) {}

void protect_process() {
    ::prctl(PR_SET_DUMPABLE, 0);
    // Root may look nevertheless: what the kernel shows as /proc/PID/environ is the place where the variables were put at the
    // start. They move from there.
    for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::size_t size = std::strlen(*entry) + 1;
        char* copy = static_cast<char*>(std::malloc(size));
        if (copy == nullptr) throw std::bad_alloc();
        std::memcpy(copy, *entry, size);
        ::explicit_bzero(*entry, size);
        *entry = copy;  // for the life of the process, as the environment
    }
}

std::string local_user() {
    std::array<char, 4096> text = {};
    struct passwd entry = {};
    struct passwd* found = nullptr;
    const int failed = getpwuid_r(getuid(), &entry, text.data(), text.size(), &found);
    if (failed == 0 && found && entry.pw_name && *entry.pw_name) return entry.pw_name;
    return std::to_string(getuid());
}

const char* version_text() noexcept { return "cubepi " CUBEPI_VERSION; }

std::string local_time(double unix_seconds) {
    const auto seconds = static_cast<std::time_t>(std::floor(unix_seconds));
    std::tm local = {};
    if (unix_seconds <= 0 || !localtime_r(&seconds, &local)) return "-";
    std::array<char, 48> text = {};
    const std::size_t size =
        std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S %z", &local);
    return std::string(text.data(), size);
}

std::string local_time(std::string_view iso_time) {
    const std::optional<std::int64_t> time = bub::detail::parse_date(iso_time);
    if (!time) return std::string(iso_time);
    return local_time(static_cast<double>(*time) / static_cast<double>(second));
}

std::string short_local_time(double unix_seconds, std::size_t columns) {
    constexpr std::size_t year = 5;
    std::string text =
        local_time(unix_seconds).substr(0, std::string_view("2026-03-01 14:30").size());
    if (columns < 100 && text.size() > year) text.erase(0, year);
    return text;
}

std::string utc_time(const std::string& option, const std::string& text, bool end_of_day) {
    if (text.empty()) return text;
    const std::optional<std::int64_t> time = bub::detail::parse_date(text, end_of_day);
    if (!time) {
        throw Error(ErrorCode::invalid_argument,
                    option + ": '" + text +
                        "' is not a date or time; expected 2026-03-01, 2026-03-01T14:30 or "
                        "2026-03-01T14:30+01:00");
    }
    return bub::detail::format_date(has_zone(text) ? *time : from_local(*time));
}

LogSettings log_settings(const LogFlags& flags, std::string_view variable) {
    constexpr const char* source = "CUBEPI_LOG";
    LogSettings settings;
    if (!variable.empty()) {
        const std::size_t colon = variable.find(':');
        settings.level = level_of(std::string(variable.substr(0, colon)), source);
        if (colon != std::string_view::npos)
            settings.format = format_of(std::string(variable.substr(colon + 1)), source);
    }
    if (!flags.level.empty()) settings.level = level_of(flags.level, "--log-level");
    if (!flags.format.empty()) {
        settings.format = format_of(flags.format, "--log-format");
        if (settings.level == LogLevel::off && flags.level.empty())
            settings.level = LogLevel::info;  // the format alone asks for a log
    }
    return settings;
}

void set_up_log(const LogFlags& flags, bool chat) {
    const LogSettings settings = log_settings(flags, variable("CUBEPI_LOG"));
    if (settings.level == LogLevel::off) return;
    if (chat && isatty(STDERR_FILENO) == 1) {
        throw Error(ErrorCode::invalid_argument,
                    "the log would be mixed with the chat; write it to a file: cubepi chat "
                    "2> cubepi.log");
    }
    const LogFormat format =
        settings.format.value_or(is_journal(STDERR_FILENO) ? LogFormat::journal : LogFormat::text);
    auto sink = std::make_shared<StreamLogSink>(log_output(), format);
    log_format() = format;
    Runtime::set_standard_log(Logger(std::move(sink), settings.level));
}

void warn_operator(const std::string& text) {
    if (log_format() == LogFormat::json) return;
    const bool has_priority =
        log_format().value_or(LogFormat::text) == LogFormat::journal || is_journal(STDERR_FILENO);
    if (has_priority) err() << "<4>";
    err() << "cubepi: " << for_terminal(text) << "\n";
}

}  // namespace cubepi::app
