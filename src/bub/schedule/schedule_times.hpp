#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace bub {

enum class ScheduleKind : std::uint8_t { at, every, cron };

/// The times at which a schedule fires. All instants are Unix seconds.
struct ScheduleTimes {
    ScheduleKind kind = ScheduleKind::at;
    std::int64_t start = 0;  ///< at: the instant. every: the firings are whole intervals after it
    std::int64_t interval = 0;  ///< every: seconds
    std::string cron = {};      ///< cron: the five fields
    std::string zone = {};      ///< of the IANA database, "Europe/Berlin"

    bool operator==(const ScheduleTimes&) const = default;
};

/// The texts of a user or a model for the times of a schedule; exactly one of the first three is set.
struct ScheduleRequest {
    /// "+20m" (after a time of m, h or d), "09:00" (the next one), "2026-12-01 09:00", or with an offset, "2026-12-01T09:00Z".
    std::optional<std::string> at = {};
    std::optional<std::string> every = {};  ///< "30m", "2h", "1d": from a minute to 366 days
    std::optional<std::string> cron = {};   ///< see detail::CronFields
    std::string zone = {};                  ///< empty: that of the system
    bool is_configured = false;             ///< `at` has a date, which may be over
};

/// Reads a request at an instant. Firings of `every` are counted from `now`. Throws Error(invalid_argument) for a text that is not valid, a
/// time in the past or more than ten years away, and times that never come; Error(unsupported) without a time zone database.
ScheduleTimes schedule_times(const ScheduleRequest& request, std::int64_t now);

/// Returns the first firing after an instant; nothing: there is none. A local time of a cron text that a change to daylight saving time skips
/// fires at the instant of the change, and one that occurs twice fires the first time.
std::optional<std::int64_t> next_firing(const ScheduleTimes& times, std::int64_t after);

/// Returns the first firing of a new schedule; that of `at` may be a moment ago.
std::optional<std::int64_t> first_firing(const ScheduleTimes& times, std::int64_t now);

/// "every 30m", "at 2026-12-01 09:00 (Europe/Berlin)", "cron 0 9 * * 1-5 (Europe/Berlin)".
std::string describe(const ScheduleTimes& times);
/// "2026-12-01 09:00 (Europe/Berlin)"; UTC if the zone is not known here.
std::string instant_text(std::int64_t instant, const std::string& zone);

/// A day of a time zone.
struct LocalDay {
    std::string date = {};  ///< "2026-12-01"
    std::int64_t end = 0;   ///< the first instant of the next day
};
/// Returns the day of an instant. `zone`: empty: that of the system; UTC if it is not known here.
LocalDay local_day(std::int64_t instant, const std::string& zone);

/// Returns the name of the time zone of the system ($TZ, /etc/localtime), or UTC.
std::string system_zone();

}  // namespace bub

namespace bub::detail {

/// A time of a calendar, without a time zone.
using LocalTime = std::chrono::local_time<std::chrono::seconds>;

/// The five fields of cron: minute, hour, day of the month, month, day of the week. Each has `*`, numbers, ranges and lists of them, with
/// steps (`*/15`, `9-17/2`); months and days may have English names of three letters, and 7 is Sunday, too. If both days are restricted,
/// one of them must fit, as in cron(8). `@hourly`, `@daily`, `@weekly`, `@monthly` and `@yearly` stand for fields.
class CronFields {
public:
    /// Throws Error(invalid_argument) that names the field.
    explicit CronFields(std::string_view text);

    /// Returns the first minute after `after` that fits; nothing if none does within nine years: a 30th of February, for example.
    std::optional<LocalTime> next(LocalTime after) const;

private:
    bool fits(std::chrono::local_days day) const;

    // The values of a field as bits.
    std::uint64_t minutes_ = 0;
    std::uint64_t hours_ = 0;
    std::uint64_t month_days_ = 0;
    std::uint64_t months_ = 0;
    std::uint64_t week_days_ = 0;
    bool any_month_day_ = false;
    bool any_week_day_ = false;
};

}  // namespace bub::detail
