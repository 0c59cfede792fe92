#include <cubepi/core/log.hpp>

#include <algorithm>
#include <array>
#include <exception>
#include <string>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/notice.hpp>

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
    try {
        if (failure) std::rethrow_exception(failure);
    } catch (const Error& error) {
        return to_string(error.code());
    } catch (...) {
        // An exception of another library.
    }
    return to_string(ErrorCode::unknown);
}

}  // namespace cubepi
