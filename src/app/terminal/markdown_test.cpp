#include "markdown.hpp"
#include "text_layout.hpp"

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
    MarkdownStream stream(style, [&](TerminalView piece, Flow) { text += piece.str(); });
    for (const std::string& piece : pieces) stream.add(piece);
    stream.finish();
    return text;
}

/// Removes the escape sequences.
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
    "- [x] ~~a~~ &amp; &b\n- [ ] c\n\n"
    "```cpp\nint a = b * c;  // **not bold**\n```\n"
    "| a | b |\n|---|---|\n| 1 | ü漢 |\nafter the table, 2 * 3 * 4\n[a "
    "link](http://example.org)\nthe end";

TEST(Markdown, SplitAtAnyByte_ShowsTheSame) {
    const std::string text = document;
    const std::string whole = shown(colored(), {text});
    for (std::size_t i = 1; i < text.size(); ++i) {
        ASSERT_EQ(shown(colored(), {text.substr(0, i), text.substr(i)}), whole) << "split at " << i;
    }
    std::vector<std::string> bytes;
    for (const char byte : text) bytes.emplace_back(1, byte);
    EXPECT_EQ(shown(colored(), bytes), whole);
}

TEST(Markdown, NoColours_LeaveTheTextUnchanged) {
    EXPECT_EQ(shown(Style(), {document}), std::string(document) + "\n");
    EXPECT_EQ(shown(Style(), {"# x\n"}), "# x\n");
}

TEST(Markdown, Marks_AreShownAsStyles) {
    EXPECT_EQ(read_off(shown(colored(), {"# A heading\n"})), "A heading\n");
    EXPECT_EQ(read_off(shown(colored(), {"a *b* **c** `d` e\n"})), "a b c d e\n");
    EXPECT_EQ(read_off(shown(colored(), {"- one\n"})), "• one\n");
    EXPECT_EQ(read_off(shown(colored(), {"> quoted\n"})), "│ quoted\n");
    EXPECT_NE(shown(colored(), {"**b**"}).find("\x1b[1mb"), std::string::npos);
}

TEST(Markdown, TaskItems_AreBoxes) {
    EXPECT_EQ(read_off(shown(colored(), {"- [x] done\n- [ ] open\n  * [X] too\n"})),
              "☑ done\n☐ open\n  ☑ too\n");
    EXPECT_EQ(read_off(shown(colored(), {"- [x](u) - [y] z\n- [x]\n- [\n"})),
              "• x (u) - [y] z\n• [x]\n• [\n");
}

TEST(Markdown, StruckText_IsAStyle) {
    EXPECT_EQ(read_off(shown(colored(), {"so ~~gone~~ it\n"})), "so gone it\n");
    EXPECT_NE(shown(colored(), {"~~gone~~"}).find("\x1b[9mgone"), std::string::npos);
    for (const char* text : {"~/x and ~user\n", "a ~ b ~~ c\n", "10~~20\n"})
        EXPECT_EQ(read_off(shown(colored(), {text})), text);
}

TEST(Markdown, Entities_AreTheirCharacters) {
    EXPECT_EQ(read_off(shown(colored(), {"a &amp; b &lt;c&gt; &#39;d&#39;\n"})), "a & b <c> 'd'\n");
    EXPECT_EQ(read_off(shown(colored(), {"&amp;lt; &amp;&amp;\n"})), "&lt; &&\n");
    for (const char* text : {"x && y & z\n", "&unknown; &amp \n", "a&b;\n", "&#27;[31m\n"})
        EXPECT_EQ(read_off(shown(colored(), {text})), text);
    EXPECT_EQ(read_off(shown(colored(), {"`&amp;`\n"})), "&amp;\n");
}

TEST(Markdown, MarksThatAreText_AreRetained) {
    EXPECT_EQ(read_off(shown(colored(), {"snake_case_name 2 * 3 * 4\n"})),
              "snake_case_name 2 * 3 * 4\n");
    EXPECT_EQ(read_off(shown(colored(), {"```\na **b** c\n```\n"})), "```\na **b** c\n```\n");
}

TEST(Markdown, MarksThatOpenNothing_AreRetained) {
    for (const char* text : {"*.cpp and *.hpp\n", "2*3*4 and a * b\n", "/* a comment */\n",
                             "__init__.py is __main__\n", "a_b_c *\n", "[x] and [y]\n",
                             "a [half link](http\n", "2**3\n", "C:\\dir\n"}) {
        EXPECT_EQ(read_off(shown(colored(), {text})), text);
    }
}

TEST(Markdown, Backslashes_EscapeMarks) {
    EXPECT_EQ(read_off(shown(colored(), {"\\*a\\* and \\`b\\` \\[c](d)\n"})),
              "*a* and `b` [c](d)\n");
}

TEST(Markdown, Links_AreShownWithTheirAddress) {
    EXPECT_EQ(read_off(shown(colored(), {"see [the **page**](http://a.org/x \"t\") now\n"})),
              "see the page (http://a.org/x) now\n");
    EXPECT_EQ(read_off(shown(colored(), {"[http://a.org](http://a.org)\n"})), "http://a.org\n");
}

