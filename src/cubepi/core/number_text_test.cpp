#include <cubepi/core/number_text.hpp>

#include <limits>

#include <gtest/gtest.h>

namespace cubepi {
namespace {

TEST(NumberText, HasNoExponentWhereDecimalsAreReadable) {
    EXPECT_EQ(number_text(1.5), "1.5");
    EXPECT_EQ(number_text(0), "0");
    EXPECT_EQ(number_text(120), "120");
    EXPECT_EQ(number_text(100000), "100000");
    EXPECT_EQ(number_text(-0.002), "-0.002");
    EXPECT_EQ(number_text(0.1), "0.1");
    EXPECT_EQ(number_text(123456789.25), "123456789.25");
}

TEST(NumberText, HasAnExponentForExtremeValues) {
    EXPECT_EQ(number_text(1e25), "1e+25");
    EXPECT_EQ(number_text(1e-9), "1e-09");
    EXPECT_EQ(number_text(-std::numeric_limits<double>::max()), "-1.7976931348623157e+308");
    EXPECT_EQ(number_text(std::numeric_limits<double>::denorm_min()), "5e-324");
    EXPECT_EQ(number_text(std::numeric_limits<double>::infinity()), "inf");
}

TEST(NumberText, WritesDurationsInSeconds) {
    EXPECT_EQ(seconds_text(std::chrono::seconds(120)), "120 s");
    EXPECT_EQ(seconds_text(std::chrono::milliseconds(1500)), "1.5 s");
    EXPECT_EQ(seconds_text(std::chrono::nanoseconds(999)), "0 s");
    EXPECT_EQ(seconds_text(std::chrono::microseconds(250)), "0.00025 s");
}

TEST(RoundedSecondsText, HasOneDigitAfterThePoint) {
    EXPECT_EQ(rounded_seconds_text(std::chrono::nanoseconds(0)), "0.0 s");
    EXPECT_EQ(rounded_seconds_text(std::chrono::milliseconds(940)), "0.9 s");
    EXPECT_EQ(rounded_seconds_text(std::chrono::milliseconds(960)), "1.0 s");
    EXPECT_EQ(rounded_seconds_text(std::chrono::seconds(120)), "120.0 s");
}

}  // namespace
}  // namespace cubepi
