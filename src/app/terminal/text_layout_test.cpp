// Columns and rows of text, whole and while it arrives.

#include "text_layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cubepi::app {
namespace {

TEST(TextWidth, Width_CountsColumnsNotBytesOrEscapes) {
    EXPECT_EQ(display_width("abc"), 3u);
    EXPECT_EQ(display_width("\x1b[1mö\x1b[0m漢"), 3u);
    EXPECT_EQ(display_width("a\tb"), 9u);
    EXPECT_EQ(display_width("e\u0301"), 1u);
    EXPECT_EQ(cut_to_width("\x1b[1mabcdef\x1b[0m", 3), "\x1b[1mabc\x1b[0m");
    EXPECT_EQ(cut_to_width("a漢", 2), "a");
}

TEST(TextWidth, ShortenedPath_HasItsEnd) {
    EXPECT_EQ(shortened_at_front(for_terminal("/work"), 5).str(), "/work");
    EXPECT_EQ(shortened_at_front(for_terminal("/home/漢/app"), 7).str(), "…漢/app");
    EXPECT_EQ(shortened_at_front(for_terminal("/home/漢/app"), 6).str(), "…/app");
}

TEST(TextWidth, Wrapping_MatchesTheTerminal) {
    const Extent full = extent_of("abcd", 4);
    EXPECT_EQ(full.row, 0u);
    EXPECT_EQ(full.column, 4u);
    EXPECT_EQ(extent_of("abcde", 4).row, 1u);
    EXPECT_EQ(extent_of("abc漢", 4).row, 1u) << "a wide character does not fit into one column";
    EXPECT_EQ(row_start("abcdefgh", 4, 1), 4u);
    EXPECT_EQ(row_start("abcd", 4, 1), 4u);
}

TEST(TextWidth, StyleAtEnd_IsTheStyleInForce) {
    EXPECT_EQ(style_at_end("\x1b[1ma\x1b[2mb"), "\x1b[1m\x1b[2m");
    EXPECT_EQ(style_at_end("\x1b[1ma\x1b[0mb"), "");
    EXPECT_EQ(style_at_end("x", "\x1b[1m"), "\x1b[1m");
}

TEST(TextWidth, Width_FollowsUnicodeInAnyLocale) {
    EXPECT_EQ(display_width("漢字"), 4u);
    EXPECT_EQ(display_width("🙂"), 2u);
    EXPECT_EQ(display_width("한국어"), 6u);
    EXPECT_EQ(display_width("ｆｕｌｌ"), 8u);
    EXPECT_EQ(display_width("é\u200B\uFE0F"), 1u);
    EXPECT_EQ(display_width("\xff\x80z"), 3u) << "a terminal shows a sign for each broken byte";
    EXPECT_EQ(display_width("\xe6\xbc"), 2u);
}

TEST(TextWidth, Stepping_MovesByVisibleCharacters) {
    const std::string text = "e\u0301👨\u200D👩x\n\u0301";
    std::vector<std::size_t> forward;
    for (std::size_t at = 0; at < text.size(); at = next_character(text, at)) forward.push_back(at);
    EXPECT_EQ(forward, (std::vector<std::size_t>{0, 3, 14, 15, 16}));
    std::vector<std::size_t> back;
    for (std::size_t at = text.size(); at > 0;) back.push_back(at = previous_character(text, at));
    EXPECT_EQ(back, (std::vector<std::size_t>{16, 15, 14, 3, 0}));
}

TEST(TextWidth, ShortenedLine_EndsWithEllipsis) {
    EXPECT_EQ(shortened("abc", 3), "abc");
    EXPECT_EQ(shortened("abcd", 3), "ab…");
    EXPECT_EQ(shortened("\x1b[1mabcd\x1b[0m", 3), "\x1b[1mab…\x1b[0m");
    EXPECT_EQ(shortened("漢字漢", 5), "漢字…");
    EXPECT_EQ(shortened("漢字漢", 4), "漢…");
}

TEST(TextWidth, Prose_BreaksBetweenWords) {
    EXPECT_EQ(wrapped("one two three", 8), "one two\nthree");
    EXPECT_EQ(wrapped("one  two", 4), "one\ntwo");
    EXPECT_EQ(wrapped("- an item that is long", 12), "- an item\n  that is\n  long");
    EXPECT_EQ(wrapped("10. an item of a list", 14), "10. an item of\n    a list");
    EXPECT_EQ(wrapped("see http://example.org/long now", 12), "see\nhttp://example.org/long\nnow")
        << "an address stays whole";
    EXPECT_EQ(wrapped("漢字漢字、漢字", 8), "漢字漢\n字、漢字") << "a comma begins no row";
    EXPECT_EQ(wrapped("a漢b字c", 3), "a漢\nb字\nc");
    EXPECT_EQ(wrapped("│ a quote of words", 10), "│ a quote\n│ of words");
}

TEST(FramedText, FramedText_LeavesTheLeftEdgeEmpty) {
    const std::string text = "echo a #" + std::string(76, ' ') +
                             "? Run this command (1 line, 2 bytes)\nsecond\ttab\n\u202E\x1b[1;1H";
    const std::string shown = framed(text, 40).str();
    std::size_t rows = 0;
    for (std::size_t at = 0; at < shown.size(); ++rows) {
        const std::size_t end = shown.find('\n', at);
        const std::string row = shown.substr(at, end - at);
        EXPECT_TRUE(row.starts_with("  │ ") || row.starts_with("  ┊ ")) << row;
        EXPECT_LT(display_width(row), 40u) << row;
        at = end + 1;
    }
    EXPECT_GE(rows, 5u);
    EXPECT_NE(shown.find("<U+202E>^[[1;1H"), std::string::npos) << shown;
}

/// `text` written in pieces of `step` characters to a terminal of 20 columns.
std::string written(std::string_view text, std::size_t step, Flow flow = Flow::prose) {
    ProseWriter writer;
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
        std::size_t end = at;
        for (std::size_t i = 0; i < step && end < text.size(); ++i) end = next_character(text, end);
        out += writer.add(TerminalText::assembled(std::string(text.substr(at, end - at))), flow, 20)
                   .str();
        at = end;
    }
    return out + writer.finish().str();
}

