#include <gtest/gtest.h>

#include <bub/close_matches.hpp>

namespace bub {
namespace {

TEST(CloseMatches, MisspeltName_YieldsTheMostSimilarOnes) {
    const std::vector<std::string> names = {"export", "exit", "help", "status"};
    EXPECT_EQ(close_matches("exti", names).front(), "exit");
    EXPECT_EQ(close_matches("HLEP", names), std::vector<std::string>{"help"});
    EXPECT_TRUE(close_matches("xylophone", names).empty());
    EXPECT_TRUE(close_matches("", names).empty());
}

}  // namespace
}  // namespace bub
