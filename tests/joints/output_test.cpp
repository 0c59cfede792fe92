// The output of commands while they run and afterwards, and the pager with the results of a session.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "../terminal/terminal.hpp"
#include "model_server.hpp"
#include "program.hpp"
#include "source_tree.hpp"

namespace cubepi::joint_tests {
namespace {

using terminal_tests::Home;
using terminal_tests::Terminal;
using terminal_tests::write_file;

const std::string ctrl_o = "\x0f";
const std::string right = "\x1b[C";

SentCall to_shell(const std::string& command) {
    return {"shell", boost::json::serialize(boost::json::object{{"command", command}})};
}

class Output : public ::testing::Test {
protected:
    static std::vector<std::string> chat_at(const ModelServer& server) {
        return {"chat",       "--yes",      "--no-save", "--provider", "openai",
                "--base-url", server.url(), "-m",        "local"};
    }
    void release_command() const { write_file(home.work() / "go", ""); }

    Home home;
    const std::string until_go = "; until [ -e go ]; do sleep .1; done";
};

TEST_F(Output, RunningCommand_ShowsItsLastLines) {
    ModelServer server({chat_answer("", {to_shell("seq 1 9; printf 'a\\rb\\n'" + until_go)}),
                        chat_answer("All done.")});
    Terminal chat(home, chat_at(server), 80, 24);
    ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.shown();
    ASSERT_TRUE(chat.expect_on_screen("│ 8\n  │ 9\n  │ b\n")) << chat.screen().text();
    EXPECT_EQ(chat.screen().text().find("│ 6\n"), std::string::npos) << chat.screen().text();
    release_command();
    ASSERT_TRUE(chat.expect_on_screen("All done.")) << chat.screen().text();
    EXPECT_EQ(chat.screen().text().find("│ 9"), std::string::npos) << chat.screen().text();
}

TEST_F(Output, EndedCommand_ShowsItsLastLines) {
    ModelServer server(
        {chat_answer("", {to_shell("seq 101 120; exit 3")}), chat_answer("All done.")});
    Terminal chat(home, chat_at(server), 80, 24);
    ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.shown();
    ASSERT_TRUE(chat.expect_on_screen("All done.")) << chat.screen().text();
    const std::string text = chat.screen().text();
    EXPECT_NE(text.find("✗ exit status 3"), std::string::npos) << text;
    EXPECT_NE(text.find("    … 12 earlier lines (Ctrl-O)\n    113\n"), std::string::npos) << text;
    EXPECT_NE(text.find("    120\n"), std::string::npos) << text;
    EXPECT_EQ(text.find("    112\n"), std::string::npos) << text;
}

TEST_F(Output, Pager_ShowsTheWholeOutput) {
    ModelServer server({chat_answer("", {to_shell("seq 1001 1400")}), chat_answer("All done.")});
    Terminal chat(home, chat_at(server), 80, 24);
    ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.shown();
    ASSERT_TRUE(chat.expect_on_screen("All done.")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_gone("Esc stops ·")) << chat.shown();
    chat.type(ctrl_o);
    ASSERT_TRUE(chat.expect_on_screen("  1001\n")) << chat.screen().text();
    EXPECT_EQ(chat.screen().screen().size(), 24u);
    chat.type("/1390\r");
    ASSERT_TRUE(chat.answer_on_screen("  1390\n", "q")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_gone("q closes")) << chat.screen().text();
    EXPECT_NE(chat.screen().text().find("All done."), std::string::npos) << chat.screen().text();
    chat.type("more\r");
    EXPECT_TRUE(chat.expect_on_screen("> more")) << chat.screen().text();
}

TEST_F(Output, Pager_HasResultsOfResumedSession) {
    ModelServer server({chat_answer("", {to_shell("seq 1001 1400")}), chat_answer("All done."),
                        chat_answer("Hello.")});
    EXPECT_EQ(run_at(home, server, {"--yes", "-s", "s1", "go"}).status, 0);
    Terminal chat(
        home,
        {"chat", "-s", "s1", "--provider", "openai", "--base-url", server.url(), "-m", "local"}, 80,
        24);
    ASSERT_TRUE(chat.answer_on_screen("messages", ctrl_o)) << chat.shown();
    ASSERT_TRUE(chat.answer_on_screen("  1001\n", "q")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_gone("q closes")) << chat.screen().text();
}

TEST_F(Output, Pager_HasThinkingAndItems) {
    const std::string script =
        R"([{"content": [{"type": "thinking", "thinking": "Deep thought."}, {"type": "text", "text": "One."}]}, {"stop_reason": "tool_use", "content": [
        {"type": "tool_call", "id": "c1", "name": "list", "arguments": {}}]}, "Two."])";
    Terminal chat(home, {"chat", "--no-save", "--script", home.script(script)}, 80, 24);
    ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.shown();
    ASSERT_TRUE(chat.answer_on_screen("One.", "go\r")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("Two.")) << chat.screen().text();
    chat.type(ctrl_o);
    ASSERT_TRUE(chat.expect_on_screen("2 of 2")) << chat.screen().text();
    chat.type("\x1b[D");
    ASSERT_TRUE(chat.expect_on_screen("  Deep thought.")) << chat.screen().text();
}

