#include "markdown.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cubepi::app {
namespace {

Style colored() {
    Style style;
    style.terminal = style.color = true;
    return style;
}

std::string shown(const Style& style, const std::vector<std::string>& pieces) {
    std::string text;
    MarkdownStream stream(style, [&](std::string_view piece) { text += piece; });
    for (const std::string& piece : pieces) stream.add(piece);
    stream.finish();
    return text;
}

/// Without the escape sequences: what a person reads.
std::string read_off(const std::string& text) {
    std::string plain;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '\x1b') {
            plain += text[i];
            continue;
        }
        while (i < text.size() && text[i] != 'm') ++i;
    }
    return plain;
}

constexpr const char* document =
    "# A heading\n\nSome *italic*, **bold** and `code` with snake_case_names.\n"
    "- one\n- two **bold**\n  * nested\n3. third\n\n> quoted `x`\n\n"
    "```cpp\nint a = b * c;  // **not bold**\n```\n"
    "| a | b |\n|---|---|\n| 1 | ü漢 |\nafter the table, 2 * 3 * 4\n[a "
    "link](http://example.org)\nthe end";

TEST(Markdown, ASplitAtAnyByteShowsTheSame) {
    const std::string text = document;
    const std::string whole = shown(colored(), {text});
    for (std::size_t i = 1; i < text.size(); ++i) {
        ASSERT_EQ(shown(colored(), {text.substr(0, i), text.substr(i)}), whole) << "split at " << i;
    }
    std::vector<std::string> bytes;
    for (const char byte : text) bytes.emplace_back(1, byte);
    EXPECT_EQ(shown(colored(), bytes), whole);
}

TEST(Markdown, WithoutColoursTheTextComesThrough) {
    EXPECT_EQ(shown(Style(), {document}), std::string(document) + "\n");
    EXPECT_EQ(shown(Style(), {"# x\n"}), "# x\n");
}

TEST(Markdown, ShowsTheMarksAsStyles) {
    EXPECT_EQ(read_off(shown(colored(), {"# A heading\n"})), "A heading\n");
    EXPECT_EQ(read_off(shown(colored(), {"a *b* **c** `d` e\n"})), "a b c d e\n");
    EXPECT_EQ(read_off(shown(colored(), {"- one\n"})), "• one\n");
    EXPECT_EQ(read_off(shown(colored(), {"> quoted\n"})), "│ quoted\n");
    EXPECT_NE(shown(colored(), {"**b**"}).find("\x1b[1mb"), std::string::npos);
}

TEST(Markdown, LeavesMarksThatAreText) {
    EXPECT_EQ(read_off(shown(colored(), {"snake_case_name 2 * 3 * 4\n"})),
              "snake_case_name 2 * 3 * 4\n");
    EXPECT_EQ(read_off(shown(colored(), {"```\na **b** c\n```\n"})), "```\na **b** c\n```\n");
}

TEST(Markdown, AlignsTables) {
    const std::string table =
        read_off(shown(colored(), {"| a | long |\n|---|---|\n| 漢字 | x |\n"}));
    EXPECT_EQ(table.find("---"), std::string::npos) << table;
    EXPECT_EQ(table.find('|'), std::string::npos) << table;
    EXPECT_NE(table.find("long"), std::string::npos);
}

TEST(Markdown, EndsEveryDocumentWithALineAndItsOwnColours) {
    for (const char* text : {"x", "**never closed", "`never closed", "```\ncode",
                             "| half | a table", "#", "- ", "*"}) {
        const std::string all = shown(colored(), {text});
        ASSERT_FALSE(all.empty()) << text;
        EXPECT_EQ(all.back(), '\n') << text;
        const std::size_t on = all.rfind("\x1b[");
        if (on != std::string::npos) {
            EXPECT_EQ(all.substr(on, 4), "\x1b[0m") << text;
        }
    }
    EXPECT_EQ(shown(colored(), {""}), "");
}

TEST(Markdown, ObeysNoEscapeOfTheModel) {
    const std::string all = shown(colored(), {"a\x1b[2J\x1b]0;x\x07"
                                              "b\n"});
    EXPECT_EQ(all.find("\x1b[2J"), std::string::npos);
    EXPECT_EQ(all.find('\x07'), std::string::npos);
}

}  // namespace
}  // namespace cubepi::app