TEST(Markdown, CodeBlock_EndsWithItsOwnFence) {
    const std::string text =
        "````md\n```sh\nls **x**\n```\n````\n**after**\n~~~\n```\n*x*\n~~~\n**end**\n";
    EXPECT_EQ(read_off(shown(colored(), {text})),
              "````md\n```sh\nls **x**\n```\n````\nafter\n~~~\n```\n*x*\n~~~\nend\n");
    EXPECT_EQ(read_off(shown(colored(), {"```three ticks in a line``` **b**\n"})),
              "three ticks in a line b\n");
    EXPECT_EQ(read_off(shown(colored(), {"``a ` b``\n"})), "a ` b\n");
}

TEST(Markdown, CodeAndTables_AreWrappedByTheTerminal) {
    std::string code;
    MarkdownStream stream(colored(), [&](TerminalView text, Flow flow) {
        if (flow == Flow::code) code += text.str();
    });
    stream.add("prose\n```\nint a;\n```\nmore\n| a | b |\n|---|---|\n| c | d |\n");
    stream.finish();
    code = read_off(code);
    EXPECT_NE(code.find("int a;"), std::string::npos);
    EXPECT_NE(code.find("c  d"), std::string::npos);
    EXPECT_EQ(code.find("prose"), std::string::npos);
    EXPECT_EQ(code.find("more"), std::string::npos);
}

TEST(Markdown, Rule_IsShownAsALine) {
    EXPECT_TRUE(read_off(shown(colored(), {"a\n\n---\n"})).ends_with("\n──────────\n") ||
                read_off(shown(colored(), {"---\n"})).starts_with("────"));
    EXPECT_EQ(read_off(shown(colored(), {"- - x\n"})), "• - x\n");
}

Style narrow(int columns) {
    Style style = colored();
    style.columns = columns;
    return style;
}

TEST(Markdown, Tables_AreAlignedByColumns) {
    const std::string table = read_off(shown(
        colored(), {"| a | long | n |\n|---|:-:|--:|\n| 漢字 | x | 1 |\n| **b** | `c` | 22 |\n"}));
    EXPECT_EQ(table,
              "a     long   n\n"
              "──────────────\n"
              "漢字   x     1\n"
              "b      c    22\n");
}

TEST(Markdown, CellsInNarrowColumns_AreWrapped) {
    const std::string table = read_off(
        shown(narrow(31),
              {"| key | what it is |\n|---|---|\n| one | some words that do not fit here |\n"}));
    EXPECT_EQ(table,
              "key  what it is\n"
              "──────────────────────────────\n"
              "one  some words that do not\n"
              "     fit here\n");
}

TEST(Markdown, TooNarrowTable_IsShownAsList) {
    const std::string table =
        read_off(shown(narrow(20), {"| name | meaning | n |\n|---|---|---|\n| first one | a long "
                                    "text here | 12345678901 |\n"}));
    EXPECT_EQ(table,
              "• name: first\n    one\n  meaning: a\n    long text here\n  n:\n    12345678901\n");
}

TEST(Markdown, TableRow_IsNeverWiderThanTheTerminal) {
    const std::string text =
        "| a | b | c |\n|---|---|---|\n| " + std::string(70, 'x') +
        " | 漢字漢字漢字漢字 and `code that is long` | **bold words** of a row |\n";
    for (int columns = 12; columns < 120; ++columns) {
        std::string all = read_off(shown(narrow(columns), {text}));
        while (!all.empty()) {
            const std::size_t end = all.find('\n');
            EXPECT_LT(display_width(all.substr(0, end)), static_cast<std::size_t>(columns));
            all.erase(0, end + 1);
        }
    }
}

TEST(Markdown, LinesResemblingATable_AreRetained) {
    EXPECT_EQ(read_off(shown(colored(), {"|x| is the **size** of x\n|y| too\nend\n"})),
              "|x| is the size of x\n|y| too\nend\n");
    EXPECT_EQ(read_off(shown(colored(), {"| half"})), "| half\n");
}

TEST(Markdown, TerminalWithoutColours_StillGetsTables) {
    Style style;
    style.terminal = true;
    EXPECT_EQ(shown(style, {"# T\n- **x**\n\n| a | b |\n|---|---|\n| cc | d |\n"}),
              "# T\n- **x**\n\na   b\n─────\ncc  d\n");
}

TEST(Markdown, EveryDocument_EndsItsLineAndColours) {
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

TEST(Markdown, EscapesOfTheModel_AreNotObeyed) {
    const std::string all = shown(colored(), {"a\x1b[2J\x1b]0;x\x07"
                                              "b\n"});
    EXPECT_EQ(all.find("\x1b[2J"), std::string::npos);
    EXPECT_EQ(all.find('\x07'), std::string::npos);
}

}  // namespace
}  // namespace cubepi::app