/// A question that comes while the pager is open is not answered by keys of the pager.
TEST_F(Output, QuestionDuringPager_WaitsForItsEnd) {
    ModelServer server({chat_answer("", {{"list", "{}"}}),
                        chat_answer("", {to_shell("true" + until_go)}),
                        chat_answer("", {{"write", R"({"path":"a.txt","content":"x"})"}}),
                        chat_answer("All done.")});
    Terminal chat(
        home,
        {"chat", "--no-save", "--provider", "openai", "--base-url", server.url(), "-m", "local"},
        80, 24);
    ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.shown();
    ASSERT_TRUE(chat.answer("[e]dit >", "y")) << chat.shown();
    ASSERT_TRUE(chat.expect_gone("[e]dit >\n")) << chat.shown();
    chat.type(ctrl_o);
    ASSERT_TRUE(chat.expect_on_screen("q closes")) << chat.screen().text();
    release_command();
    ASSERT_TRUE(chat.expect_on_screen("a question waits")) << chat.screen().text();
    chat.type("y");
    chat.type("q");
    ASSERT_TRUE(chat.expect_on_screen("creates a.txt")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("[a]lways  [e]dit >")) << chat.screen().text();
    EXPECT_FALSE(std::filesystem::exists(home.work() / "a.txt"));
    chat.type("y");
    ASSERT_TRUE(chat.expect_on_screen("All done.")) << chat.screen().text();
    EXPECT_TRUE(std::filesystem::exists(home.work() / "a.txt"));
}

TEST_F(Output, CommandOfTheUser_IsFolded) {
    ModelServer server({chat_answer("Hello.")});
    Terminal chat(home, chat_at(server), 80, 24);
    ASSERT_TRUE(chat.answer_on_screen("talks to", "!seq 10001 10999\r")) << chat.shown();
    ASSERT_TRUE(chat.expect_on_screen("10998\n")) << chat.screen().text();
    EXPECT_NE(chat.screen().text().find("earlier lines (Ctrl-O)"), std::string::npos)
        << chat.screen().text();
    EXPECT_EQ(chat.screen().text().find("10500"), std::string::npos) << chat.screen().text();
    chat.type("!true" + until_go + "\r");
    ASSERT_TRUE(chat.expect_on_screen("running the command")) << chat.screen().text();
    release_command();
    ASSERT_TRUE(chat.expect_gone("Esc stops ·")) << chat.screen().text();
    EXPECT_EQ(server.requests().size(), 0u);
}

/// The pages docs/captures/{approval,command,plan,pager}-COLUMNSxROWS.txt. Written when CUBEPI_WRITE_CAPTURE is set.
TEST_F(Output, Captures_ShowApprovalOutputPlanAndPager) {
    home.set("NO_COLOR", "1");
    home.work_in("home/lighthouse");
    const std::string command = "seq -f 'door %g' 30";
    for (const auto& [columns, rows] : {std::pair(80, 24), std::pair(120, 40), std::pair(40, 12)}) {
        std::filesystem::remove(home.work() / "go");
        ModelServer server({chat_answer("I check the doors.", {to_shell(command + until_go)}),
                            chat_answer("All doors are checked. I would write `plan.md`.")});
        Terminal chat(home,
                      {"chat", "--no-save", "--provider", "openai", "--base-url", server.url(),
                       "-m", "local"},
                      static_cast<unsigned short>(columns), static_cast<unsigned short>(rows));
        const auto capture = [&, size = std::to_string(columns) + "x" +
                                        std::to_string(rows)](const std::string& name) {
            if (!std::getenv("CUBEPI_WRITE_CAPTURE")) return;
            std::string text;
            for (const std::string& row : chat.screen().screen()) text += row + "\n";
            // The port differs from run to run.
            const std::size_t port = text.find(" at 127.0.0.1:");
            if (port != std::string::npos) text.erase(port, text.find('.', port + 14) - port);
            while (text.ends_with("\n\n")) text.pop_back();
            write_file(cubepi::testing::source_path("docs/captures/") + name + "-" + size + ".txt",
                       text);
        };
        ASSERT_TRUE(chat.answer_on_screen("talks to", "Check the doors, please.\r"))
            << chat.shown();
        ASSERT_TRUE(chat.answer_on_screen("[e]dit >", right)) << chat.screen().text();
        ASSERT_TRUE(chat.expect_on_screen("›[y]es")) << chat.screen().text();
        capture("approval");
        chat.type("y");
        ASSERT_TRUE(chat.expect_on_screen("│ door 30")) << chat.screen().text();
        capture("command");
        for (int i = 0; i < 2; ++i) chat.type("\x1b[Z");
        ASSERT_TRUE(chat.expect_on_screen("plan ·")) << chat.screen().text();
        release_command();
        ASSERT_TRUE(chat.expect_on_screen("Carry out the plan?")) << chat.screen().text();
        capture("plan");
        ASSERT_TRUE(chat.answer_on_screen("›[n]o", "n")) << chat.screen().text();
        ASSERT_TRUE(chat.expect_gone("›[n]o")) << chat.screen().text();
        chat.type(ctrl_o);
        ASSERT_TRUE(chat.expect_on_screen("q closes")) << chat.screen().text();
        capture("pager");
    }
}

}  // namespace
}  // namespace cubepi::joint_tests
