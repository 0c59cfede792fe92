#include "live_area.hpp"

#include <gtest/gtest.h>

#include <clocale>
#include <string>

#include "text_width.hpp"

namespace cubepi::app {
namespace {

class TextWidth : public ::testing::Test {
protected:
    TextWidth() { std::setlocale(LC_CTYPE, "C.UTF-8"); }
};

TEST_F(TextWidth, CountsColumnsAndNotBytesOrEscapes) {
    EXPECT_EQ(display_width("abc"), 3u);
    EXPECT_EQ(display_width("\x1b[1mö\x1b[0m漢"), 3u);
    EXPECT_EQ(display_width("a\tb"), 9u);
    EXPECT_EQ(display_width("e\u0301"), 1u);
    EXPECT_EQ(cut_to_width("\x1b[1mabcdef\x1b[0m", 3), "\x1b[1mabc\x1b[0m");
    EXPECT_EQ(cut_to_width("a漢", 2), "a");
}

TEST_F(TextWidth, WrapsAsATerminalDoes) {
    const Extent full = extent_of("abcd", 4);
    EXPECT_EQ(full.row, 0u);
    EXPECT_EQ(full.column, 4u);
    EXPECT_EQ(extent_of("abcde", 4).row, 1u);
    EXPECT_EQ(extent_of("abc漢", 4).row, 1u) << "a wide character does not fit into one column";
    EXPECT_EQ(row_start("abcdefgh", 4, 1), 4u);
    EXPECT_EQ(row_start("abcd", 4, 1), 4u);
}

TEST_F(TextWidth, KnowsTheStylesInForce) {
    EXPECT_EQ(style_at_end("\x1b[1ma\x1b[2mb"), "\x1b[1m\x1b[2m");
    EXPECT_EQ(style_at_end("\x1b[1ma\x1b[0mb"), "");
    EXPECT_EQ(style_at_end("x", "\x1b[1m"), "\x1b[1m");
}

struct Paper {
    LiveArea area{[this](std::string_view text) { out += text; }, 20, 10};
    std::string out;
    LiveArea::Content prompt() {
        LiveArea::Content content;
        content.lines = {"> x", "status"};
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
    EXPECT_NE(second.find("\x1b[1A\r\x1b[Jtwo\n> x"), std::string::npos) << second;
    EXPECT_FALSE(paper.area.in_line());
}

TEST(LiveArea, StylesGoOnInAnOpenLine) {
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
    EXPECT_EQ(paper.take(), "\x1b[1A\r\x1b[Jtext\n");
}

}  // namespace
}  // namespace cubepi::app
