#include "terminal_text.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <boost/json/parse.hpp>

#include <cubepi/net/utf8.hpp>

#include "terminal_stream.hpp"

namespace cubepi::app {
namespace {

TEST(Printable, Text_IsRetainedWithoutTerminalControls) {
    EXPECT_EQ(printable("plain äöü 漢字 🙂\n\tline"), "plain äöü 漢字 🙂\n\tline");
    EXPECT_EQ(printable("a\x1b[31mred\x1b[0m"), "a[31mred[0m");
    EXPECT_EQ(printable("\x1b]0;title\x07"), "]0;title");
    EXPECT_EQ(printable("over\rwritten\b\x7f"), "over\nwritten");
    EXPECT_EQ(printable("a line\r\nand one\r"), "a line\nand one");
    EXPECT_EQ(printable("rm a\u202Eb"), "rm a\uFFFDb") << "no command may show as another one";
    EXPECT_EQ(printable(std::string_view("nul\0byte", 8)), "nulbyte");
}

TEST(Printable, C1ControlCharacters_AreRemoved) {
    EXPECT_EQ(printable("\xC2\x9B"
                        "31m"),
              "31m");  // CSI in one character
    EXPECT_EQ(printable("\xC2\xA0"
                        "\xC2\xB5"),
              "\xC2\xA0\xC2\xB5");  // a blank and a micro sign are text
}

TEST(Printable, InvalidUtf8_IsMarked) {
    EXPECT_EQ(printable("a\x9b[2J\xc0\x9b\xff\xe2\x80"),
              "a\uFFFD[2J\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD");
    EXPECT_EQ(printable("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD") << "a surrogate";
}

TEST(Printable, InvisibleCharacters_AreRemovedUnlessScriptsNeedThem) {
    EXPECT_EQ(printable("a\u200b\u2060\ufeff\u00adb\U000E0041"), "ab");
    EXPECT_EQ(printable("\U0001F469\u200D\U0001F4BB\u2764\uFE0F"),
              "\U0001F469\u200D\U0001F4BB\u2764\uFE0F");
    EXPECT_EQ(printable("a\u200fb\u061c"), "a\uFFFDb\uFFFD");
}

TEST(SpelledOut, HiddenOrDeceptiveCharacters_AreShown) {
    EXPECT_EQ(visible("a\x1b[2J\n\x7f"), "a^[[2J^J^?");
    EXPECT_EQ(visible("\x9b\u009b"), "<9B><U+009B>");
    for (const char32_t code :
         {U'\u00AD', U'\u034F',     U'\u061C',     U'\u115F',     U'\u1160',     U'\u17B4',
          U'\u17B5', U'\u180B',     U'\u180C',     U'\u180D',     U'\u180E',     U'\u180F',
          U'\u200B', U'\u200C',     U'\u200D',     U'\u200E',     U'\u200F',     U'\u202A',
          U'\u202B', U'\u202C',     U'\u202D',     U'\u202E',     U'\u2060',     U'\u2061',
          U'\u2064', U'\u2066',     U'\u2067',     U'\u2068',     U'\u2069',     U'\u206A',
          U'\u206F', U'\u3164',     U'\uFE00',     U'\uFE0F',     U'\uFEFF',     U'\uFFA0',
          U'\uFFF0', U'\U0001BCA0', U'\U0001D173', U'\U000E0001', U'\U000E0041', U'\U000E01EF',
          U'\u00A0', U'\u2028',     U'\u2800',     U'\u3000'})
        EXPECT_TRUE(is_deceptive(code)) << std::hex << static_cast<unsigned>(code);
    for (const char32_t code : {U'a', U' ', U'\u00E4', U'\u0301', U'\u6F22', U'\U0001F600'})
        EXPECT_FALSE(is_deceptive(code)) << std::hex << static_cast<unsigned>(code);
    EXPECT_EQ(visible("rm a\u202Eb\u00a0\U000E0041"), "rm a<U+202E>b<U+00A0><U+E0041>");
    EXPECT_EQ(visible("plain äöü 漢字 🙂\tx"), "plain äöü 漢字 🙂\tx");
}

TEST(TerminalText, PlainString_IsNotConvertibleToTerminalText) {
    static_assert(!std::is_convertible_v<std::string, TerminalText>);
    static_assert(!std::is_constructible_v<TerminalText, std::string>);
    static_assert(!std::is_constructible_v<TerminalView, std::string>);
    static_assert(!std::is_constructible_v<TerminalView, std::string_view>);
    static_assert(!std::is_constructible_v<TerminalView, const char*>);
    const TerminalText text = "tool " + spelled_out("\x1b[2Jx") + ": " + TerminalText::number(3);
    EXPECT_EQ(text.str(), "tool ^[[2Jx: 3");
}

TEST(SafeJson, SafeJson_IsUtf8AndKeepsTheValue) {
    const Json value = JsonObject{{"k\u202E", "a\u009b\x7f\u200d\U000E0041 ä漢\x1b"}};
    const std::string text = safe_json(value);
    EXPECT_EQ(text, "{\"k\\u202e\":\"a\\u009b\\u007f\\u200d\\udb40\\udc41 ä漢\\u001b\"}");
    EXPECT_EQ(boost::json::parse(text), value);
    EXPECT_TRUE(is_utf8(safe_json(Json("cut \xe2\x82"))));
}

TEST(OneLine, LongOrMultilineText_BecomesOneShortLine) {
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
