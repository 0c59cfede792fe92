#include "style.hpp"

#include <gtest/gtest.h>

namespace cubepi::app {
namespace {

TEST(Printable, KeepsTextAndTakesWhatATerminalWouldObey) {
    EXPECT_EQ(printable("plain äöü 漢字 🙂\n\tline"), "plain äöü 漢字 🙂\n\tline");
    EXPECT_EQ(printable("a\x1b[31mred\x1b[0m"), "a[31mred[0m");
    EXPECT_EQ(printable("\x1b]0;title\x07"), "]0;title");
    EXPECT_EQ(printable("over\rwritten\b\x7f"), "over\nwritten");
    EXPECT_EQ(printable("a line\r\nand one\r"), "a line\nand one");
    EXPECT_EQ(printable("rm a\u202Eb"), "rm a\uFFFDb") << "no command may show as another one";
    EXPECT_EQ(printable(std::string_view("nul\0byte", 8)), "nulbyte");
}

TEST(Printable, TakesTheSecondSetOfControlCharacters) {
    EXPECT_EQ(printable("\xC2\x9B"
                        "31m"),
              "31m");  // CSI in one character
    EXPECT_EQ(printable("\xC2\xA0"
                        "\xC2\xB5"),
              "\xC2\xA0\xC2\xB5");  // a blank and a micro sign are text
}

TEST(OneLine, IsOneAndIsCut) {
    EXPECT_EQ(one_line("first\nsecond", 80).find('\n'), std::string::npos);
    EXPECT_TRUE(one_line("first\nsecond", 80).starts_with("first"));
    EXPECT_LE(one_line(std::string(500, 'x'), 20).size(), 24u);
    // Never cut inside a character.
    const std::string cut = one_line("ääääääääääääääääääää", 7);
    std::size_t broken = 0;
    for (std::size_t i = 0; i < cut.size(); ++i) {
        const auto byte = static_cast<unsigned char>(cut[i]);
        const std::size_t size = byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
        if (i + size > cut.size()) ++broken;
        i += size - 1;
    }
    EXPECT_EQ(broken, 0u) << cut;
}

}  // namespace
}  // namespace cubepi::app
