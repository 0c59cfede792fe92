#include <cubepi/net/utf8.hpp>

#include <gtest/gtest.h>

#include <string>

namespace cubepi {
namespace {

const std::string text = "a\xC3\xA9-\xE2\x82\xAC-\xF0\x9F\x98\x80.";  // 2, 3 and 4 byte characters
const std::string mark = "\xEF\xBF\xBD";

TEST(Utf8, APrefixNeverCutsACharacter) {
    for (std::size_t size = 0; size <= text.size(); ++size) {
        const std::string_view part = std::string_view(text).substr(0, size);
        const std::size_t whole = complete_utf8_prefix(part);
        EXPECT_TRUE(is_utf8(part.substr(0, whole))) << size;
        EXPECT_LE(part.size() - whole, 3u);
    }
    EXPECT_EQ(complete_utf8_prefix(text), text.size());
}

TEST(Utf8, ABrokenEndIsNotWaitedFor) {
    EXPECT_EQ(complete_utf8_prefix("a\xFF"), 2u);
    EXPECT_EQ(complete_utf8_prefix("a\x80\x80\x80\x80"), 5u);
    EXPECT_EQ(complete_utf8_prefix("a\xE0\x80"), 3u);
}

TEST(Utf8, KnowsWhatIsWellFormed) {
    EXPECT_TRUE(is_utf8(text));
    EXPECT_TRUE(is_utf8(""));
    for (const char* broken : {"\x80", "\xC0\xAF", "\xC3", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                               "\xE2\x82", "abcdefgh\xFF"}) {
        EXPECT_FALSE(is_utf8(broken));
    }
}

TEST(Utf8, ReplacesEachMaximalPart) {
    EXPECT_EQ(replace_broken_utf8(text), text);
    EXPECT_EQ(replace_broken_utf8("a\xF0\x9F\x98z"), "a" + mark + "z");
    EXPECT_EQ(replace_broken_utf8("\xED\xA0\x80"), mark + mark + mark);
    EXPECT_EQ(replace_broken_utf8("a\xE2\x82"), "a" + mark);
}

TEST(Utf8Splitter, ReturnsTheSameTextForEverySplit) {
    const std::string broken = text + "\xFF" + text + "\xE2\x82" + text + "\xF0\x9F";
    const std::string expected = text + mark + text + mark + text + mark;
    for (std::size_t piece = 1; piece <= broken.size(); ++piece) {
        Utf8Splitter splitter;
        std::string out;
        for (std::size_t at = 0; at < broken.size(); at += piece) {
            std::string delta;
            splitter.push(std::string_view(broken).substr(at, piece), delta);
            EXPECT_TRUE(is_utf8(delta));
            out += delta;
        }
        splitter.finish(out);
        EXPECT_EQ(out, expected) << "pieces of " << piece;
    }
}

}  // namespace
}  // namespace cubepi