TEST(ProseWriter, TextInAnyPieces_BreaksBetweenWords) {
    const std::string text =
        "one two three four five six\n- an item with more words than a row "
        "has\n漢字漢字漢字漢字漢字漢字。\n\x1b[1mbold words that run on here\x1b[0m "
        "end\n";
    const std::string expected =
        "one two three four\nfive six\n- an item with more\n  words than a row\n  has\n"
        "漢字漢字漢字漢字漢\n字漢字。\n"
        "\x1b[1mbold words that run\x1b[0m\n\x1b[1mon here\x1b[0m end\n";
    for (const std::size_t step : {text.size(), std::size_t{1}, std::size_t{2}, std::size_t{5}})
        EXPECT_EQ(written(text, step), expected) << "pieces of " << step;
}

// How much of its last row the word leaves to the words after it depends on the pieces.
TEST(ProseWriter, WordLongerThanRow_IsLeftToTerminal) {
    const std::string word = "averylongwordthatislongerthanarow";
    const std::string text = "one " + word + " and more\n";
    for (const std::size_t step : {text.size(), std::size_t{1}, std::size_t{2}, std::size_t{5}}) {
        std::string out = written(text, step);
        EXPECT_NE(out.find(word), std::string::npos) << "pieces of " << step;
        for (char& c : out) c = c == '\n' ? ' ' : c;
        EXPECT_EQ(out, "one " + word + " and more ") << "pieces of " << step;
    }
}

TEST(ProseWriter, Code_IsLeftToTheTerminal) {
    const std::string text = "make all && make install && make check\n";
    EXPECT_EQ(written(text, 3, Flow::code), text);
}

TEST(ProseWriter, Write_HoldsBackOnlyTheLastWord) {
    ProseWriter writer;
    EXPECT_EQ(writer.add("one tw", Flow::prose, 20).str(), "one");
    EXPECT_EQ(writer.add("o three", Flow::prose, 20).str(), " two");
    EXPECT_EQ(writer.finish().str(), " three");
    EXPECT_EQ(writer.finish().str(), "");
}

TEST(ProseWriter, Resize_ContinuesTheText) {
    ProseWriter writer;
    // The narrow terminal has broken what it shows after 12 columns.
    EXPECT_EQ(writer.add("one two three four ", Flow::prose, 40).str(), "one two three four");
    EXPECT_EQ(writer.add("five ", Flow::prose, 12).str(), " five");
    EXPECT_EQ(writer.add("six ", Flow::prose, 12).str(), "\nsix");
}

}  // namespace
}  // namespace cubepi::app
