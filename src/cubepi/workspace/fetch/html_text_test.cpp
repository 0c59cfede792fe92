#include <cubepi/workspace/fetch/html_text.hpp>

#include <gtest/gtest.h>

namespace cubepi::detail {
namespace {

std::string text_of(std::string_view html) {
    std::string title;
    return html_to_text(html, title);
}

TEST(HtmlText, KeepsReadableText) {
    std::string title;
    const auto text = html_to_text(
        "<!DOCTYPE html><html><head><title> A &amp; B\n</title><style>p { color: red }</style>"
        "<script>if (a < b) alert('</p>');</script></head><body><h1>Head\n ing</h1><p>First "
        "<b>bold</b>\n   word.</p>"
        "<!-- gone --><ul><li>one<li>two</ul><p>Last&nbsp;line &#8212; caf&eacute; "
        "&lt;tag&gt;</p></body></html>",
        title);
    EXPECT_EQ(title, "A & B");
    EXPECT_EQ(text,
              "# Head ing\n\nFirst bold word.\n\n- one\n- two\n\nLast line \xE2\x80\x94 "
              "caf\xC3\xA9 <tag>");
}

TEST(HtmlText, ShowsLinksTablesAndCode) {
    EXPECT_EQ(text_of("see <a href='https://x.org/a?b&amp;c'>this</a>, <a href=\"#top\">up</a>"),
              "see this (https://x.org/a?b&c), up");
    EXPECT_EQ(text_of("<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>"),
              "a | b |\nc |");
    EXPECT_EQ(text_of("x<pre>\n int a;\n  int b;\n</pre>y"), "x\n\n\n int a;\n  int b;\n\n\ny");
}

TEST(HtmlText, AcceptsMalformedPages) {
    EXPECT_EQ(text_of("a < b <"), "a < b <");
    EXPECT_EQ(text_of("<p"), "");
    EXPECT_EQ(text_of("<p class='"), "");
    EXPECT_EQ(text_of("x<!-- never closed"), "x");
    EXPECT_EQ(text_of("x<script>never closed"), "x");
    EXPECT_EQ(text_of("&bogus; &#xZZ; &#99999999; &"), "&bogus; &#xZZ; \xEF\xBF\xBD &");
    EXPECT_EQ(text_of("</p></div>"), "");
}

}  // namespace
}  // namespace cubepi::detail
