// When schedules fire: cron fields, time zones, changes to and from daylight saving time, hostile texts.

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <bub/schedule/schedule_times.hpp>
#include <cubepi/core/error.hpp>

namespace bub {
namespace {

using namespace std::chrono;
using cubepi::Error;
using cubepi::ErrorCode;

constexpr std::int64_t minute_seconds = 60;
constexpr std::int64_t hour_seconds = 3600;

std::int64_t utc(int y, unsigned m, unsigned d, int h = 0, int min = 0) {
    const sys_seconds time = sys_days{year{y} / month{m} / day{d}} + hours{h} + minutes{min};
    return time.time_since_epoch().count();
}

ScheduleTimes cron(const std::string& fields, const std::string& zone = "UTC") {
    ScheduleTimes times;
    times.kind = ScheduleKind::cron;
    times.cron = fields;
    times.zone = zone;
    return times;
}

/// The next firings, as texts.
std::vector<std::string> firings(const ScheduleTimes& times, std::int64_t after,
                                 std::size_t count) {
    std::vector<std::string> texts;
    for (std::optional<std::int64_t> next = next_firing(times, after); next && texts.size() < count;
         next = next_firing(times, *next)) {
        const std::string text = instant_text(*next, times.zone);
        texts.push_back(text.substr(0, text.find(" (")));
    }
    return texts;
}

using Texts = std::vector<std::string>;

ErrorCode code_of(const ScheduleRequest& request) {
    try {
        (void)schedule_times(request, utc(2026, 1, 1));
    } catch (const Error& error) {
        return error.code();
    }
    return ErrorCode::unknown;
}

ScheduleRequest request(std::optional<std::string> at, std::optional<std::string> every = {},
                        std::optional<std::string> fields = {}, std::string zone = "UTC") {
    ScheduleRequest made;
    made.at = std::move(at);
    made.every = std::move(every);
    made.cron = std::move(fields);
    made.zone = std::move(zone);
    return made;
}

TEST(ScheduleTimes, CronOnWeekdays_SkipsTheWeekend) {
    EXPECT_EQ(firings(cron("0 9 * * 1-5"), utc(2026, 1, 2, 9), 2),
              (Texts{"2026-01-05 09:00", "2026-01-06 09:00"}));
    EXPECT_EQ(firings(cron("0 9 * * mon-FRI"), utc(2026, 1, 2, 9), 1), (Texts{"2026-01-05 09:00"}));
    EXPECT_EQ(firings(cron("30 8 * * 7"), utc(2026, 1, 1), 1), (Texts{"2026-01-04 08:30"}));
}

TEST(ScheduleTimes, CronWithSteps_FiresInEachRange) {
    EXPECT_EQ(
        firings(cron("*/20 9-10 * * *"), utc(2026, 1, 1, 9, 20), 4),
        (Texts{"2026-01-01 09:40", "2026-01-01 10:00", "2026-01-01 10:20", "2026-01-01 10:40"}));
    EXPECT_EQ(firings(cron("5,50/5 0 1 jan *"), utc(2026, 1, 1), 3),
              (Texts{"2026-01-01 00:05", "2026-01-01 00:50", "2026-01-01 00:55"}));
    EXPECT_EQ(firings(cron("@monthly"), utc(2026, 1, 1), 1), (Texts{"2026-02-01 00:00"}));
}

TEST(ScheduleTimes, CronWithBothDays_FiresOnEither) {
    EXPECT_EQ(firings(cron("0 0 13 * 5"), utc(2026, 2, 1), 3),
              (Texts{"2026-02-06 00:00", "2026-02-13 00:00", "2026-02-20 00:00"}));
    // A star with a step restricts nothing here, as in cron: both must fit.
    EXPECT_EQ(firings(cron("0 0 */2 * 1"), utc(2026, 2, 1), 2),
              (Texts{"2026-02-09 00:00", "2026-02-23 00:00"}));
}

TEST(ScheduleTimes, IncompleteField_IsNamedWhole) {
    for (const char* const field : {"-1", "1-", "*/", "1,,2", "1,"}) {
        try {
            (void)firings(cron(std::string(field) + " 9 * * *"), 0, 1);
            ADD_FAILURE() << field;
        } catch (const cubepi::Error& error) {
            const std::string text = error.what();
            EXPECT_EQ(text.find("'" + std::string(field) + "' is not a minute from"), 0U) << text;
        }
    }
}

TEST(ScheduleTimes, LeapDayAndEndOfMonth_AreFound) {
    EXPECT_EQ(firings(cron("0 12 29 2 *"), utc(2026, 1, 1), 2),
              (Texts{"2028-02-29 12:00", "2032-02-29 12:00"}));
    // 2100 is not a leap year.
    EXPECT_EQ(firings(cron("0 12 29 2 *"), utc(2096, 3, 1), 1), (Texts{"2104-02-29 12:00"}));
    EXPECT_EQ(firings(cron("0 0 31 * *"), utc(2026, 1, 31), 3),
              (Texts{"2026-03-31 00:00", "2026-05-31 00:00", "2026-07-31 00:00"}));
}

TEST(ScheduleTimes, SkippedLocalTime_FiresAtTheChange) {
    // 29 March 2026 in Berlin: 02:00 becomes 03:00, at 01:00 UTC.
    const ScheduleTimes times = cron("30 2 * * *", "Europe/Berlin");
    const std::int64_t change = utc(2026, 3, 29, 1);
    EXPECT_EQ(next_firing(times, change - hour_seconds), change);
    EXPECT_EQ(next_firing(times, change), utc(2026, 3, 30, 0, 30));
    // All of the skipped hour are one firing.
    EXPECT_EQ(firings(cron("*/10 * * * *", "Europe/Berlin"), change - 10 * minute_seconds, 2),
              (Texts{"2026-03-29 03:00", "2026-03-29 03:10"}));
}

TEST(ScheduleTimes, RepeatedLocalTime_FiresOnce) {
    // 25 October 2026 in Berlin: 03:00 becomes 02:00, at 01:00 UTC.
    const ScheduleTimes times = cron("30 2 * * *", "Europe/Berlin");
    const std::int64_t first = utc(2026, 10, 25, 0, 30);
    EXPECT_EQ(next_firing(times, first - 1), first);
    EXPECT_EQ(next_firing(times, first), utc(2026, 10, 26, 1, 30));
    EXPECT_EQ(next_firing(times, first + hour_seconds - 1), utc(2026, 10, 26, 1, 30));
}

TEST(ScheduleTimes, SkippedDay_FiresAtTheNextInstant) {
    // Samoa had no 30 December 2011.
    EXPECT_EQ(firings(cron("0 9 30 12 *", "Pacific/Apia"), utc(2011, 12, 1), 2),
              (Texts{"2011-12-31 00:00", "2012-12-30 09:00"}));
}

TEST(ScheduleTimes, Intervals_AreCountedFromTheirStart) {
    const ScheduleTimes times = schedule_times(request({}, "90m"), utc(2026, 1, 1));
    EXPECT_EQ(next_firing(times, utc(2026, 1, 1)), utc(2026, 1, 1, 1, 30));
    EXPECT_EQ(next_firing(times, utc(2026, 1, 1, 1, 30)), utc(2026, 1, 1, 3));
    EXPECT_EQ(next_firing(times, utc(2026, 1, 1, 4)), utc(2026, 1, 1, 4, 30));
    EXPECT_EQ(describe(times), "every 90m");
}

TEST(ScheduleTimes, TimesOfUsers_AreRead) {
    const std::int64_t now = utc(2026, 6, 1, 8);  // 10:00 in Berlin
    const auto read = [now](const std::string& text) {
        return schedule_times(request(text, {}, {}, "Europe/Berlin"), now).start;
    };
    EXPECT_EQ(read("+20m"), now + 20 * minute_seconds);
    EXPECT_EQ(read("11:00"), utc(2026, 6, 1, 9));
    EXPECT_EQ(read("09:00"), utc(2026, 6, 2, 7));
    EXPECT_EQ(read("2026-12-24 18:30"), utc(2026, 12, 24, 17, 30));
    EXPECT_EQ(read("2026-12-24T18:30:00Z"), utc(2026, 12, 24, 18, 30));
    EXPECT_EQ(read("2026-12-24T18:30-05:00"), utc(2026, 12, 24, 23, 30));
    EXPECT_EQ(read("2026-06-01 09:59:30"), now - 30);
}

TEST(ScheduleTimes, TabsOfCronText_AreBlanksInLists) {
    ScheduleRequest request;
    request.cron = "5\t*\t* * *";
    const ScheduleTimes times = schedule_times(request, utc(2026, 6, 1));
    EXPECT_EQ(describe(times), "cron 5 * * * * (" + times.zone + ")");
}

TEST(ScheduleTimes, InvalidTexts_AreRefused) {
    const std::string huge(100'000, '9');
    for (const std::string& text :
         {std::string(), std::string("tomorrow"), std::string("+0m"), std::string("+m"),
          std::string("+-5m"), "+" + huge + "m", std::string("25:00"),
          std::string("2026-02-30 09:00"), std::string("2026-12-24 18:30+25:00"),
          std::string("2026-12-24 18:30 "), huge, std::string("2025-12-31 09:00"),
          std::string("2099-01-01 09:00"), std::string("2026-12-24\0 18:30", 17)})
        EXPECT_EQ(code_of(request(text)), ErrorCode::invalid_argument) << text.substr(0, 40);
    for (const std::string& text :
         {std::string("1s"), std::string("0m"), std::string("59"), std::string("367d"), huge + "d"})
        EXPECT_EQ(code_of(request({}, text)), ErrorCode::invalid_argument) << text.substr(0, 40);
    EXPECT_EQ(code_of(request("+1m", "1m")), ErrorCode::invalid_argument);
    EXPECT_EQ(code_of(request({})), ErrorCode::invalid_argument);
}

TEST(ScheduleTimes, InvalidCronTexts_AreRefused) {
    for (const std::string& text :
         {std::string(), std::string("* * * *"), std::string("* * * * * *"),
          std::string("60 * * * *"), std::string("* 24 * * *"), std::string("* * 0 * *"),
          std::string("* * * 13 *"), std::string("* * * * 8"), std::string("5-1 * * * *"),
          std::string("*/0 * * * *"), std::string("*/99999999999999999999 * * * *"),
          std::string("-1 * * * *"), std::string("1, * * * *"), std::string("1-2-3 * * * *"),
          std::string("* * * uar *"), std::string("@reboot"), std::string("0 0 30 2 *"),
          std::string(10'000, '*')})
        EXPECT_EQ(code_of(request({}, {}, text)), ErrorCode::invalid_argument)
            << text.substr(0, 40);
}

TEST(ScheduleTimes, InvalidZones_AreRefused) {
    for (const std::string& zone : {std::string("../../etc/passwd"), std::string(".."),
                                    std::string("/etc/localtime"), std::string("Europe/Atlantis"),
                                    std::string("Europe/Berlin\0", 14), std::string(100'000, 'x')})
        EXPECT_EQ(code_of(request({}, {}, "0 9 * * *", zone)), ErrorCode::invalid_argument)
            << zone.substr(0, 40);
}

TEST(ScheduleTimes, ImplausibleInstants_HaveNoFirings) {
    for (const std::int64_t after : {std::int64_t{-1}, INT64_MIN, INT64_MAX, INT64_MAX - 59})
        EXPECT_EQ(next_firing(cron("* * * * *"), after), std::nullopt);
    ScheduleTimes times;
    times.kind = ScheduleKind::every;
    for (const std::int64_t interval : {std::int64_t{0}, std::int64_t{-60}, INT64_MAX}) {
        times.interval = interval;
        EXPECT_EQ(next_firing(times, utc(2026, 1, 1)), std::nullopt);
    }
}

/// Any cron text: a firing is later, no minute between fits, and the fields have the local time of the firing.
TEST(ScheduleTimes, RandomFields_NextFiringIsTheFirst) {
    std::mt19937 random(20'260'101);
    const auto number = [&random](int least, int most) {
        return std::uniform_int_distribution<int>(least, most)(random);
    };
    const auto field = [&number](int least, int most) -> std::string {
        const int first = number(least, most);
        switch (number(0, 4)) {
            case 0: return std::to_string(first);
            case 1: return std::to_string(first) + "-" + std::to_string(number(first, most));
            case 2: return "*/" + std::to_string(number(1, most));
            case 3: return std::to_string(first) + "," + std::to_string(number(least, most));
            default: return "*";
        }
    };
    for (int round = 0; round < 300; ++round) {
        const std::string text = field(0, 59) + " " + field(0, 23) + " " + field(1, 28) + " " +
                                 field(1, 12) + " " + field(0, 7);
        const detail::CronFields fields(text);
        const detail::LocalTime after =
            local_days{year{2026} / 1 / 1} + minutes{number(0, 525'600)};
        const std::optional<detail::LocalTime> next = fields.next(after);
        ASSERT_TRUE(next) << text;
        EXPECT_GT(*next, after) << text;
        // Asking from just before the firing, and from a random instant before it, has the same result.
        EXPECT_EQ(fields.next(*next - seconds{1}), next) << text;
        const auto gap = static_cast<int>(duration_cast<minutes>(*next - after).count());
        EXPECT_EQ(fields.next(after + minutes{number(0, gap - 1)}), next) << text;
    }
}

}  // namespace
}  // namespace bub
