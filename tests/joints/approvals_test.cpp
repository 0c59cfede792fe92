// Answers to questions about tool calls by single keys, and the modes in which fewer calls are asked about (D131).

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "../terminal/terminal.hpp"
#include "model_server.hpp"
#include "program.hpp"

namespace cubepi::joint_tests {
namespace {

using terminal_tests::Home;
using terminal_tests::Piped;
using terminal_tests::read_file;
using terminal_tests::run_piped;
using terminal_tests::Terminal;
using terminal_tests::write_file;

const std::string shift_tab = "\x1b[Z";
const std::string right = "\x1b[C";

SentCall to_write(const std::string& path, const std::string& content = "hello") {
    return {"write",
            boost::json::serialize(boost::json::object{{"path", path}, {"content", content}})};
}

SentCall to_shell(const std::string& command) {
    return {"shell", boost::json::serialize(boost::json::object{{"command", command}})};
}

std::string answer_with(const SentCall& call) { return chat_answer("", {call}); }

class Approvals : public ::testing::Test {
protected:
    static std::vector<std::string> chat_at(const ModelServer& server) {
        return {"chat",       "--no-save",  "--provider", "openai",
                "--base-url", server.url(), "-m",         "local"};
    }
    bool exists(const std::string& file) const {
        return std::filesystem::exists(home.work() / file);
    }
    /// Enters the mode by Shift-Tab.
    static void change_to(Terminal& chat, const std::string& mode, int presses) {
        for (int i = 0; i < presses; ++i) chat.type(shift_tab);
        ASSERT_TRUE(chat.expect_on_screen("mode " + mode)) << chat.screen().text();
    }
    /// The result of the last call, as the server gets it.
    static std::string last_result(const ModelServer& server) {
        const boost::json::value body = server.bodies().back();
        return boost::json::serialize(body.at("messages").as_array().back());
    }

