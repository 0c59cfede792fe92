#include "shell_quoting.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cubepi::app {
namespace {

TEST(ShellQuoting, QuotesWhatAShellOrATerminalWouldActOn) {
    EXPECT_EQ(quoted_for_shell("plan-1.2", ShellQuote::backslash), "plan-1.2");
    EXPECT_EQ(quoted_for_shell("$(x) y", ShellQuote::backslash), "\\$\\(x\\)\\ y");
    EXPECT_EQ(quoted_for_shell("~", ShellQuote::backslash), "\\~");
    EXPECT_EQ(quoted_for_shell("it's", ShellQuote::single), "'it'\\''s'");
    EXPECT_EQ(quoted_for_shell("a\"$`\\!", ShellQuote::dual), "\"a\\\"\\$\\`\\\\\"\\!\"\"");
    EXPECT_EQ(quoted_for_shell("a\nb\x1b", ShellQuote::single), "'a'$'\\n''b'$'\\x1b'''");
    EXPECT_EQ(quoted_for_shell("\xff", ShellQuote::backslash), "$'\\xff'");
    EXPECT_EQ(quoted_for_shell("Größe", ShellQuote::backslash), "Größe");
    EXPECT_EQ(quoted_for_shell("\u202E", ShellQuote::backslash), "$'\\xe2\\x80\\xae'");
    EXPECT_EQ(shell_word("plan"), "plan");
    EXPECT_EQ(shell_word("my plan"), "'my plan'");
    EXPECT_EQ(shell_word(""), "''");
}

TEST(ShellQuoting, SplittingUndoesQuoting) {
    for (const std::string text :
         {"a b", "$(x)", "it's", "a\nb", "\x1b[1m", "\xff\xfe", "~#!", "計画"}) {
        for (const ShellQuote style :
             {ShellQuote::backslash, ShellQuote::single, ShellQuote::dual}) {
            const ShellLine line = split_shell_line("x " + quoted_for_shell(text, style) + " ");
            EXPECT_EQ(line.words, (std::vector<std::string>{"x", text}));
        }
    }
}

TEST(ShellQuoting, SplitsALineUpToTheCursor) {
    const ShellLine open = split_shell_line("cubepi run \"a b");
    EXPECT_EQ(open.words, (std::vector<std::string>{"cubepi", "run"}));
    EXPECT_EQ(open.word, "a b");
    EXPECT_EQ(open.raw, "\"a b");
    EXPECT_EQ(open.quote, ShellQuote::dual);
    EXPECT_EQ(split_shell_line("x $'a\\tb").quote, ShellQuote::ansi_c);
    EXPECT_EQ(split_shell_line("x $'a\\tb").word, "a\tb");
    EXPECT_EQ(split_shell_line("x a\\").word, "a");
    const ShellLine redirected = split_shell_line("x a 2> err b < in");
    EXPECT_EQ(redirected.words, (std::vector<std::string>{"x", "a", "b"}));
    EXPECT_TRUE(redirected.redirection);
    EXPECT_EQ(split_shell_line("x $(touch y) ").words,
              (std::vector<std::string>{"x", "$(touch", "y)"}));
}

}  // namespace
}  // namespace cubepi::app
