#include <cubepi/provider/wire/decoding.hpp>

#include <string_view>

#include <gtest/gtest.h>

namespace cubepi::detail {
namespace {

TEST(SplitText, SurrogatePairInTwoStrings_IsJoined) {
    SplitText text;
    EXPECT_EQ(text.unescape(R"("a\ud83d")"), "a");
    EXPECT_TRUE(text.holds_back());
    EXPECT_EQ(text.unescape(R"("\ude00b")"), "😀b");
    EXPECT_FALSE(text.holds_back());
}

TEST(SplitText, IncompleteEscape_CutsNoUtf8) {
    SplitText text;
    EXPECT_EQ(text.unescape("\"\\ud83\xef\xbf\xbd!\""), "ud83\xef\xbf\xbd!");
    EXPECT_EQ(text.unescape("\"\\u00\""), "u00");
}

TEST(SplitText, LoneSurrogates_AreReplaced) {
    SplitText text;
    EXPECT_EQ(text.unescape(R"("\ude00x")"), "\xef\xbf\xbdx");
    EXPECT_EQ(text.unescape(R"("\ud83d")"), "");
    EXPECT_EQ(text.unescape(R"("x\"\\\n\u00e4")"), "\xef\xbf\xbdx\"\\\nä");
    EXPECT_EQ(text.unescape(R"("\ud83d\ud83d")"), "\xef\xbf\xbd");
    EXPECT_EQ(text.give_up(), "\xef\xbf\xbd");
    EXPECT_FALSE(text.holds_back());
}

bool closed_in_one(std::string_view text) {
    JsonExtent extent;
    extent.add(text);
    return extent.is_closed();
}

bool closed_byte_by_byte(std::string_view text) {
    JsonExtent extent;
    for (std::size_t i = 0; i < text.size(); ++i) extent.add(text.substr(i, 1));
    return extent.is_closed();
}

TEST(JsonExtent, FirstValue_EndsTheExtent) {
    for (const std::string_view text :
         {R"({})", R"( {"a": [1, {"b": "}"}]} )", R"([])", R"({"a": "\"}"})", R"({"a": "\\"})"}) {
        EXPECT_TRUE(closed_in_one(text)) << text;
        EXPECT_TRUE(closed_byte_by_byte(text)) << text;
    }
}

TEST(JsonExtent, OpenOrExcessText_IsNotClosed) {
    for (const std::string_view text :
         {"", "  ", "{", R"({"a": "}")", R"({"a": "\"})", "{}{}", "{} x", "1", "x{}"}) {
        EXPECT_FALSE(closed_in_one(text)) << text;
        EXPECT_FALSE(closed_byte_by_byte(text)) << text;
    }
}

}  // namespace
}  // namespace cubepi::detail
