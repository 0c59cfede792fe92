#include <bub/channel/telegram_text.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/net/utf8.hpp>

namespace bub::telegram {
namespace {

std::string bytes_of(const FormattedText& text, std::size_t offset, std::size_t length) {
    std::string out;
    std::size_t unit = 0;
    for (const char byte : text.text) {
        const auto code = static_cast<unsigned char>(byte);
        const bool first = (code & 0xC0) != 0x80;
        if (first) unit += code >= 0xF0 ? 2 : 1;
        if (unit > offset && unit <= offset + length) out += byte;
    }
    return out;
}

std::string described(const FormattedText& text) {
    std::string out;
    for (const Entity& entity : text.entities) {
        out += "[" + entity.type + (entity.language.empty() ? "" : " " + entity.language) +
               (entity.url.empty() ? "" : " " + entity.url) + ":" +
               bytes_of(text, entity.offset, entity.length) + "]";
    }
    return out;
}

/// Checks what the Bot API requires of a text and its entities.
void expect_valid(const FormattedText& text, const std::string& source) {
    ASSERT_TRUE(cubepi::is_utf8(text.text)) << source;
    const std::size_t size = utf16_length(text.text);
    for (const Entity& entity : text.entities) {
        ASSERT_GT(entity.length, 0U) << source;
        ASSERT_LE(entity.offset + entity.length, size) << source;
        const std::string covered = bytes_of(text, entity.offset, entity.length);
        ASSERT_TRUE(cubepi::is_utf8(covered)) << source;
        ASSERT_EQ(covered.find_first_not_of(" \n\t"), 0U) << source;
        ASSERT_EQ(covered.find_last_not_of(" \n\t"), covered.size() - 1) << source;
        for (const Entity& other : text.entities) {
            if (&other == &entity) continue;
            const std::size_t end = entity.offset + entity.length;
            const std::size_t other_end = other.offset + other.length;
            const bool apart = end <= other.offset || other_end <= entity.offset;
            const bool nested = (entity.offset >= other.offset && end <= other_end) ||
                                (other.offset >= entity.offset && other_end <= end);
            ASSERT_TRUE(apart || nested) << source;
            if (entity.type == "pre" || entity.type == "code") {
                const bool inside_quote = entity.type == "code" && other.type == "blockquote";
                ASSERT_TRUE(apart || inside_quote) << source;
            }
        }
    }
}

std::string without_blanks(std::string text) {
    std::erase_if(text, [](char byte) { return byte == ' ' || byte == '\n' || byte == '\t'; });
    return text;
}

void expect_valid_parts(const FormattedText& text, std::size_t limit, const std::string& source) {
    std::string joined;
    for (const FormattedText& part : split_text(text, limit)) {
        ASSERT_LE(utf16_length(part.text), limit) << source;
        expect_valid(part, source);
        joined += part.text;
    }
    ASSERT_EQ(without_blanks(joined), without_blanks(text.text)) << source;
}

TEST(TelegramText, PlainText_IsUnchanged) {
    for (const std::string text :
         {"", "hello", " two * 3 * 4", "snake_case_name", "__init__.py", "*.cpp and *.hpp",
          "a < b > c", "f(x)[0](y)", "tilde ~ and ~/home", "1. one\n2. two", "line\n\n  indented",
          "🎉 naïve 日本"}) {
        const FormattedText formatted = format_markdown(text);
        EXPECT_EQ(formatted.text, text);
        EXPECT_TRUE(formatted.entities.empty()) << text;
    }
}

TEST(TelegramText, MarkdownOfModels_IsFormatted) {
    const auto expect = [](const std::string& markdown, const std::string& text,
                           const std::string& entities) {
        const FormattedText formatted = format_markdown(markdown);
        EXPECT_EQ(formatted.text, text);
        EXPECT_EQ(described(formatted), entities) << markdown;
        expect_valid(formatted, markdown);
    };
    expect("# Title `x` end", "Title x end", "[bold:Title][code:x][bold:end]");
    expect("**a *b* c**", "a b c", "[bold:a b c][italic:b]");
    expect("***both***", "both", "[bold:both][italic:both]");
    expect("__bold__ and __more of it__.", "bold and more of it.", "[bold:bold][bold:more of it]");
    expect("f.__call__ and __init__()", "f.__call__ and __init__()", "");
    expect("~~old~~ _new_", "old new", "[strikethrough:old][italic:new]");
    expect("🎉 **é🎉** x", "🎉 é🎉 x", "[bold:é🎉]");
    expect("`a*b*` ``c`d``", "a*b* c`d", "[code:a*b*][code:c`d]");
    expect("```cpp\nint x;\n```\nafter", "int x;\nafter", "[pre cpp:int x;]");
    expect("```\nunclosed", "unclosed", "[pre:unclosed]");
    expect("[the **site**](https://e.org/a_(b))", "the site",
           "[text_link https://e.org/a_(b):the site][bold:site]");
    expect("[file](src/a.cpp)", "[file](src/a.cpp)", "");
    expect("- one\n  * two", "• one\n  • two", "");
    expect("> a\n> **b**\nc", "a\nb\nc", "[blockquote:a\nb][bold:b]");
    expect("\\*not\\*", "*not*", "");
    expect("| a | b |\n|---|:-:|\n| cc | `d` |\nend", "a  | b\ncc | d\nend",
           "[pre:a  | b\ncc | d]");
}

TEST(TelegramText, CharactersThatTelegramRemoves_AreRemoved) {
    const FormattedText formatted = format_markdown("a\r\n**b\x01** \xFF");
    EXPECT_EQ(formatted.text, "a\nb \xEF\xBF\xBD");
    EXPECT_EQ(formatted.entities.at(0).offset, 2U);
}

TEST(TelegramText, Splitting_KeepsParagraphsAndEntitiesWhole) {
    const auto parts = split_text(format_markdown("one two\n\nthree **four five**"), 14);
    ASSERT_EQ(parts.size(), 3U);
    EXPECT_EQ(parts[0].text, "one two");
    EXPECT_EQ(parts[1].text, "three");
    EXPECT_EQ(described(parts[2]), "[bold:four five]");
}

TEST(TelegramText, LongCodeBlock_ContinuesInTheNextPart) {
    const auto parts = split_text(format_markdown("```py\nif x:\n    go()\n    stop()\n```"), 16);
    ASSERT_EQ(parts.size(), 2U);
    EXPECT_EQ(described(parts[0]), "[pre py:if x:\n    go()]");
    EXPECT_EQ(parts[1].text, "    stop()");
    EXPECT_EQ(described(parts[1]), "[pre py:stop()]");
}

TEST(TelegramText, Splitting_NeverCutsACharacter) {
    const std::string family = "👨‍👩‍👧";  // one grapheme of 8 units
    for (const FormattedText& part : split_text(format_markdown(family + family + family), 17))
        EXPECT_EQ(part.text.size() % family.size(), 0U);
    EXPECT_EQ(split_text(format_markdown("🇩🇪🇫🇷🇮🇹"), 6).at(0).text, "🇩🇪");
    expect_valid_parts(format_markdown("🎉🎉🎉"), 3, "surrogates");
    EXPECT_THROW(split_text(format_markdown("abc"), 1), cubepi::Error);
}

TEST(TelegramText, EveryPrefix_IsValid) {
    const std::string source =
        "# H **b** `c`\n\n> q *i* ~~s~~\n> [l **b** `c`](https://e.org)\n```cpp\n  int 🎉;\n```\n"
        "| a | b |\n|--|--|\n| 1 | **2** |\n- x ***y** z* é🎉 \\* <https://e.org>\n---\n**open";
    for (std::size_t size = 0; size <= source.size(); ++size) {
        const FormattedText formatted = format_markdown(source.substr(0, size));
        ASSERT_NO_FATAL_FAILURE(expect_valid(formatted, source.substr(0, size)));
        ASSERT_NO_FATAL_FAILURE(expect_valid_parts(formatted, 13, source.substr(0, size)));
    }
}

TEST(TelegramText, RandomMarkdown_IsValid) {
    const std::vector<std::string> pieces = {
        "*",           "**",       "***",      "_",    "~~",        "`",  "```", "\n",
        "\n\n",        " ",        "a",        "word", "🎉",        "é",  "[",   "](https://e.org)",
        "> ",          "# ",       "- ",       "|",    "|--|--|\n", "\\", "\t",  "\xFF",
        "👩‍💻", "```cpp\n", "\xCC\x81", "!",    "<",         ")"};
    std::mt19937 random(7);
    for (int round = 0; round < 5000; ++round) {
        std::string source;
        const auto count = random() % 60;
        for (std::size_t i = 0; i < count; ++i) source += pieces[random() % pieces.size()];
        const FormattedText formatted = format_markdown(source);
        ASSERT_NO_FATAL_FAILURE(expect_valid(formatted, source));
        ASSERT_NO_FATAL_FAILURE(expect_valid_parts(formatted, 2 + random() % 40, source));
    }
}

TEST(TelegramText, Entities_AreWrittenInBotApiForm) {
    const FormattedText formatted = format_markdown("[x](https://e.org)");
    EXPECT_EQ(boost::json::serialize(to_json(formatted.entities)),
              R"([{"type":"text_link","offset":0,"length":1,"url":"https://e.org"}])");
}

}  // namespace
}  // namespace bub::telegram