    Home home;
};

TEST_F(Approvals, OneKey_AllowsTheCall) {
    ModelServer server({answer_with(to_write("a.txt")), chat_answer("All done.")});
    Terminal chat(home, chat_at(server));
    ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.shown();
    ASSERT_TRUE(chat.answer("[e]dit >", "y")) << chat.shown();
    ASSERT_TRUE(chat.expect_on_screen("All done.")) << chat.screen().text();
    EXPECT_TRUE(exists("a.txt"));
}

TEST_F(Approvals, OneKeyInRun_AllowsTheCall) {
    ModelServer server({answer_with(to_write("a.txt")), chat_answer("All done.")});
    Terminal run(home,
                 {"run", "--provider", "openai", "--base-url", server.url(), "-m", "local", "go"});
    ASSERT_TRUE(run.answer("[e]dit >", "y")) << run.shown();
    EXPECT_EQ(run.wait(), 0) << run.shown();
    EXPECT_TRUE(exists("a.txt"));
}

TEST_F(Approvals, ArrowsAndEnter_ChooseAnAnswer) {
    ModelServer server({answer_with(to_write("a.txt")), chat_answer("All done.")});
    Terminal chat(home, chat_at(server));
    ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.shown();
    // Enter alone chooses nothing.
    ASSERT_TRUE(chat.answer("[e]dit >", "\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("Answer y, n, or one of the other letters.")) << chat.shown();
    ASSERT_TRUE(chat.answer("[e]dit >", right)) << chat.shown();
    ASSERT_TRUE(chat.expect_on_screen("›[y]es")) << chat.screen().text();
    chat.type(right);
    ASSERT_TRUE(chat.answer_on_screen("›[n]o", "\r")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("All done.")) << chat.screen().text();
    EXPECT_FALSE(exists("a.txt"));
}

TEST_F(Approvals, RestOfWord_IsNotAPrompt) {
    ModelServer server({answer_with(to_write("a.txt")), chat_answer("All done.")});
    Terminal chat(home, chat_at(server));
    ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.shown();
    ASSERT_TRUE(chat.answer("[e]dit >", "y")) << chat.shown();
    // Several keys that arrive together are a block of text.
    ASSERT_TRUE(chat.expect_on_screen("[e]dit > y")) << chat.shown();
    for (const char* key : {"e", "s", "\r"}) chat.type(key);
    ASSERT_TRUE(chat.expect_on_screen("All done.")) << chat.screen().text();
    EXPECT_EQ(server.requests().size(), 2u);
    EXPECT_EQ(server.requests()[1].find("\"es\""), std::string::npos);
}

TEST_F(Approvals, BlockOfText_AnswersNothing) {
    ModelServer server({answer_with(to_write("a.txt")), chat_answer("All done.")});
    Terminal chat(home, chat_at(server));
    ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.shown();
    ASSERT_TRUE(chat.answer("[e]dit >", "yum install x\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("Answer y, n, or one of the other letters.")) << chat.shown();
    ASSERT_TRUE(chat.answer("[e]dit >", "\x1b[200~y\x1b[201~")) << chat.shown();
    ASSERT_TRUE(chat.expect_on_screen("(for the prompt: yum install xy)")) << chat.screen().text();
    EXPECT_FALSE(exists("a.txt"));
    chat.type("yes\r");
    ASSERT_TRUE(chat.expect_on_screen("All done.")) << chat.screen().text();
    EXPECT_TRUE(exists("a.txt"));
}

TEST_F(Approvals, Reason_GoesToTheModel) {
    for (const std::string term : {"xterm", "dumb"}) {
        home.set("TERM", term);
        ModelServer server({answer_with(to_write("a.txt")), chat_answer("All done.")});
        Terminal chat(home, chat_at(server));
        ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.shown();
        if (term == "xterm") {
            ASSERT_TRUE(chat.answer("[e]dit >", "r")) << chat.shown();
            ASSERT_TRUE(chat.answer("no, because >", "use b.txt\r")) << chat.shown();
        } else {
            ASSERT_TRUE(chat.answer("[e]dit >", "n use b.txt\r")) << chat.shown();
        }
        ASSERT_TRUE(chat.expect_on_screen("All done.")) << chat.screen().text();
        EXPECT_NE(last_result(server).find("The user refused this call: use b.txt"),
                  std::string::npos)
            << last_result(server);
        EXPECT_FALSE(exists("a.txt"));
    }
}

TEST_F(Approvals, Edit_ChangesTheCommandAsText) {
    ModelServer server({answer_with(to_shell("echo \"one\" > a.txt")), chat_answer("All done.")});
    Terminal chat(home, chat_at(server));
    ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.shown();
    ASSERT_TRUE(chat.answer("[e]dit >", "e")) << chat.shown();
    ASSERT_TRUE(chat.answer_on_screen("command > echo \"one\" > a.txt",
                                      "\x7f\x7f\x7f"
                                      "md\r"))
        << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("All done.")) << chat.screen().text();
    EXPECT_EQ(read_file(home.work() / "a.md"), "one\n");
}

TEST_F(Approvals, D131_AcceptEdits_AsksAboutCommandsOnly) {
    ModelServer server({answer_with(to_write("a.txt")), answer_with(to_shell("echo hi > b.txt")),
                        chat_answer("All done.")});
    Terminal chat(home, chat_at(server));
    ASSERT_TRUE(chat.expect_on_screen("mode ask")) << chat.screen().text();
    change_to(chat, "accept edits", 1);
    chat.type("go\r");
    ASSERT_TRUE(chat.answer("[e]dit >", "n")) << chat.shown();
    ASSERT_TRUE(chat.expect_on_screen("All done.")) << chat.screen().text();
    EXPECT_TRUE(exists("a.txt"));
    EXPECT_FALSE(exists("b.txt"));
}

TEST_F(Approvals, D131_ModeAll_AsksAboutInstructions) {
    ModelServer server({answer_with(to_shell("echo hi > b.txt")),
                        answer_with(to_write("AGENTS.md")), answer_with(to_write(".git/config")),
                        chat_answer("All done.")});
    Terminal chat(home, chat_at(server));
    ASSERT_TRUE(chat.answer_on_screen("talks to", "/mode all\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("Mode all: nothing asks, except")) << chat.shown();
    chat.type("go\r");
    ASSERT_TRUE(chat.expect("creates AGENTS.md")) << chat.shown();
    ASSERT_TRUE(chat.answer("[e]dit >", "n")) << chat.shown();
    ASSERT_TRUE(chat.expect("creates .git/config")) << chat.shown();
    ASSERT_TRUE(chat.answer("[e]dit >", "n")) << chat.shown();
    ASSERT_TRUE(chat.expect_on_screen("All done.")) << chat.screen().text();
    EXPECT_TRUE(exists("b.txt"));
    EXPECT_FALSE(exists("AGENTS.md"));
    EXPECT_FALSE(exists(".git"));
}

TEST_F(Approvals, D131_YesWithoutTerminal_RefusesInstructions) {
    ModelServer server({answer_with(to_write("AGENTS.md")), chat_answer("All done.")});
    const Piped run = run_at(home, server, {"--yes", "go"});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_FALSE(exists("AGENTS.md"));
    EXPECT_NE(last_result(server).find("Such a call needs an answer of the user."),
              std::string::npos)
        << last_result(server);
}

TEST_F(Approvals, D131_Plan_RefusesWhatRulesAllow) {
    write_file(home.config(), "allow: [\"write: *\"]\n");
    ModelServer server({answer_with(to_write("a.txt")), chat_answer("I would write a.txt."),
                        answer_with(to_write("a.txt")), chat_answer("All done.")});
    Terminal chat(home, chat_at(server));
    ASSERT_TRUE(chat.expect_on_screen("talks to")) << chat.shown();
    change_to(chat, "plan", 2);
    chat.type("go\r");
    ASSERT_TRUE(chat.expect("Carry out the plan?")) << chat.shown();
    EXPECT_FALSE(exists("a.txt"));
    ASSERT_EQ(server.requests().size(), 2u);
    EXPECT_NE(server.requests()[0].find("mode=plan"), std::string::npos) << server.requests()[0];
    EXPECT_NE(last_result(server).find("in which only tools that read run"), std::string::npos)
        << last_result(server);
    ASSERT_TRUE(chat.answer("[n]o >", "y")) << chat.shown();
    ASSERT_TRUE(chat.expect_on_screen("All done.")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("mode ask")) << chat.screen().text();
    EXPECT_TRUE(exists("a.txt"));
    EXPECT_NE(server.requests()[2].find("Carry out the plan."), std::string::npos);
}

TEST_F(Approvals, D131_PlanNotWanted_StaysInPlan) {
    ModelServer server({chat_answer("I would write a.txt."), answer_with(to_write("a.txt")),
                        chat_answer("Or b.txt.")});
    Terminal chat(home, chat_at(server));
    ASSERT_TRUE(chat.expect_on_screen("talks to")) << chat.shown();
    change_to(chat, "plan", 2);
    chat.type("go\r");
    ASSERT_TRUE(chat.answer("[n]o >", "\r")) << chat.shown();
    ASSERT_TRUE(chat.answer_on_screen("[n]o > n", "another\r")) << chat.screen().text();
    ASSERT_TRUE(chat.expect("Or b.txt.")) << chat.shown();
    ASSERT_TRUE(chat.answer("[n]o >", "\x03")) << chat.shown();
    ASSERT_TRUE(chat.expect_gone("Carry out the plan?  [y]es  [a]ccept edits ›")) << chat.shown();
    EXPECT_FALSE(exists("a.txt"));
    EXPECT_EQ(server.requests().size(), 3u);
}

TEST_F(Approvals, D131_Plan_BindsSubagents) {
    const SentCall to_subagent{"subagent", R"({"prompt":"write it"})"};
    write_file(home.config(), "allow: [\"subagent: *\", \"write: *\"]\n");
    ModelServer server({answer_with(to_subagent), answer_with(to_write("a.txt")),
                        chat_answer("It was refused."), chat_answer("All done.")});
    Terminal chat(home, chat_at(server));
    ASSERT_TRUE(chat.expect_on_screen("talks to")) << chat.shown();
    change_to(chat, "plan", 2);
    chat.type("go\r");
    ASSERT_TRUE(chat.expect("Carry out the plan?")) << chat.shown();
    EXPECT_EQ(server.requests().size(), 4u);
    EXPECT_FALSE(exists("a.txt"));
    EXPECT_NE(server.requests()[2].find("in which only tools that read run"), std::string::npos)
        << server.requests()[2];
}

/// A run that was suspended without a terminal continues in a chat, where a mode applies to the rest of it.
TEST_F(Approvals, D131_SuspendedRun_TakesTheModeOfTheChat) {
    ModelServer server(
        {answer_with(to_write("a.txt")), answer_with(to_write("b.txt")), chat_answer("All done.")});
    EXPECT_EQ(run_at(home, server, {"-s", "s1", "go"}).status, 7);
    Terminal chat(home, {"chat", "-s", "s1", "--provider", "openai", "--base-url", server.url(),
                         "-m", "local"});
    ASSERT_TRUE(chat.expect("creates a.txt")) << chat.shown();
    ASSERT_TRUE(chat.expect("[e]dit >")) << chat.shown();
    change_to(chat, "plan", 2);
    chat.type("y");
    ASSERT_TRUE(chat.expect("The mode is plan")) << chat.shown();
    ASSERT_TRUE(chat.expect("[e]dit >")) << chat.shown();
    change_to(chat, "accept edits", 3);
    chat.type("y");
    ASSERT_TRUE(chat.expect_on_screen("All done.")) << chat.screen().text();
    EXPECT_TRUE(exists("a.txt"));
    EXPECT_TRUE(exists("b.txt")) << "the mode of the chat applies to the rest of the run";
}

TEST_F(Approvals, D131_StoredRefusal_CountsMoreThanAMode) {
    ModelServer server({answer_with(to_write("a.txt")), chat_answer("All done.")});
    EXPECT_EQ(run_at(home, server, {"-s", "s1", "go"}).status, 7);
    Terminal chat(home, {"chat", "-s", "s1", "--yes", "--provider", "openai", "--base-url",
                         server.url(), "-m", "local"});
    ASSERT_TRUE(chat.expect("creates a.txt")) << chat.shown();
    ASSERT_TRUE(chat.answer("[e]dit >", "n")) << chat.shown();
    ASSERT_TRUE(chat.expect_on_screen("All done.")) << chat.screen().text();
    EXPECT_FALSE(exists("a.txt"));
}

/// A mode is not stored: what another process continues asks.
TEST_F(Approvals, D131_ModeOfChat_EndsWithTheProcess) {
    ModelServer server({chat_answer("Hello."), answer_with(to_write("a.txt"))});
    Terminal chat(home, {"chat", "-s", "s1", "--provider", "openai", "--base-url", server.url(),
                         "-m", "local"});
    ASSERT_TRUE(chat.expect_on_screen("talks to")) << chat.shown();
    change_to(chat, "all", 3);
    chat.type("hello\r");
    ASSERT_TRUE(chat.expect_on_screen("Hello.")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_gone("Esc stops ·")) << chat.shown();
    chat.type("\x04");
    EXPECT_EQ(chat.wait(), 0) << chat.shown();
    EXPECT_EQ(run_at(home, server, {"-s", "s1", "go"}).status, 7);
    EXPECT_FALSE(exists("a.txt"));
}

}  // namespace
}  // namespace cubepi::joint_tests
