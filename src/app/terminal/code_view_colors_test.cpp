#include "code_view.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "markdown.hpp"

namespace cubepi::app {
namespace {

Style colored() {
    Style style;
    style.terminal = style.color = true;
    return style;
}

/// The text with escape sequences as "<34>".
std::string readable(std::string_view text) {
    std::string shown;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '\x1b') {
            shown += text[i];
            continue;
        }
        const std::size_t end = text.find('m', i);
        shown += "<" + std::string(text.substr(i + 2, end - i - 2)) + ">";
        i = end;
    }
    return shown;
}

std::string markdown(const Style& style, const std::vector<std::string>& pieces) {
    std::string text;
    MarkdownStream stream(style, [&](TerminalView piece, Flow) { text += piece.str(); });
    for (const std::string& piece : pieces) stream.add(piece);
    stream.finish();
    return readable(text);
}

TEST(CodeText, Pieces_ContinueTheStyleOfTheLine) {
    const TerminalText code = for_terminal("int a;");
    const std::vector<CodeSpan> spans = {{0, 3, CodeRole::type}, {4, 99, CodeRole::comment}};
    EXPECT_EQ(readable(code_text(code, spans, colored()).str()), "<36>int<0> <2>a;<0>");
    EXPECT_EQ(readable(code_text(code, spans, colored(), colored().green()).str()),
              "<32><36>int<0><32> <2>a;<0>");
    EXPECT_EQ(readable(code_text(code, {}, colored(), colored().green()).str()), "<32>int a;<0>");
    EXPECT_EQ(code_text(code, spans, Style()).str(), "int a;");
}

TEST(CodeText, LightTerminal_HasOtherColors) {
    Style::set_light(true);
    const std::vector<CodeSpan> spans = {{0, 1, CodeRole::string}, {1, 2, CodeRole::function}};
    const std::string text = readable(code_text(for_terminal("ab"), spans, colored()).str());
    Style::set_light(false);
    EXPECT_EQ(text, "<34>a<0><1>b<0>");
}

TEST(CodeText, BlockOfCode_IsColored) {
    const std::string block = "```c\nint a; // b\n/* c\nd */\n```\nint a\n";
    const std::string shown =
        "<2>```c<0>\n<36>int<0> a; <2>// b<0>\n<2>/* c\n<0><2>d */<0>\n<2>```<0>\nint a\n";
    EXPECT_EQ(markdown(colored(), {block}), shown);
    std::vector<std::string> bytes;
    for (const char byte : block) bytes.emplace_back(1, byte);
    EXPECT_EQ(markdown(colored(), bytes), shown);
}

TEST(CodeText, UnfinishedBlock_IsShown) {
    EXPECT_EQ(markdown(colored(), {"```c\nint a"}), "<2>```c<0>\n<36>int<0> a\n");
    EXPECT_EQ(markdown(colored(), {"```c"}), "<2>```c<0>\n");
    EXPECT_EQ(markdown(colored(), {"```c\n\n  ``"}), "<2>```c<0>\n\n  ``\n");
}

TEST(CodeText, UnknownLanguage_HasOneColor) {
    EXPECT_EQ(markdown(colored(), {"```text\nint a\n```\n"}),
              "<2>```text<0>\n<36>int a<0>\n<2>```<0>\n");
}

TEST(CodeText, WithoutColors_CodeIsUnchanged) {
    Style style;
    style.terminal = true;
    EXPECT_EQ(markdown(style, {"```c\nint a;\n```\n"}), "```c\nint a;\n```\n");
}

TEST(CodeText, LongLine_IsNotHeld) {
    std::string text;
    MarkdownStream stream(colored(), [&](TerminalView piece, Flow) { text += piece.str(); });
    stream.add("```c\n" + std::string(100'000, 'x'));
    EXPECT_GT(text.size(), 90'000u);
    stream.add("\nint a;\n```\n");
    EXPECT_TRUE(readable(text).ends_with("x<0>\n<36>int a;<0>\n<2>```<0>\n"));
}

TEST(CodeText, Diff_ColorsBothSides) {
    const DiffSource source{"@@ -1,3 +1,3 @@\n int a;\n-int b; /* x\n+int c; /* y\n  z */\n",
                            "a.c"};
    EXPECT_EQ(readable(diff_view(source, colored(), 0).text.str()),
              "  <2>@@ -1,3 +1,3 @@<0>\n"
              "  <2>    1<0>  <36>int<0> a;\n"
              "  <2>    2<0> <31>-<36>int<0><31> b; <2>/* x<0>\n"
              "  <2>    2<0> <32>+<36>int<0><32> c; <2>/* y<0>\n"
              "  <2>    3<0>  <2> z */<0>\n");
    Style many = colored();
    many.many_colors = true;
    EXPECT_NE(
        readable(diff_view(source, many, 0).text.str()).find("<48;5;22>+<36>int<0><48;5;22> c; "),
        std::string::npos);
}

TEST(CodeText, DiffWithHiddenCharacters_StaysReadable) {
    const DiffSource source{"@@ -1,1 +1,3 @@\n+int a;\r\n+int\x1b b;\n+int c;\n", "a.c"};
    EXPECT_EQ(readable(diff_view(source, colored(), 0).text.str()),
              "  <2>@@ -1,1 +1,3 @@<0>\n"
              "  <2>    1<0> <32>+<36>int<0><32> a;^M<0>\n"
              "  <2>    2<0> <32>+int^[ b;<0>\n"
              "  <2>    3<0> <32>+<36>int<0><32> c;<0>\n");
}

TEST(CodeText, DiffOfScript_ReadsFirstLine) {
    const DiffSource source{"@@ -0,0 +1,2 @@\n+#!/bin/sh\n+if true; then a; fi\n", "tool"};
    EXPECT_NE(readable(diff_view(source, colored(), 0).text.str()).find("<35>if<0>"),
              std::string::npos);
}

}  // namespace
}  // namespace cubepi::app
