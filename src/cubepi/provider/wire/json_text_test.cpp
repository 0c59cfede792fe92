#include <cubepi/provider/wire/json_text.hpp>

#include <gtest/gtest.h>

namespace cubepi::detail {
namespace {

TEST(SplitText, JoinsASurrogatePairFromTwoStrings) {
    SplitText text;
    EXPECT_EQ(text.unescape(R"("a\ud83d")"), "a");
    EXPECT_TRUE(text.holds_back());
    EXPECT_EQ(text.unescape(R"("\ude00b")"), "😀b");
    EXPECT_FALSE(text.holds_back());
}

TEST(SplitText, AnEscapeWithoutItsDigitsCutsNoUtf8) {
    SplitText text;
    EXPECT_EQ(text.unescape("\"\\ud83\xef\xbf\xbd!\""), "ud83\xef\xbf\xbd!");
    EXPECT_EQ(text.unescape("\"\\u00\""), "u00");
}

TEST(SplitText, ReplacesHalvesThatStayAlone) {
    SplitText text;
    EXPECT_EQ(text.unescape(R"("\ude00x")"), "\xef\xbf\xbdx");
    EXPECT_EQ(text.unescape(R"("\ud83d")"), "");
    EXPECT_EQ(text.unescape(R"("x\"\\\n\u00e4")"), "\xef\xbf\xbdx\"\\\nä");
    EXPECT_EQ(text.unescape(R"("\ud83d\ud83d")"), "\xef\xbf\xbd");
    EXPECT_EQ(text.give_up(), "\xef\xbf\xbd");
    EXPECT_FALSE(text.holds_back());
}

}  // namespace
}  // namespace cubepi::detail
