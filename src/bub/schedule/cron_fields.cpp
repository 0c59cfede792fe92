#include <bub/schedule/cron_fields.hpp>

#include <array>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/lower_case.hpp>

namespace bub::detail {

namespace {

using namespace std::chrono;

struct Field {
    std::string_view name;
    int least;
    int most;
    std::string_view names;  ///< of three letters each; empty: none
};

constexpr std::array<Field, 5> fields = {{
    {"minute", 0, 59, ""},
    {"hour", 0, 23, ""},
    {"day of the month", 1, 31, ""},
    {"month", 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec"},
    {"day of the week", 0, 7, "sunmontuewedthufrisat"},
}};

constexpr std::array<std::pair<std::string_view, std::string_view>, 5> shorthands = {{
    {"@hourly", "0 * * * *"},
    {"@daily", "0 0 * * *"},
    {"@weekly", "0 0 * * 0"},
    {"@monthly", "0 0 1 * *"},
    {"@yearly", "0 0 1 1 *"},
}};

constexpr std::size_t longest_text = 200;
/// A 29th of February may be eight years away.
constexpr int most_days = 9 * 366;

bool has(std::uint64_t bits, unsigned value) { return (bits >> value & 1U) != 0; }

[[noreturn]] void refuse(const std::string& what) {
    throw cubepi::Error(cubepi::ErrorCode::invalid_argument,
                        what +
                            "; a cron text has five fields: minute, hour, day of the month, month, "
                            "day of the week, such as '0 9 * * 1-5'");
}

[[noreturn]] void refuse(const Field& field, std::string_view text) {
    refuse("'" + std::string(text) + "' is not a " + std::string(field.name) + " from " +
           std::to_string(field.least) + " to " + std::to_string(field.most));
}

int number_in(const Field& field, std::string_view word) {
    const std::string lower = cubepi::detail::lower_case(word);
    const std::size_t at = lower.size() == 3 ? field.names.find(lower) : std::string_view::npos;
    if (at != std::string_view::npos && at % 3 == 0) return static_cast<int>(at / 3) + field.least;
    int value = -1;
    const char* const end = word.data() + word.size();
    const auto [stop, failed] = std::from_chars(word.data(), end, value);
    if (failed != std::errc() || stop != end || value < field.least || value > field.most)
        refuse(field, word);
    return value;
}

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
    std::vector<std::string_view> parts;
    for (std::size_t begin = 0;;) {
        const std::size_t end = text.find_first_of(separators, begin);
        parts.push_back(text.substr(begin, end - begin));
        if (end == text.npos) return parts;
        begin = end + 1;
    }
}

std::uint64_t range_bits(const Field& field, std::string_view text) {
    const std::size_t slash = text.find('/');
    const std::string_view range = text.substr(0, slash);
    int step = 1;
    if (slash != text.npos) {
        const Field steps{field.name, 1, field.most, ""};
        step = number_in(steps, text.substr(slash + 1));
    }
    int first = field.least;
    int last = field.most;
    const std::size_t dash = range.find('-');
    if (range != "*") {
        first = number_in(field, range.substr(0, dash));
        if (dash != range.npos) {
            last = number_in(field, range.substr(dash + 1));
        } else if (slash == text.npos) {
            last = first;
        }
    }
    if (first > last) refuse(field, text);
    std::uint64_t bits = 0;
    for (int value = first; value <= last; value += step) bits |= std::uint64_t{1} << value;
    return bits;
}

std::uint64_t bits_of(const Field& field, std::string_view text) {
    std::uint64_t bits = 0;
    for (const std::string_view part : split(text, ",")) bits |= range_bits(field, part);
    return bits;
}

}  // namespace

CronFields::CronFields(std::string_view text) {
    if (text.size() > longest_text) refuse("the cron text is longer than 200 bytes");
    for (const auto& [name, meaning] : shorthands)
        if (text == name) text = meaning;
    std::vector<std::string_view> words = split(text, " \t");
    std::erase(words, std::string_view());
    if (words.size() != fields.size())
        refuse("'" + std::string(text) + "' has " + std::to_string(words.size()) + " fields");
    minutes_ = bits_of(fields[0], words[0]);
    hours_ = bits_of(fields[1], words[1]);
    month_days_ = bits_of(fields[2], words[2]);
    months_ = bits_of(fields[3], words[3]);
    week_days_ = bits_of(fields[4], words[4]);
    if (has(week_days_, 7)) week_days_ |= 1U;
    any_month_day_ = words[2].starts_with('*');
    any_week_day_ = words[4].starts_with('*');
}

bool CronFields::fits(local_days day) const {
    const year_month_day date{day};
    if (!has(months_, unsigned{date.month()})) return false;
    const bool month_day = has(month_days_, unsigned{date.day()});
    const bool week_day = has(week_days_, weekday{day}.c_encoding());
    return any_month_day_ || any_week_day_ ? month_day && week_day : month_day || week_day;
}

std::optional<LocalTime> CronFields::next(LocalTime after) const {
    local_days day = floor<days>(after);
    minutes begin = floor<minutes>(after - day) + minutes{1};
    for (int i = 0; i < most_days; ++i) {
        const minutes end = fits(day) ? minutes{days{1}} : begin;
        for (minutes at = begin; at < end; at += minutes{1}) {
            const auto hour = static_cast<unsigned>(at / hours{1});
            const auto minute = static_cast<unsigned>(at % hours{1} / minutes{1});
            if (has(hours_, hour) && has(minutes_, minute)) return day + at;
        }
        day += days{1};
        begin = minutes{0};
    }
    return std::nullopt;
}

}  // namespace bub::detail
