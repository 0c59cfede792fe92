// Inputs of a chat before the model receives them: files that they name, long pastes.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "../terminal/terminal.hpp"
#include "model_server.hpp"

namespace cubepi::joint_tests {
namespace {

using terminal_tests::Home;
using terminal_tests::Terminal;
using terminal_tests::write_file;

class Input : public ::testing::Test {
protected:
    std::vector<std::string> chat() const {
        return {"chat",       "--no-save",  "--provider", "openai",
                "--base-url", server.url(), "-m",         "local"};
    }
    /// Types `keys` at the empty prompt, and returns the content of the message that the server receives.
    boost::json::value sent(Terminal& terminal, const std::string& keys) {
        EXPECT_TRUE(terminal.answer_on_screen("talks to", keys)) << terminal.shown();
        EXPECT_TRUE(terminal.expect_on_screen("Well read.")) << terminal.screen().text();
        return server.bodies().back().at("messages").as_array().back().at("content");
    }

    Home home;
    ModelServer server{{chat_answer("Well read.")}};
};

TEST_F(Input, NamedFile_IsPartOfTheMessage) {
    write_file(home.work() / "notes.md", "Grease the lamp.\n");
    Terminal terminal(home, chat());
    const boost::json::value content = sent(terminal, "read @notes.md\r");
    EXPECT_NE(std::string(content.as_string()).find("<file-1 name=\"notes.md\">\nGrease the lamp."),
              std::string::npos)
        << content;
    EXPECT_TRUE(terminal.expect_on_screen("> read @notes.md  (notes.md 17 bytes)"))
        << terminal.screen().text();
}

TEST_F(Input, NamedPicture_IsPartOfTheMessage) {
    write_file(home.work() / "a.png", "\x89PNG\r\n\x1a\n" + std::string(100, '\0'));
    Terminal terminal(home, chat());
    const boost::json::value content = sent(terminal, "see @a.png\r");
    EXPECT_NE(boost::json::serialize(content).find("data:image/png;base64,"), std::string::npos)
        << content;
}

TEST_F(Input, PastedName_IsNotAttached) {
    write_file(home.work() / "notes.md", "Grease the lamp.\n");
    Terminal terminal(home, chat());
    const boost::json::value content = sent(terminal, "\x1b[200~read @notes.md\x1b[201~\r");
    EXPECT_EQ(std::string(content.as_string()).find("Grease"), std::string::npos) << content;
}

TEST_F(Input, NamePastedAfterTypedText_IsNotAttached) {
    write_file(home.work() / "notes.md", "Grease the lamp.\n");
    Terminal terminal(home, chat());
    const boost::json::value content =
        sent(terminal, "fix this: \x1b[200~see @notes.md\x1b[201~\r");
    EXPECT_EQ(std::string(content.as_string()).find("Grease"), std::string::npos) << content;
}

TEST_F(Input, PastedCommands_ChangeNothing) {
    Terminal terminal(home, chat());
    ASSERT_TRUE(terminal.answer_on_screen("talks to", "\x1b[200~/later !touch made\x1b[201~\r"))
        << terminal.shown();
    ASSERT_TRUE(terminal.answer("[n]o >", "n")) << terminal.shown();
    ASSERT_TRUE(terminal.expect_on_screen("Not run.")) << terminal.screen().text();
    terminal.type("\x1b[200~/mode all\x1b[201~\r");
    EXPECT_TRUE(terminal.expect_on_screen("pasted text does not change what tools may do"))
        << terminal.screen().text();
    EXPECT_FALSE(std::filesystem::exists(home.work() / "made"));
}

TEST_F(Input, LongPaste_IsFoldedAndSentWhole) {
    std::string text;
    for (int i = 0; i < 40; ++i) text += "line " + std::to_string(i) + "\n";
    Terminal terminal(home, chat());
    ASSERT_TRUE(terminal.answer_on_screen("talks to", "\x1b[200~" + text + "\x1b[201~"))
        << terminal.shown();
    ASSERT_TRUE(terminal.expect_on_screen("> [pasted 40 lines]")) << terminal.screen().text();
    const boost::json::value content = sent(terminal, "\r");
    EXPECT_NE(std::string(content.as_string()).find("line 0\nline 1\n"), std::string::npos);
    EXPECT_NE(std::string(content.as_string()).find("line 39"), std::string::npos);
}

}  // namespace
}  // namespace cubepi::joint_tests
