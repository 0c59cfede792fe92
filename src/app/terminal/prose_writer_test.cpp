#include "prose_writer.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "text_layout.hpp"

namespace cubepi::app {
namespace {

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

TEST(ProseWriter, BreaksBetweenWordsInWhateverPiecesTheTextComes) {
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
TEST(ProseWriter, LeavesAWordThatIsLongerThanARowToTheTerminal) {
    const std::string word = "averylongwordthatislongerthanarow";
    const std::string text = "one " + word + " and more\n";
    for (const std::size_t step : {text.size(), std::size_t{1}, std::size_t{2}, std::size_t{5}}) {
        std::string out = written(text, step);
        EXPECT_NE(out.find(word), std::string::npos) << "pieces of " << step;
        for (char& c : out) c = c == '\n' ? ' ' : c;
        EXPECT_EQ(out, "one " + word + " and more ") << "pieces of " << step;
    }
}

TEST(ProseWriter, LeavesCodeToTheTerminal) {
    const std::string text = "make all && make install && make check\n";
    EXPECT_EQ(written(text, 3, Flow::code), text);
}

TEST(ProseWriter, HoldsBackOnlyTheLastWord) {
    ProseWriter writer;
    EXPECT_EQ(writer.add("one tw", Flow::prose, 20).str(), "one");
    EXPECT_EQ(writer.add("o three", Flow::prose, 20).str(), " two");
    EXPECT_EQ(writer.finish().str(), " three");
    EXPECT_EQ(writer.finish().str(), "");
}

TEST(ProseWriter, ContinuesAfterAResize) {
    ProseWriter writer;
    // The narrow terminal has broken what it shows after 12 columns.
    EXPECT_EQ(writer.add("one two three four ", Flow::prose, 40).str(), "one two three four");
    EXPECT_EQ(writer.add("five ", Flow::prose, 12).str(), " five");
    EXPECT_EQ(writer.add("six ", Flow::prose, 12).str(), "\nsix");
}

}  // namespace
}  // namespace cubepi::app
