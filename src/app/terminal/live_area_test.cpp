#include "live_area.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "text_layout.hpp"

namespace cubepi::app {
namespace {

TEST(TextWidth, CountsColumnsAndNotBytesOrEscapes) {
    EXPECT_EQ(display_width("abc"), 3u);
    EXPECT_EQ(display_width("\x1b[1mö\x1b[0m漢"), 3u);
    EXPECT_EQ(display_width("a\tb"), 9u);
    EXPECT_EQ(display_width("e\u0301"), 1u);
    EXPECT_EQ(cut_to_width("\x1b[1mabcdef\x1b[0m", 3), "\x1b[1mabc\x1b[0m");
    EXPECT_EQ(cut_to_width("a漢", 2), "a");
}

TEST(TextWidth, WrapsAsATerminalDoes) {
    const Extent full = extent_of("abcd", 4);
    EXPECT_EQ(full.row, 0u);
    EXPECT_EQ(full.column, 4u);
    EXPECT_EQ(extent_of("abcde", 4).row, 1u);
    EXPECT_EQ(extent_of("abc漢", 4).row, 1u) << "a wide character does not fit into one column";
    EXPECT_EQ(row_start("abcdefgh", 4, 1), 4u);
    EXPECT_EQ(row_start("abcd", 4, 1), 4u);
}

TEST(TextWidth, KnowsTheStylesInForce) {
    EXPECT_EQ(style_at_end("\x1b[1ma\x1b[2mb"), "\x1b[1m\x1b[2m");
    EXPECT_EQ(style_at_end("\x1b[1ma\x1b[0mb"), "");
    EXPECT_EQ(style_at_end("x", "\x1b[1m"), "\x1b[1m");
}

struct Paper {
    LiveArea area{[this](TerminalView text) { out += text.str(); }, 20, 10};
    std::string out;
    LiveArea::Content prompt() {
        LiveArea::Content content;
        content.lines = {TerminalView("> x"), TerminalView("status")};
        content.cursor_column = 3;
        return content;
    }
    std::string take() { return std::exchange(out, {}); }
};

TEST(LiveArea, WritesNothingWhenNothingChanged) {
    Paper paper;
    paper.area.show(paper.prompt());
    paper.area.draw();
    EXPECT_NE(paper.take(), "");
    paper.area.draw();
    EXPECT_EQ(paper.take(), "");
}

TEST(LiveArea, ALineInTheMiddleStaysInTheArea) {
    Paper paper;
    paper.area.show(paper.prompt());
    paper.area.print("one\ntw");
    paper.area.draw();
    const std::string first = paper.take();
    EXPECT_NE(first.find("one\ntw\n> x\nstatus"), std::string::npos) << first;
    EXPECT_TRUE(paper.area.in_line());
    paper.area.print("o\n");
    paper.area.draw();
    const std::string second = paper.take();
    EXPECT_NE(second.find("\x1b[1A\r\x1b[K"), std::string::npos) << second;
    EXPECT_NE(second.find("two\n> x"), std::string::npos) << second;
    EXPECT_FALSE(paper.area.in_line());
}

TEST(LiveArea, StylesContinueInAnOpenLine) {
    Paper paper;
    paper.area.show(paper.prompt());
    paper.area.print("\x1b[1mbold\nmore");
    paper.area.draw();
    EXPECT_NE(paper.take().find("\x1b[0m\x1b[1mmore\x1b[0m\n> x"), std::string::npos);
}

TEST(LiveArea, HidingLeavesTheTextAlone) {
    Paper paper;
    paper.area.show(paper.prompt());
    paper.area.print("text");
    paper.area.draw();
    paper.take();
    paper.area.hide();
    const std::string last = paper.take();
    EXPECT_EQ(last.substr(0, 8), "\x1b[1A\r\x1b[K") << last;
    EXPECT_TRUE(last.ends_with("text\n")) << last;
}

TEST(TextWidth, GoesByUnicodeWhateverTheLocaleIs) {
    EXPECT_EQ(display_width("漢字"), 4u);
    EXPECT_EQ(display_width("🙂"), 2u);
    EXPECT_EQ(display_width("한국어"), 6u);
    EXPECT_EQ(display_width("ｆｕｌｌ"), 8u);
    EXPECT_EQ(display_width("é\u200B\uFE0F"), 1u);
    EXPECT_EQ(display_width("\xff\x80z"), 3u) << "a terminal shows a sign for each broken byte";
    EXPECT_EQ(display_width("\xe6\xbc"), 2u);
}

TEST(TextWidth, StepsByVisibleCharacters) {
    const std::string text = "e\u0301👨\u200D👩x\n\u0301";
    std::vector<std::size_t> forward;
    for (std::size_t at = 0; at < text.size(); at = next_character(text, at)) forward.push_back(at);
    EXPECT_EQ(forward, (std::vector<std::size_t>{0, 3, 14, 15, 16}));
    std::vector<std::size_t> back;
    for (std::size_t at = text.size(); at > 0;) back.push_back(at = previous_character(text, at));
    EXPECT_EQ(back, (std::vector<std::size_t>{16, 15, 14, 3, 0}));
}

TEST(TextWidth, AShortenedLineSaysSo) {
    EXPECT_EQ(shortened("abc", 3), "abc");
    EXPECT_EQ(shortened("abcd", 3), "ab…");
    EXPECT_EQ(shortened("\x1b[1mabcd\x1b[0m", 3), "\x1b[1mab…\x1b[0m");
    EXPECT_EQ(shortened("漢字漢", 5), "漢字…");
    EXPECT_EQ(shortened("漢字漢", 4), "漢…");
}

TEST(TextWidth, ProseBreaksBetweenWords) {
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

LiveArea::Content prompt_of(std::size_t columns) {
    LiveArea::Content content;
    content.lines = {TerminalView("> x"), for_terminal(std::string(columns, '='))};
    content.cursor_column = 3;
    return content;
}

TEST(LiveArea, RowsThatAreFullAreWrittenOnce) {
    Paper paper;
    paper.area.show(paper.prompt());
    std::string all;
    for (int i = 0; i < 30; ++i) {
        paper.area.print("word" + TerminalText::number(i) + " ");
        paper.area.draw();
        all += paper.take();
    }
    std::size_t count = 0;
    for (std::size_t at = all.find("word0 "); at != std::string::npos;
         at = all.find("word0 ", at + 1))
        ++count;
    EXPECT_LE(count, 4u) << "only while its row was the last one";
}

TEST(LiveArea, WhatADrawCostsDoesNotGrowWithTheAnswer) {
    Paper paper;
    paper.area.show(paper.prompt());
    std::size_t most = 0;
    for (int i = 0; i < 10'000; ++i) {
        paper.area.print("a line of the answer\n- it");
        paper.area.draw();
        paper.area.print("em\n");
        paper.area.draw();
        most = std::max(most, paper.take().size());
    }
    EXPECT_LT(most, 400u);
}

TEST(LiveArea, ALineWithoutEndIsWrittenInParts) {
    Paper paper;
    paper.area.show(paper.prompt());
    std::string out;
    std::size_t longest = 0;
    paper.area.print(for_terminal(std::string(200'000, 'x')));
    do {
        paper.area.draw();
        const std::string part = paper.take();
        longest = std::max(longest, part.size());
        out += part;
    } while (paper.area.more());
    EXPECT_LT(longest, 40'000u);
    const auto parts = std::count(out.begin(), out.end(), '>');
    EXPECT_GE(std::count(out.begin(), out.end(), 'x') - parts, 200'000);
}

TEST(LiveArea, ALineThatChangesIsWrittenAlone) {
    Paper paper;
    LiveArea::Content content = prompt_of(15);
    content.lines.insert(content.lines.begin(), TerminalView("spinner 1"));
    content.cursor_line = 1;
    paper.area.show(content);
    paper.area.draw();
    paper.take();
    content.lines[0] = TerminalView("spinner 2");
    paper.area.show(content);
    paper.area.draw();
    const std::string out = paper.take();
    EXPECT_NE(out.find("spinner 2"), std::string::npos);
    EXPECT_EQ(out.find('='), std::string::npos) << out;
}

}  // namespace
}  // namespace cubepi::app
