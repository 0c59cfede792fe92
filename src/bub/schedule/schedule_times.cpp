#include <bub/schedule/schedule_times.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <date/tz.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/core/support/parsed_number.hpp>

// Time zones are those of the system's tzdata, as read by the library date, on which std::chrono's are modeled: libstdc++ has them
// from GCC 14 only.

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

/// The number or name in `word`, a part of the text `whole` of a field.
int number_in(const Field& field, std::string_view word, std::string_view whole) {
    const std::string lower = cubepi::detail::lower_case(word);
    const std::size_t at = lower.size() == 3 ? field.names.find(lower) : std::string_view::npos;
    if (at != std::string_view::npos && at % 3 == 0) return static_cast<int>(at / 3) + field.least;
    const std::optional<int> value = cubepi::detail::parsed_number<int>(word);
    if (!value || *value < field.least || *value > field.most)
        refuse(field, word.empty() ? whole : word);
    return *value;
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

std::uint64_t range_bits(const Field& field, std::string_view text, std::string_view whole) {
    const std::size_t slash = text.find('/');
    const std::string_view range = text.substr(0, slash);
    int step = 1;
    if (slash != text.npos) {
        const Field steps{field.name, 1, field.most, ""};
        step = number_in(steps, text.substr(slash + 1), whole);
    }
    int first = field.least;
    int last = field.most;
    const std::size_t dash = range.find('-');
    if (range != "*") {
        first = number_in(field, range.substr(0, dash), whole);
        if (dash != range.npos) {
            last = number_in(field, range.substr(dash + 1), whole);
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
    for (const std::string_view part : split(text, ",")) bits |= range_bits(field, part, text);
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

namespace bub {

namespace {

using namespace std::chrono;
using cubepi::Error;
using cubepi::ErrorCode;
using detail::LocalTime;

constexpr std::int64_t shortest_interval = 60;
constexpr std::int64_t longest_interval = std::int64_t{366} * 24 * 3600;
constexpr std::int64_t farthest = std::int64_t{10} * 366 * 24 * 3600;
/// A time that the sender has read from a clock may be over when it arrives.
constexpr std::int64_t tolerated_delay = 60;
constexpr std::size_t longest_zone = 64;
/// 1 January 3000. Instants that are stored and not plausible are not computed with.
constexpr std::int64_t last_instant = 32'503'680'000;

constexpr std::string_view utc = "UTC";

[[noreturn]] void refuse(const std::string& text) {
    throw Error(ErrorCode::invalid_argument, text);
}

std::string quote(std::string_view text) {
    constexpr std::size_t shown = 60;
    return "'" + std::string(text.substr(0, shown)) + (text.size() > shown ? "...'" : "'");
}

void check_database() {
    try {
        (void)date::get_tzdb();
    } catch (const std::exception& error) {
        throw Error(ErrorCode::unsupported,
                    "the time zones of the system cannot be read (install tzdata): " +
                        std::string(error.what()));
    }
}

/// Null: UTC, which needs no database. The name is only compared with those in the database.
const date::time_zone* find_zone(const std::string& name) {
    if (name == utc) return nullptr;
    check_database();
    try {
        if (name.size() <= longest_zone) return date::locate_zone(name);
    } catch (const std::exception&) {
        refuse(quote(name) + " is not a time zone; names are such as Europe/Berlin or UTC");
    }
    refuse(quote(name) + " is not a time zone; names are such as Europe/Berlin or UTC");
}

/// Like find_zone(); UTC, also in `name`, if the zone is not known here.
const date::time_zone* zone_or_utc(std::string& name) {
    try {
        return find_zone(name);
    } catch (const Error&) {
        name = utc;
        return nullptr;
    }
}

LocalTime local_time_of(const date::time_zone* zone, std::int64_t instant) {
    const sys_seconds time{seconds{instant}};
    const seconds offset = zone ? zone->get_info(time).offset : seconds{0};
    return LocalTime{seconds{instant} + offset};
}

std::int64_t instant_of(const date::time_zone* zone, LocalTime local) {
    const seconds time = local.time_since_epoch();
    if (!zone) return time.count();
    const date::local_info info = zone->get_info(date::local_seconds{time});
    if (info.result == date::local_info::nonexistent)
        return info.second.begin.time_since_epoch().count();
    return (time - info.first.offset).count();
}

/// Reads a number of `digits` digits at `position`. Negative: there is none.
int number_at(std::string_view text, std::size_t position, std::size_t digits) {
    if (position + digits > text.size()) return -1;
    int value = 0;
    for (const char c : text.substr(position, digits)) {
        if (c < '0' || c > '9') return -1;
        value = value * 10 + (c - '0');
    }
    return value;
}

/// "30m", "2h", "1d"; nothing for another text.
std::optional<std::int64_t> duration_of(std::string_view text) {
    std::int64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, failed] = std::from_chars(text.data(), end, value);
    if (failed != std::errc() || end - stop != 1 || value <= 0) return std::nullopt;
    const std::int64_t unit = *stop == 'm' ? 60 : *stop == 'h' ? 3600 : *stop == 'd' ? 86'400 : 0;
    if (unit == 0 || value > farthest / unit) return std::nullopt;
    return value * unit;
}

/// Reads "09:00" or "09:00:30"; advances `text` behind it.
std::optional<seconds> clock_time(std::string_view& text) {
    const int hour = number_at(text, 0, 2);
    const int minute = number_at(text, 3, 2);
    if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || text[2] != ':') return std::nullopt;
    text.remove_prefix(5);
    int second = 0;
    if (text.starts_with(':')) {
        second = number_at(text, 1, 2);
        if (second < 0 || second > 59) return std::nullopt;
        text.remove_prefix(3);
    }
    return hours{hour} + minutes{minute} + seconds{second};
}

/// Reads an offset such as "+02:00" or "Z".
std::optional<seconds> offset_of(std::string_view text) {
    if (text == "Z") return seconds{0};
    if (text.size() != 6 || (text[0] != '+' && text[0] != '-')) return std::nullopt;
    text.remove_prefix(1);
    const bool is_west = text.data()[-1] == '-';
    const std::optional<seconds> offset = clock_time(text);
    if (!offset || !text.empty()) return std::nullopt;
    return is_west ? -*offset : *offset;
}

std::optional<std::int64_t> read_instant(std::string_view text, const date::time_zone* zone,
                                         std::int64_t now) {
    if (text.starts_with('+')) {
        const std::optional<std::int64_t> delay = duration_of(text.substr(1));
        if (delay) return now + *delay;
        return std::nullopt;
    }
    const LocalTime local_now = local_time_of(zone, now);
    if (text.size() == 5) {
        const std::optional<seconds> time = clock_time(text);
        if (!time) return std::nullopt;
        const local_days today = floor<days>(local_now);
        const std::int64_t instant = instant_of(zone, today + *time);
        return instant > now ? instant : instant_of(zone, today + days{1} + *time);
    }
    const int year_number = number_at(text, 0, 4);
    const int month_number = number_at(text, 5, 2);
    const int day_number = number_at(text, 8, 2);
    if (year_number < 0 || month_number < 0 || day_number < 0 || text.size() < 16 ||
        text[4] != '-' || text[7] != '-' || (text[10] != ' ' && text[10] != 'T'))
        return std::nullopt;
    const year_month_day date{year{year_number}, month{static_cast<unsigned>(month_number)},
                              day{static_cast<unsigned>(day_number)}};
    if (!date.ok()) return std::nullopt;
    text.remove_prefix(11);
    const std::optional<seconds> time = clock_time(text);
    if (!time) return std::nullopt;
    const LocalTime local = local_days{date} + *time;
    if (text.empty()) return instant_of(zone, local);
    const std::optional<seconds> offset = offset_of(text);
    if (!offset) return std::nullopt;
    return (local.time_since_epoch() - *offset).count();
}

std::int64_t read_at(const ScheduleRequest& request, const date::time_zone* zone,
                     std::int64_t now) {
    const std::string& text = *request.at;
    const std::optional<std::int64_t> instant = read_instant(text, zone, now);
    const bool has_date = text.size() > 5 && !text.starts_with('+');
    if (request.is_configured && instant && has_date) return *instant;
    if (!instant || request.is_configured)
        refuse(quote(text) + " is not a time; write " +
               (request.is_configured ? "" : "+20m, 09:00, ") +
               "2026-12-01 09:00 or 2026-12-01T09:00Z");
    if (*instant < now - tolerated_delay) refuse(quote(text) + " is in the past");
    if (*instant > now + farthest) refuse(quote(text) + " is more than ten years away");
    return *instant;
}

std::int64_t read_interval(const std::string& text) {
    const std::optional<std::int64_t> interval = duration_of(text);
    if (!interval || *interval < shortest_interval || *interval > longest_interval)
        refuse(quote(text) + " is not an interval from 1m to 366d, such as 30m, 2h or 1d");
    return *interval;
}

std::string interval_text(std::int64_t interval) {
    if (interval % 86'400 == 0) return std::to_string(interval / 86'400) + "d";
    if (interval % 3600 == 0) return std::to_string(interval / 3600) + "h";
    return std::to_string(interval / 60) + "m";
}

std::optional<std::int64_t> next_of_cron(const ScheduleTimes& times, std::int64_t after) {
    const date::time_zone* const zone = find_zone(times.zone);
    const detail::CronFields fields(times.cron);
    std::optional<LocalTime> local = local_time_of(zone, after);
    for (;;) {
        local = fields.next(*local);
        if (!local) return std::nullopt;
        // Within an hour that occurs twice, or behind one that was skipped, it may be an instant that is over.
        const std::int64_t instant = instant_of(zone, *local);
        if (instant > after) return instant;
    }
}

}  // namespace

ScheduleTimes schedule_times(const ScheduleRequest& request, std::int64_t now) {
    const int given = int{request.at.has_value()} + int{request.every.has_value()} +
                      int{request.cron.has_value()};
    if (given != 1) refuse("a schedule has one of at, every and cron");
    ScheduleTimes times;
    times.zone = request.zone.empty() ? system_zone() : request.zone;
    const date::time_zone* const zone = find_zone(times.zone);
    if (request.at) {
        times.kind = ScheduleKind::at;
        times.start = read_at(request, zone, now);
    } else if (request.every) {
        times.kind = ScheduleKind::every;
        times.start = now;
        times.interval = read_interval(*request.every);
    } else {
        times.kind = ScheduleKind::cron;
        times.cron = *request.cron;
        // Lists of schedules are separated by tabs.
        std::replace(times.cron.begin(), times.cron.end(), '\t', ' ');
        if (!next_firing(times, now)) refuse(quote(*request.cron) + " describes no date");
    }
    return times;
}

std::optional<std::int64_t> next_firing(const ScheduleTimes& times, std::int64_t after) {
    if (after < 0 || after > last_instant) return std::nullopt;
    switch (times.kind) {
        case ScheduleKind::at:
            return times.start > after ? std::optional(times.start) : std::nullopt;
        case ScheduleKind::every:
            if (times.interval < shortest_interval || times.interval > longest_interval ||
                times.start < 0 || times.start > last_instant)
                return std::nullopt;
            if (times.start > after) return times.start;
            return times.start + ((after - times.start) / times.interval + 1) * times.interval;
        case ScheduleKind::cron: return next_of_cron(times, after);
    }
    return std::nullopt;
}

std::optional<std::int64_t> first_firing(const ScheduleTimes& times, std::int64_t now) {
    return times.kind == ScheduleKind::at ? std::optional(times.start) : next_firing(times, now);
}

std::string instant_text(std::int64_t instant, const std::string& zone) {
    std::string name = zone;
    const date::time_zone* const used = zone_or_utc(name);
    const LocalTime local = local_time_of(used, instant);
    const local_days day = floor<days>(local);
    const year_month_day date{day};
    const hh_mm_ss<seconds> time{local - day};
    char text[64];
    std::snprintf(text, sizeof text, "%04d-%02u-%02u %02d:%02d", int{date.year()},
                  unsigned{date.month()}, unsigned{date.day()},
                  static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()));
    return std::string(text) + " (" + name + ")";
}

LocalDay local_day(std::int64_t instant, const std::string& zone) {
    std::string name = zone.empty() ? system_zone() : zone;
    const date::time_zone* const used = zone_or_utc(name);
    const local_days day = floor<days>(local_time_of(used, instant));
    const year_month_day date{day};
    char text[64];
    std::snprintf(text, sizeof text, "%04d-%02u-%02u", int{date.year()}, unsigned{date.month()},
                  unsigned{date.day()});
    return LocalDay{text, instant_of(used, day + days{1})};
}

std::string describe(const ScheduleTimes& times) {
    switch (times.kind) {
        case ScheduleKind::at: return "at " + instant_text(times.start, times.zone);
        case ScheduleKind::every: return "every " + interval_text(times.interval);
        case ScheduleKind::cron: return "cron " + times.cron + " (" + times.zone + ")";
    }
    return {};
}

std::string system_zone() {
    const char* const variable = std::getenv("TZ");
    try {
        if (variable && *variable) {
            const std::string name = *variable == ':' ? variable + 1 : variable;
            (void)find_zone(name);
            return name;
        }
        check_database();
        return date::current_zone()->name();
    } catch (const std::exception&) {
        return std::string(utc);
    }
}

}  // namespace bub
