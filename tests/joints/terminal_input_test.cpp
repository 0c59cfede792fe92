// Bytes of a terminal that are not keys, or that do not end (D95).

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <bub/tape/prompt_context.hpp>

#include "../terminal/terminal.hpp"
#include "model_server.hpp"

namespace cubepi::joint_tests {
namespace {

using terminal_tests::Home;
using terminal_tests::Terminal;
using terminal_tests::write_file;

const std::string paste_begin = "\x1b[200~";
const std::string ctrl_c = "\x03";
const std::string ctrl_d = "\x04";
/// Moves the cursor to the end of the line, where it is.
const std::string ctrl_e = "\x05";

class TerminalInput : public ::testing::Test {
protected:
    std::vector<std::string> chat() const {
        return {"chat",       "--no-save",  "--provider", "openai",
                "--base-url", server.url(), "-m",         "local"};
    }
    /// Types `keys` at the empty prompt. Returns the prompt that the server receives.
    std::string prompt_of(const std::string& keys) {
        Terminal terminal(home, chat());
        EXPECT_TRUE(terminal.answer_on_screen("talks to", keys)) << terminal.shown();
        return end(terminal);
    }
    std::string end(Terminal& terminal) const {
        EXPECT_TRUE(terminal.expect_on_screen("Well read.")) << terminal.shown();
        EXPECT_TRUE(terminal.expect_gone("Esc stops ·")) << terminal.shown();
        terminal.type(ctrl_d);
        EXPECT_EQ(terminal.wait(), 0) << terminal.shown();
        const boost::json::value body = server.bodies().back();
        const auto content =
            boost::json::value_to<std::string>(body.at("messages").as_array().back().at("content"));
        return std::string(bub::without_context(content));
    }

    Home home;
    ModelServer server{{chat_answer("Well read.")}};
};

TEST_F(TerminalInput, D95_PasteWithoutEnd_EndsAfterASilence) {
    Terminal terminal(home, chat());
    ASSERT_TRUE(terminal.answer_on_screen("talks to", paste_begin + "abc")) << terminal.shown();
    ASSERT_TRUE(terminal.expect_on_screen("> abc")) << terminal.shown();
    terminal.type(ctrl_c);
    ASSERT_TRUE(terminal.expect_gone("> abc")) << terminal.shown();
    terminal.type("hello\r");
    EXPECT_EQ(end(terminal), "hello");
}

TEST_F(TerminalInput, D95_PasteWithCutEnd_OmitsTheMark) {
    Terminal terminal(home, chat());
    ASSERT_TRUE(terminal.answer_on_screen("talks to", paste_begin + "abc\x1b[20"))
        << terminal.shown();
    ASSERT_TRUE(terminal.expect_on_screen("> abc")) << terminal.shown();
    terminal.type("d\r");
    EXPECT_EQ(end(terminal), "abcd");
}

TEST_F(TerminalInput, D95_PasteWithoutEnd_LeavesQuestionUsable) {
    ModelServer asks({chat_answer("", {{"write", R"({"path":"new.txt","content":"x"})"}}),
                      chat_answer("Well read.")});
    Terminal terminal(home, {"chat", "--no-save", "--provider", "openai", "--base-url", asks.url(),
                             "-m", "local"});
    ASSERT_TRUE(terminal.answer_on_screen("talks to", "write it\r")) << terminal.shown();
    ASSERT_TRUE(terminal.answer("[e]dit", paste_begin + "mnop")) << terminal.shown();
    ASSERT_TRUE(terminal.expect_on_screen("(for the prompt: mnop)")) << terminal.shown();
    terminal.type(ctrl_c);
    ASSERT_TRUE(terminal.expect_on_screen("stopped")) << terminal.shown();
    ASSERT_TRUE(terminal.expect_on_screen("> mnop")) << terminal.shown();
    terminal.type(ctrl_c);
    ASSERT_TRUE(terminal.expect_gone("> mnop")) << terminal.shown();
    terminal.type(ctrl_d);
    EXPECT_EQ(terminal.wait(), 0) << terminal.shown();
}

TEST_F(TerminalInput, D95_Reports_AreNotText) {
    const std::string reports =
        "\x1b]11;rgb:1e1e/1e1e/1e1e\x1b\\"
        "\x1b]4;1;rgb:1e1e/1e1e/1e1e\x07"
        "\x1bP>|XTerm(390)\x1b\\"
        "\x1b_Gi=31;OK\x1b\\"
        "\x1b^private\x1b\\"
        "\x1bXstart\x1b\\"
        "\x1b[?64;1;2;6;9;15;16;17;18;21;22;28;29;42;52;61;62;63;64;65;66;67;68;69;70;71c"
        "\x1b[?2026;2$y"
        "\x1b[M !!"
        "\x1b[M#\xc3\x7f"
        "\x1b[<0;10;20M"
        "\x1b[[A";
    EXPECT_EQ(prompt_of("one" + reports + "two\r"), "onetwo");
}

TEST_F(TerminalInput, D95_CutReports_EndAtTheNextControlCharacter) {
    std::string keys = "one";
    for (const std::string cut : {"\x1b]11;rgb:1e1e", "\x1bP>|XTerm", "\x1b_G", "\x1b^a", "\x1bXb",
                                  "\x1b[?64;1", "\x1b[M !", "\x1b[M", "\x1bO", "\x1b[["})
        keys += cut + ctrl_e;
    EXPECT_EQ(prompt_of(keys + "two\r"), "onetwo");
}

TEST_F(TerminalInput, D95_EndlessString_IsDiscarded) {
    EXPECT_EQ(prompt_of("one\x1b]52;c;" + std::string(200'000, 'A') +
                        "\x07"
                        "two\r"),
              "onetwo");
}

TEST_F(TerminalInput, EscapeTimeout_IsThatOfTheConfiguration) {
    write_file(home.config(), "escape_timeout: 600\n");
    Terminal terminal(home, chat());
    ASSERT_TRUE(terminal.answer_on_screen("talks to", "hel\x1b")) << terminal.shown();
    ASSERT_TRUE(terminal.expect_on_screen("> hel")) << terminal.shown();
    terminal.type("[D");
    terminal.type("X\r");
    EXPECT_EQ(end(terminal), "heXl");
}

}  // namespace
}  // namespace cubepi::joint_tests
