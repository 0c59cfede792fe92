#include "local_time.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <string>

#include <cubepi/core/error.hpp>

namespace cubepi::app {
namespace {

/// A time zone with daylight saving time, without the zone files of the machine.
class LocalTime : public ::testing::Test {
protected:
    LocalTime() {
        if (const char* zone = std::getenv("TZ")) before_ = zone;
        setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
        tzset();
    }
    ~LocalTime() override {
        if (before_.empty()) {
            unsetenv("TZ");
        } else {
            setenv("TZ", before_.c_str(), 1);
        }
        tzset();
    }

private:
    std::string before_;
};

TEST_F(LocalTime, NamesTheOffset) {
    EXPECT_EQ(local_time("2026-03-01T12:00:05.250000+00:00"), "2026-03-01 13:00:05 +0100");
    EXPECT_EQ(local_time("2026-07-01T12:00:05+00:00"), "2026-07-01 14:00:05 +0200");
    EXPECT_EQ(local_time("2026-07-01T22:30:00-03:00"), "2026-07-02 03:30:00 +0200");
    EXPECT_EQ(local_time(1772366405.9), "2026-03-01 13:00:05 +0100");
    EXPECT_EQ(local_time(0.0), "-");
    EXPECT_EQ(local_time("junk"), "junk");
}

TEST_F(LocalTime, ParsesInputAsLocalTime) {
    EXPECT_EQ(utc_time("--from", "2026-03-01", false), "2026-02-28T23:00:00+00:00");
    EXPECT_EQ(utc_time("--to", "2026-03-01", true), "2026-03-01T22:59:59.999999+00:00");
    EXPECT_EQ(utc_time("--from", "2026-07-01T14:30", false), "2026-07-01T12:30:00+00:00");
    EXPECT_EQ(utc_time("--from", "2026-07-01 14:30", false), "2026-07-01T12:30:00+00:00");
    EXPECT_EQ(utc_time("--from", "2026-07-01T14:30Z", false), "2026-07-01T14:30:00+00:00");
    EXPECT_EQ(utc_time("--from", "2026-07-01T14:30-01:00", false), "2026-07-01T15:30:00+00:00");
    EXPECT_EQ(utc_time("--from", "", false), "");
    // The days on which the timeouts change have 23 and 25 hours.
    EXPECT_EQ(utc_time("--to", "2026-03-29", true), "2026-03-29T21:59:59.999999+00:00");
    EXPECT_EQ(utc_time("--to", "2026-10-25", true), "2026-10-25T22:59:59.999999+00:00");
    try {
        (void)utc_time("--from", "yesterday", false);
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
        EXPECT_TRUE(std::string(error.what()).starts_with("--from: 'yesterday' is not a date"));
    }
}

}  // namespace
}  // namespace cubepi::app
