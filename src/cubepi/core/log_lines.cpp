#include <cubepi/core/log_lines.hpp>

#include <array>
#include <cmath>
#include <cstdio>
#include <ostream>
#include <utility>
#include <variant>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/number_text.hpp>

namespace cubepi {

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
