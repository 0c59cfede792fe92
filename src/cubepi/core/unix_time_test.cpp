#include <cubepi/core/unix_time.hpp>

#include <limits>
#include <optional>

#include <gtest/gtest.h>

namespace cubepi {
namespace {

TEST(UnixTime, MayBeAbsentWithinOneWord) {
    static_assert(sizeof(UnixTime) == sizeof(double));
    EXPECT_FALSE(UnixTime());
    EXPECT_FALSE(UnixTime(std::nullopt));
    EXPECT_TRUE(UnixTime(0.0));
    EXPECT_EQ(UnixTime(), UnixTime());
    EXPECT_NE(UnixTime(), UnixTime(0.0));
    EXPECT_EQ(UnixTime().value_or(3), 3);
    EXPECT_EQ(UnixTime(1.5).value_or(3), 1.5);
}

TEST(UnixTime, GoesToAndFromAnOptional) {
    const std::optional<double> none = UnixTime();
    EXPECT_EQ(none, std::nullopt);
    const std::optional<double> some = UnixTime(2.5);
    EXPECT_EQ(some, 2.5);
    EXPECT_EQ(UnixTime(some), UnixTime(2.5));
    UnixTime time = 2.5;
    time.reset();
    EXPECT_FALSE(time);
}

TEST(UnixTime, ATextThatIsNotANumberYieldsNothing) {
    EXPECT_FALSE(UnixTime(std::numeric_limits<double>::quiet_NaN()));
}

}  // namespace
}  // namespace cubepi
