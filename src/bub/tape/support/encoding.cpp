#include <bub/tape/support/encoding.hpp>

#include <array>
#include <chrono>
#include <cstdio>

#include <openssl/crypto.h>

#include <cubepi/core/error.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/schema/json/write_json.hpp>

namespace bub::detail {

namespace {

bool stands_for_itself(char c) {
    return static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\';
}

/// A value that JSON does not support would make the line unreadable for all readers except Python.
struct TapeJson {
    static constexpr std::string_view comma = ", ";
    static constexpr std::string_view colon = ": ";
    static void string(std::string& out, std::string_view text) { append_json_string(out, text); }
    static void number(std::string& out, double number) {
        cubepi::detail::append_finite_number(out, number);
    }
};

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
    std::string repaired;
    if (!cubepi::is_utf8(text)) {
        repaired = cubepi::replace_broken_utf8(text);
        text = repaired;
    }
    out += '"';
    std::size_t from = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (stands_for_itself(text[at])) continue;
        out.append(text, from, at - from);
        cubepi::detail::append_json_escape(out, text[at]);
        from = at + 1;
    }
    out.append(text, from, text.size() - from);
    out += '"';
}

void append_json_text(std::string& out, const cubepi::JsonObject& value) {
    cubepi::detail::write_json<TapeJson>(out, value);
}

void append_json_text(std::string& out, const cubepi::Json& value) {
    cubepi::detail::write_json<TapeJson>(out, value);
}

namespace {

constexpr std::int64_t second = 1'000'000;
constexpr std::int64_t day = 86'400 * second;

/// Reads the characters of a date in order.
class DateReader {
public:
    explicit DateReader(std::string_view text) : rest_(text) {}

    bool done() const { return rest_.empty(); }
    bool take(char c) {
        if (rest_.empty() || rest_.front() != c) return false;
        rest_.remove_prefix(1);
        return true;
    }
    bool take_any(std::string_view set) {
        if (rest_.empty() || set.find(rest_.front()) == std::string_view::npos) return false;
        rest_.remove_prefix(1);
        return true;
    }
    /// Reads exactly `count` digits.
    std::optional<int> number(std::size_t count) {
        if (rest_.size() < count) return std::nullopt;
        int value = 0;
        for (std::size_t i = 0; i < count; ++i) {
            if (rest_[i] < '0' || rest_[i] > '9') return std::nullopt;
            value = value * 10 + (rest_[i] - '0');
        }
        rest_.remove_prefix(count);
        return value;
    }
    /// Reads the digits of a fraction of a second; digits beyond microseconds are truncated.
    std::optional<std::int64_t> fraction() {
        std::int64_t value = 0;
        std::int64_t unit = second;
        std::size_t digits = 0;
        for (; digits < rest_.size() && rest_[digits] >= '0' && rest_[digits] <= '9'; ++digits) {
            unit /= 10;
            value += unit * (rest_[digits] - '0');
        }
        if (digits == 0) return std::nullopt;
        rest_.remove_prefix(digits);
        return value;
    }

private:
    std::string_view rest_;
};

/// Reads "W01-1" after a year: week 1 is the week with January 4, and weeks begin on Monday.
std::optional<std::int64_t> read_week(DateReader& in, int year, bool dashes) {
    const auto week = in.number(2);
    if (!week) return std::nullopt;
    int weekday = 1;
    if (!in.done() && (!dashes || in.take('-'))) {
        const auto number = in.number(1);
        if (!number) return std::nullopt;
        weekday = *number;
    }
    const auto first_of = [](int of) {
        const std::chrono::sys_days fourth =
            std::chrono::year(of) / std::chrono::January / std::chrono::day(4);
        return fourth - (std::chrono::weekday(fourth) - std::chrono::Monday);
    };
    const std::chrono::sys_days date =
        first_of(year) + std::chrono::days(7 * (*week - 1) + weekday - 1);
    if (*week < 1 || weekday < 1 || weekday > 7 || date >= first_of(year + 1)) return std::nullopt;
    return date.time_since_epoch().count() * day;
}

std::optional<std::int64_t> read_day(DateReader& in) {
    const auto year = in.number(4);
    const bool dashes = in.take('-');
    if (year && *year > 0 && in.take('W')) return read_week(in, *year, dashes);
    const auto month = in.number(2);
    if (!year || !month || (dashes && !in.take('-'))) return std::nullopt;
    const auto number = in.number(2);
    if (!number) return std::nullopt;
    const std::chrono::year_month_day date(std::chrono::year(*year),
                                           std::chrono::month(static_cast<unsigned>(*month)),
                                           std::chrono::day(static_cast<unsigned>(*number)));
    if (!date.ok() || *year == 0) return std::nullopt;
    return std::chrono::sys_days(date).time_since_epoch().count() * day;
}

/// Reads hh, hh:mm, hh:mm:ss, hh:mm:ss.ffffff, or the same without colons; a fraction is allowed only after seconds.
std::optional<std::int64_t> read_time(DateReader& in, bool is_offset) {
    const auto hour = in.number(2);
    if (!hour || *hour > 23) return std::nullopt;
    std::int64_t value = *hour * std::int64_t{3600};
    const bool colons = in.take(':');
    const auto minute = in.number(2);
    if (!minute) return colons ? std::nullopt : std::optional(value * second);
    if (*minute > 59) return std::nullopt;
    value += *minute * 60;
    if (colons && !in.take(':')) return value * second;
    const auto seconds = in.number(2);
    if (!seconds) return colons ? std::nullopt : std::optional(value * second);
    if (*seconds > 59) return std::nullopt;
    value = (value + *seconds) * second;
    if (!is_offset && in.take_any(".,")) {
        const auto part = in.fraction();
        if (!part) return std::nullopt;
        value += *part;
    }
    return value;
}

}  // namespace

std::optional<std::int64_t> parse_date(std::string_view text, bool end_of_day) {
    DateReader in(text);
    const auto start = read_day(in);
    if (!start) return std::nullopt;
    if (in.done()) return end_of_day ? *start + day - 1 : *start;
    if (!in.take_any("Tt ")) return std::nullopt;
    const auto time = read_time(in, false);
    if (!time) return std::nullopt;
    std::int64_t value = *start + *time;
    if (in.done() || (in.take_any("Zz") && in.done())) return value;
    const bool ahead = in.take('+');
    if (!ahead && !in.take('-')) return std::nullopt;
    const auto offset = read_time(in, true);
    if (!offset || !in.done()) return std::nullopt;
    return ahead ? value - *offset : value + *offset;
}

std::string format_date(std::int64_t microseconds) {
    std::int64_t days = microseconds / day;
    std::int64_t rest = microseconds % day;
    if (rest < 0) {
        rest += day;
        --days;
    }
    const std::chrono::year_month_day date{std::chrono::sys_days(std::chrono::days(days))};
    const std::int64_t seconds = rest / second;
    const std::int64_t fraction = rest % second;
    std::array<char, 64> text = {};
    int size = std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d",
                             static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                             static_cast<unsigned>(date.day()), static_cast<int>(seconds / 3600),
                             static_cast<int>(seconds / 60 % 60), static_cast<int>(seconds % 60));
    std::string made(text.data(), static_cast<std::size_t>(size));
    if (fraction != 0) {
        size = std::snprintf(text.data(), text.size(), ".%06d", static_cast<int>(fraction));
        made.append(text.data(), static_cast<std::size_t>(size));
    }
    return made + "+00:00";
}

void prepare_tls() { OPENSSL_init_crypto(OPENSSL_INIT_LOAD_CONFIG, nullptr); }

}  // namespace bub::detail
