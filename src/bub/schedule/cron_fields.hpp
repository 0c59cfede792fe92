#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

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
