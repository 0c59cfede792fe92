#include <cubepi/core/log.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <exception>
#include <ostream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/notice.hpp>
#include <cubepi/core/number_text.hpp>
#include <cubepi/core/support/error_code_of.hpp>

namespace cubepi {

namespace {

constexpr std::array<std::string_view, 5> level_names = {"debug", "info", "warning", "error",
                                                         "off"};

/// Codes of notices that report a failure or a loss.
constexpr std::array<std::string_view, 17> warnings = {"claim_lease_ended",
                                                       "claim_lost",
                                                       "claim_taken_over",
                                                       "export_dropping",
                                                       "export_failing",
                                                       "export_warning",
                                                       "failover",
                                                       "held_spans_dropped",
                                                       "metrics_failed",
                                                       "no_persistence",
                                                       "observer_failed",
                                                       "otel_variable",
                                                       "recording_incomplete",
                                                       "redact_failed",
                                                       "retry",
                                                       "stream_file_failed",
                                                       "tracing_failed"};

/// The details that are identifiers. Others may be texts of an endpoint or of the user.
constexpr std::array<std::string_view, 12> identifiers = {
    "block", "cause",   "change", "error_type", "exporter", "field",
    "hook",  "outcome", "role",   "run_id",     "variable", "question_id"};

template <std::size_t size>
bool contains(const std::array<std::string_view, size>& list, std::string_view text) noexcept {
    return std::find(list.begin(), list.end(), text) != list.end();
}

bool is_positive(const JsonObject& details, std::string_view key) noexcept {
    const Json* value = details.if_contains(key);
    if (!value) return false;
    if (const auto* number = value->if_int64()) return *number > 0;
    const auto* large = value->if_uint64();
    return large && *large > 0;
}

LogLevel level_of(const Notice& notice) noexcept {
    // The totals of an exporter.
    const bool lost = notice.code == "export_ended" && (is_positive(notice.details, "dropped") ||
                                                        is_positive(notice.details, "failed"));
    return lost || contains(warnings, notice.code) ? LogLevel::warning : LogLevel::info;
}

/// A vendor's value under a known key could still be a text.
bool is_identifier(std::string_view text) noexcept {
    constexpr std::size_t longest = 64;
    return text.size() <= longest && std::all_of(text.begin(), text.end(), [](char c) {
               return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '_' || c == '-' || c == '.' || c == ':';
           });
}

void add_detail(std::vector<LogField>& fields, std::string_view key, const Json& value) {
    if (const auto* number = value.if_int64()) {
        fields.emplace_back(key, *number);
    } else if (const auto* large = value.if_uint64()) {
        fields.emplace_back(key, *large);
    } else if (const auto* real = value.if_double()) {
        fields.emplace_back(key, *real);
    } else if (const auto* truth = value.if_bool()) {
        fields.emplace_back(key, *truth);
    } else if (const auto* text = value.if_string(); text && contains(identifiers, key)) {
        if (is_identifier(*text)) fields.emplace_back(key, std::string_view(*text));
    }
}

}  // namespace

std::string_view to_string(LogLevel level) noexcept {
    return level_names.at(static_cast<std::size_t>(level));
}

std::optional<LogLevel> parse_log_level(std::string_view name) noexcept {
    const auto is = [name](std::string_view other) {
        return std::equal(name.begin(), name.end(), other.begin(), other.end(), [](char a, char b) {
            return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b;
        });
    };
    if (is("warn")) return LogLevel::warning;
    for (std::size_t i = 0; i < level_names.size(); ++i) {
        if (is(level_names.at(i))) return static_cast<LogLevel>(i);
    }
    return std::nullopt;
}

void Logger::write_now(LogLevel level, std::string_view event,
                       std::span<const LogField> fields) const noexcept {
    try {
        sink_->write(LogRecord{level, event, fields});
    } catch (...) {
        // A log must not fail the program.
    }
}

void log_notice(const Logger& log, const Notice& notice, std::string_view run_id) noexcept {
    const LogLevel level = level_of(notice);
    if (!log.is_on(level)) return;
    try {
        std::vector<LogField> fields;
        if (!run_id.empty()) fields.emplace_back("run_id", run_id);
        for (const auto& [key, value] : notice.details) {
            if (run_id.empty() || key != "run_id") add_detail(fields, key, value);
        }
        log.write(level, notice.code, std::span<const LogField>(fields));
    } catch (...) {
        // No memory: the notice is not logged.
    }
}

std::string_view logged_error(const std::exception_ptr& failure) noexcept {
    return to_string(detail::error_code_of(failure));
}

namespace {

constexpr std::size_t longest_value = 256;

/// "2026-11-24T01:02:03.456Z"
std::string time_text(std::chrono::system_clock::time_point time) {
    using namespace std::chrono;
    const auto day = floor<days>(time);
    const year_month_day date(day);
    const hh_mm_ss clock(floor<milliseconds>(time - day));
    std::array<char, 40> text{};
    std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ",
                  static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                  static_cast<unsigned>(date.day()), static_cast<int>(clock.hours().count()),
                  static_cast<int>(clock.minutes().count()),
                  static_cast<int>(clock.seconds().count()),
                  static_cast<int>(clock.subseconds().count()));
    return text.data();
}

/// Appends a JSON string of ASCII.
void append_quoted(std::string& line, std::string_view text) {
    const bool cut = text.size() > longest_value;
    line.push_back('"');
    for (const char c : text.substr(0, longest_value)) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            line.push_back('\\');
            line.push_back(c);
        } else if (byte < 0x20 || byte == 0x7f) {
            std::array<char, 8> escape{};
            std::snprintf(escape.data(), escape.size(), "\\u%04x", byte);
            line += escape.data();
        } else {
            line.push_back(byte < 0x80 ? c : '?');
        }
    }
    line += cut ? "...\"" : "\"";
}

