#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

// Logs for operators (B29). The log of a program is `Runtime::log`; it is off by default. A record has the name of an event and
// fields: names, codes, numbers, times. It never has content (prompts, answers, arguments, results, error texts of endpoints) and never a
// secret, at any level. StreamLogSink writes records as lines; docs/guides/logging.md lists the events.

namespace cubepi {

struct Notice;

enum class LogLevel : std::uint8_t { debug, info, warning, error, off };

std::string_view to_string(LogLevel level) noexcept;
/// Returns the level of that name, in any case; "warn" is "warning". Empty if there is none.
std::optional<LogLevel> parse_log_level(std::string_view name) noexcept;

/// The value of a field. Refers to the text.
using LogValue = std::variant<std::string_view, std::int64_t, double, bool>;

/// A field of a record: `{"server", server}`, `{"retries", 3}`.
struct LogField {
    std::string_view name;
    LogValue value;

    LogField(std::string_view field, std::string_view text) : name(field), value(text) {}
    LogField(std::string_view field, const char* text)
        : name(field), value(std::string_view(text)) {}
    LogField(std::string_view field, bool truth) : name(field), value(truth) {}
    LogField(std::string_view field, std::integral auto number)
        : name(field), value(static_cast<std::int64_t>(number)) {}
    LogField(std::string_view field, double number) : name(field), value(number) {}
};

/// One event. Valid during LogSink::write().
struct LogRecord {
    LogLevel level;
    std::string_view event;  ///< stable: "http.failed", "store.busy"
    std::span<const LogField> fields;
};

/// A destination for records. Any thread may call write(), also several at once; it must not wait for long, because callers include
/// event loops. An exception is discarded.
class LogSink {
public:
    virtual ~LogSink() = default;
    virtual void write(const LogRecord& record) = 0;
};

/// The log that a part of the program writes to: a sink and the lowest level that it gets. Cheap to copy; thread-safe.
///
///     runtime.log.write(LogLevel::warning, "store.busy", {{"store", "sqlite"}, {"waited_ms", 5000}});
///
/// Fields refer to existing values and are not formatted unless the level is on. Where computing a value costs something, ask
/// is_on() first.
class Logger {
public:
    /// Writes nothing.
    Logger() = default;
    Logger(std::shared_ptr<LogSink> sink, LogLevel lowest)
        : sink_(std::move(sink)), lowest_(lowest) {}

    bool is_on(LogLevel level) const noexcept { return sink_ && level >= lowest_; }
    void write(LogLevel level, std::string_view event,
               std::initializer_list<LogField> fields = {}) const noexcept {
        write(level, event, std::span(fields.begin(), fields.size()));
    }
    void write(LogLevel level, std::string_view event,
               std::span<const LogField> fields) const noexcept {
        if (is_on(level)) write_now(level, event, fields);
    }

private:
    void write_now(LogLevel level, std::string_view event,
                   std::span<const LogField> fields) const noexcept;

    std::shared_ptr<LogSink> sink_;
    LogLevel lowest_ = LogLevel::off;
};

/// Writes a notice: its code is the event, and of its details the numbers and the short identifiers are fields; its text, which may quote
/// an endpoint, is omitted. Notices of a failure or a loss have the level `warning`, others `info`. `run_id`: empty: none.
void log_notice(const Logger& log, const Notice& notice, std::string_view run_id = {}) noexcept;

/// Returns the code of an exception, for a field: "tls", "timeout"; "unknown" for exceptions of other libraries.
std::string_view logged_error(const std::exception_ptr& failure) noexcept;

class Clock;

enum class LogFormat : std::uint8_t {
    text,  ///< 2026-11-24T01:02:03.456Z warning store.busy store=sqlite waited_ms=5000
    json,  ///< {"time":"2026-11-24T01:02:03.456Z","level":"warning","event":"store.busy","store":"sqlite","waited_ms":5000}
    journal,  ///< <4>store.busy store=sqlite waited_ms=5000, for systemd, which adds the time (sd-daemon(3))
};

/// Returns the record as one line of printable ASCII with a line feed at its end. Control characters are escaped, other bytes are
/// written as "?", and values longer than 256 bytes are cut, so that no value can forge a line or control a terminal.
std::string log_line(const LogRecord& record, LogFormat format,
                     std::chrono::system_clock::time_point time);

/// Writes each record as a line to a stream, with one write of the stream.
class StreamLogSink final : public LogSink {
public:
    /// `out` must outlive the sink. `clock` dates the lines; null: the system clock.
    explicit StreamLogSink(std::ostream& out, LogFormat format = LogFormat::text,
                           std::shared_ptr<Clock> clock = nullptr);
    void write(const LogRecord& record) override;

private:
    std::ostream& out_;
    const LogFormat format_;
    const std::shared_ptr<Clock> clock_;
    std::mutex mutex_;
};

}  // namespace cubepi
