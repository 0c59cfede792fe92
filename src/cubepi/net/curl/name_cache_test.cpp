#include <cubepi/net/curl/name_cache.hpp>

#include <cubepi/core/error.hpp>
#include <cubepi/testing/manual_clock.hpp>

#include <gtest/gtest.h>

namespace cubepi::detail {
namespace {

using namespace std::chrono_literals;
using Addresses = std::vector<std::string>;

struct NameCacheTest : ::testing::Test {
    std::shared_ptr<cubepi::testing::ManualClock> clock =
        std::make_shared<cubepi::testing::ManualClock>();
    int lookups = 0;
    Addresses answer = {"1.1.1.1", "2.2.2.2"};
    NameCache cache{clock, [this](const std::string&) {
                        ++lookups;
                        if (answer.empty()) throw Error(ErrorCode::dns, "no such name");
                        return answer;
                    }};
};

TEST_F(NameCacheTest, RemembersForSeconds) {
    EXPECT_TRUE(cache.find("a").addresses.empty());
    EXPECT_EQ(cache.resolve("a"), answer);
    clock->advance(9s);
    EXPECT_EQ(cache.find("a").addresses, answer);
    EXPECT_FALSE(cache.find("a").refresh);
    EXPECT_EQ(cache.resolve("a"), answer);
    EXPECT_EQ(lookups, 1);
}

TEST_F(NameCacheTest, ReturnsAnOldAnswerAndRequestsANewOneOnce) {
    cache.resolve("a");
    clock->advance(11s);
    EXPECT_TRUE(cache.find("a").refresh);
    EXPECT_FALSE(cache.find("a").refresh);
    EXPECT_EQ(cache.find("a").addresses, answer);
    answer = {"3.3.3.3"};
    cache.resolve("a");
    EXPECT_EQ(cache.find("a").addresses, Addresses{"3.3.3.3"});
}

TEST_F(NameCacheTest, ForgetsWhatIsVeryOld) {
    cache.resolve("a");
    clock->advance(301s);
    EXPECT_TRUE(cache.find("a").addresses.empty());
}

TEST_F(NameCacheTest, AfterAFailedConnectionBeginsWithAnotherAddress) {
    cache.resolve("a");
    cache.failed("a");
    EXPECT_TRUE(cache.find("a").addresses.empty());
    EXPECT_EQ(cache.resolve("a"), (Addresses{"2.2.2.2", "1.1.1.1"}));
    EXPECT_EQ(lookups, 2);
}

TEST_F(NameCacheTest, AFailedRefreshIsTriedAgain) {
    cache.resolve("a");
    clock->advance(11s);
    EXPECT_TRUE(cache.find("a").refresh);
    answer.clear();
    EXPECT_THROW(cache.resolve("a"), Error);
    EXPECT_TRUE(cache.find("a").refresh);
}

}  // namespace
}  // namespace cubepi::detail
