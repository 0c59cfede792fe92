#include <cubepi/core/usage.hpp>

#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

namespace cubepi {
namespace {

TEST(Usage, D12_AbsentIsNotZero) {
    const TokenCount none;
    EXPECT_FALSE(none);
    EXPECT_NE(none, TokenCount(0));
    EXPECT_TRUE(TokenCount(0));
    EXPECT_EQ(none.value_or(7), 7);
    EXPECT_EQ(TokenCount(3).value_or(7), 3);
    EXPECT_EQ(TokenCount(-5), none);
    EXPECT_FALSE(TokenCount(-5).has_value());
}

TEST(Usage, ANumberOfTokensGoesUpToATrillion) {
    static_assert(sizeof(TokenCount) == 5 && sizeof(Usage) == 30);
    EXPECT_EQ(*TokenCount(123'456'789'012), 123'456'789'012);
    EXPECT_EQ(*TokenCount(TokenCount::most), TokenCount::most);
    EXPECT_EQ(TokenCount(TokenCount::most + 1), TokenCount(TokenCount::most));
    EXPECT_TRUE(TokenCount(std::numeric_limits<std::int64_t>::max()).has_value());
}

TEST(Usage, D12_SumsHaveWhatAnyoneReported) {
    Usage sum;
    sum += Usage();
    EXPECT_EQ(sum, Usage());
    Usage one;
    one.input_tokens = 10;
    one.output_tokens = 0;
    sum += one;
    Usage two;
    two.input_tokens = 5;
    two.cache_read_tokens = 3;
    sum += two;
    EXPECT_EQ(sum.input_tokens, 15);
    EXPECT_EQ(sum.output_tokens, 0);
    EXPECT_EQ(sum.cache_read_tokens, 3);
    EXPECT_FALSE(sum.cache_write_tokens.has_value());
    EXPECT_FALSE(sum.reasoning_tokens.has_value());
}

}  // namespace
}  // namespace cubepi