/// Appends a word as it is, and any other text as a JSON string.
void append_word(std::string& line, std::string_view text) {
    bool plain = !text.empty() && text.size() <= longest_value;
    for (const char c : text)
        plain = plain && c > 0x20 && c < 0x7f && c != '"' && c != '=' && c != '\\';
    if (plain) {
        line += text;
    } else {
        append_quoted(line, text);
    }
}

void append_value(std::string& line, const LogValue& value, bool json) {
    if (const auto* text = std::get_if<std::string_view>(&value)) {
        json ? append_quoted(line, *text) : append_word(line, *text);
    } else if (const auto* truth = std::get_if<bool>(&value)) {
        line += *truth ? "true" : "false";
    } else if (const auto* number = std::get_if<std::int64_t>(&value)) {
        line += std::to_string(*number);
    } else {
        const double real = std::get<double>(value);
        const bool needs_quotes = json && !std::isfinite(real);
        line += needs_quotes ? "\"" + number_text(real) + "\"" : number_text(real);
    }
}

std::string json_line(const LogRecord& record, std::chrono::system_clock::time_point time) {
    std::string line = "{\"time\":\"" + time_text(time) + "\",\"level\":\"";
    line += to_string(record.level);
    line += "\",\"event\":";
    append_quoted(line, record.event);
    for (const LogField& field : record.fields) {
        line.push_back(',');
        append_quoted(line, field.name);
        line.push_back(':');
        append_value(line, field.value, true);
    }
    return line + "}\n";
}

/// The priorities of syslog(3).
const char* priority(LogLevel level) {
    switch (level) {
        case LogLevel::debug: return "<7>";
        case LogLevel::info: return "<6>";
        case LogLevel::warning: return "<4>";
        case LogLevel::error:
        case LogLevel::off: break;
    }
    return "<3>";
}

}  // namespace

std::string log_line(const LogRecord& record, LogFormat format,
                     std::chrono::system_clock::time_point time) {
    if (format == LogFormat::json) return json_line(record, time);
    std::string line;
    if (format == LogFormat::journal) {
        line = priority(record.level);
    } else {
        line = time_text(time) + " ";
        line += to_string(record.level);
        line += " ";
    }
    append_word(line, record.event);
    for (const LogField& field : record.fields) {
        line.push_back(' ');
        append_word(line, field.name);
        line.push_back('=');
        append_value(line, field.value, false);
    }
    return line + "\n";
}

StreamLogSink::StreamLogSink(std::ostream& out, LogFormat format, std::shared_ptr<Clock> clock)
    : out_(out),
      format_(format),
      clock_(clock ? std::move(clock) : std::make_shared<SystemClock>()) {}

void StreamLogSink::write(const LogRecord& record) {
    const std::string line = log_line(record, format_, clock_->wall());
    const std::lock_guard lock(mutex_);
    out_.write(line.data(), static_cast<std::streamsize>(line.size())).flush();
    out_.clear();  // a later line may find space
}

}  // namespace cubepi
