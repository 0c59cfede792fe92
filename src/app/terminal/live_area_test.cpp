#include "live_area.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace cubepi::app {
namespace {

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

TEST(LiveArea, NoChange_WritesNothing) {
    Paper paper;
    paper.area.show(paper.prompt());
    paper.area.draw();
    EXPECT_NE(paper.take(), "");
    paper.area.draw();
    EXPECT_EQ(paper.take(), "");
}

TEST(LiveArea, UnfinishedLine_StaysInTheArea) {
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

TEST(LiveArea, OpenLine_ContinuesItsStyles) {
    Paper paper;
    paper.area.show(paper.prompt());
    paper.area.print("\x1b[1mbold\nmore");
    paper.area.draw();
    EXPECT_NE(paper.take().find("\x1b[0m\x1b[1mmore\x1b[0m\n> x"), std::string::npos);
}

TEST(LiveArea, Hiding_KeepsTheText) {
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

LiveArea::Content prompt_of(std::size_t columns) {
    LiveArea::Content content;
    content.lines = {TerminalView("> x"), for_terminal(std::string(columns, '='))};
    content.cursor_column = 3;
    return content;
}

TEST(LiveArea, FullRows_AreWrittenOnce) {
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

TEST(LiveArea, LongAnswer_DoesNotIncreaseTheDrawingCost) {
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

TEST(LiveArea, EndlessLine_IsWrittenInParts) {
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

TEST(LiveArea, ChangedLine_IsWrittenAlone) {
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
