// Sub-agents in the background in `cubepi chat` and `cubepi run` (D126, D127): their results, their questions, and their end.

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "../terminal/terminal.hpp"
#include "task_model.hpp"

namespace cubepi::joint_tests {
namespace {

using terminal_tests::Home;
using terminal_tests::Piped;
using terminal_tests::run_piped;
using terminal_tests::Terminal;
using terminal_tests::write_file;

class Tasks : public ::testing::Test {
protected:
    std::vector<std::string> command(std::vector<std::string> words,
                                     std::vector<std::string> more = {}) const {
        for (std::string& flag : model.flags()) words.push_back(std::move(flag));
        words.insert(words.end(), more.begin(), more.end());
        return words;
    }
    /// Starts the sub-agent, whose model is held.
    void start(Terminal& chat, const std::string& task = "look") {
        ASSERT_TRUE(chat.answer_on_screen("talks to", "background " + task + "\r")) << chat.shown();
        model.wait_for(task);
        ASSERT_TRUE(chat.expect_on_screen("re: background " + task)) << chat.shown();
        ASSERT_TRUE(chat.expect_gone("Esc stops ·")) << chat.shown();
    }
    bool is_written() const { return std::filesystem::exists(home.work() / "new.txt"); }
    static void leave(Terminal& chat) {
        chat.type("\x04");
        EXPECT_EQ(chat.wait(), 0) << chat.shown();
    }

    Home home;
    TaskModel model;
};

TEST_F(Tasks, D127_Run_EndsWithTheResult) {
    const Piped done = run_piped(home, command({"run", "--yes"}, {"background look"}));
    EXPECT_EQ(done.status, 0) << done.err;
    EXPECT_NE(done.out.find("re: re: look"), std::string::npos) << done.out;
    EXPECT_EQ(model.count("look"), 1u);
}

TEST_F(Tasks, D127_TurnsOfRun_AreLimitedTogether) {
    const Piped ended =
        run_piped(home, command({"run", "--yes", "--max-turns", "2"}, {"background look"}));
    EXPECT_NE(ended.err.find("max_turns (2)"), std::string::npos) << ended.err;
    EXPECT_EQ(model.count("re: look"), 0u);
}

TEST_F(Tasks, D126_Chat_ReportsTheResultUnasked) {
    model.hold("look");
    Terminal chat(home, command({"chat", "--yes"}));
    start(chat);
    EXPECT_TRUE(chat.expect_on_screen("helper: look")) << chat.screen().text();
    chat.type("/tasks\r");
    EXPECT_TRUE(chat.expect_on_screen("helper): running, 0 turns, look")) << chat.shown();
    chat.type("typing");
    model.release();
    EXPECT_TRUE(chat.expect_on_screen("re: re: look")) << chat.shown();
    EXPECT_TRUE(chat.expect_gone("helper: look  ")) << chat.screen().text();
    EXPECT_TRUE(chat.expect_on_screen("typing")) << chat.screen().text();
    // The session is written at the end of the turn.
    ASSERT_TRUE(chat.expect_gone("Esc stops ·")) << chat.shown();
    chat.type("\x15/cost\r");
    // Two calls of the prompt, one of the sub-agent, one that has its result.
    EXPECT_TRUE(chat.expect_on_screen("4 of a model")) << chat.shown();
    EXPECT_TRUE(chat.expect_on_screen("4,000 in, 40 out")) << chat.shown();
    leave(chat);
}

TEST_F(Tasks, D126_UserOfChat_CancelsATask) {
    model.hold("look");
    Terminal chat(home, command({"chat", "--yes"}));
    start(chat);
    chat.type("/tasks cancel none\r");
    EXPECT_TRUE(chat.expect_on_screen("nothing with this id runs")) << chat.shown();
    chat.type("/tasks\r");
    ASSERT_TRUE(chat.expect_on_screen("helper): running")) << chat.shown();
    const std::string shown = chat.screen().text();
    const std::size_t end = shown.find(" (agent, helper): running");
    const std::size_t begin = shown.rfind('\n', end) + 1;
    chat.type("/tasks cancel " + shown.substr(begin, end - begin) + "\r");
    EXPECT_TRUE(chat.expect_on_screen("being cancelled")) << chat.shown();
    // The last line of its result.
    model.wait_for("[error: it was cancelled]");
    EXPECT_TRUE(chat.expect_on_screen("re: [error: it was cancelled]")) << chat.shown();
    leave(chat);
}

TEST_F(Tasks, D126_EscapeDuringAnotherTurn_LeavesTheTask) {
    model.hold("look");
    model.hold("another prompt");
    Terminal chat(home, command({"chat", "--yes"}));
    start(chat);
    chat.type("another prompt\r");
    model.wait_for("another prompt");
    ASSERT_TRUE(chat.answer_on_screen("Esc stops ·", "\x1b")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_gone("Esc stops ·")) << chat.screen().text();
    chat.type("/tasks\r");
    ASSERT_TRUE(chat.expect_on_screen("helper): running, 0 turns, look")) << chat.shown();
    model.release();
    EXPECT_TRUE(chat.expect_on_screen("re: re: look")) << chat.shown();
    ASSERT_TRUE(chat.expect_gone("Esc stops ·")) << chat.shown();
    EXPECT_EQ(chat.screen().text().find("re: another prompt"), std::string::npos);
    EXPECT_EQ(model.count("look"), 1u);
    leave(chat);
}

TEST_F(Tasks, D126_NewSession_EndsTasks) {
    model.hold("look");
    Terminal chat(home, command({"chat", "--yes"}));
    start(chat);
    chat.type("/new\r");
    EXPECT_TRUE(chat.expect_on_screen("Ended 1 background sub-agent")) << chat.shown();
    chat.type("/tasks\r");
    EXPECT_TRUE(chat.expect_on_screen("There are no sub-agents")) << chat.shown();
    leave(chat);
}

TEST_F(Tasks, D126_KilledChat_ReportsInterruptionAndRepeatsNothing) {
    model.hold("look");
    {
        Terminal chat(home, command({"chat", "--yes", "-s", "s1"}));
        start(chat);
        chat.send(SIGKILL);
        EXPECT_EQ(chat.wait(), 128 + SIGKILL);
    }
    model.release();
    Terminal chat(home, command({"chat", "--yes", "-s", "s1"}));
    ASSERT_TRUE(chat.answer_on_screen("talks to", "/tasks\r")) << chat.shown();
    EXPECT_TRUE(chat.expect_on_screen("helper): interrupted")) << chat.shown();
    chat.type("and now?\r");
    EXPECT_TRUE(chat.expect_on_screen("re: and now?")) << chat.shown();
    EXPECT_TRUE(chat.expect_on_screen("it is not repeated")) << chat.shown();
    leave(chat);
    EXPECT_EQ(model.count("look"), 1u);
}

TEST_F(Tasks, D114_QuestionOfTask_IsAnsweredAtThePrompt) {
    Terminal chat(home, command({"chat"}));
    ASSERT_TRUE(chat.answer_on_screen("talks to", "background write new.txt\r")) << chat.shown();
    // The call of the tool itself.
    ASSERT_TRUE(chat.answer("[y]es", "y\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("The sub-agent helper asks: write creates new.txt"))
        << chat.screen().text();
    EXPECT_FALSE(is_written());
    ASSERT_TRUE(chat.answer("[y]es", "y\r")) << chat.shown();
    EXPECT_TRUE(chat.expect_on_screen("re: re: write new.txt")) << chat.shown();
    EXPECT_TRUE(is_written());
    leave(chat);
}

TEST_F(Tasks, EscapeAtQuestionOfTask_RefusesAndStays) {
    Terminal chat(home, command({"chat"}));
    ASSERT_TRUE(chat.answer_on_screen("talks to", "background write new.txt\r")) << chat.shown();
    ASSERT_TRUE(chat.answer("[y]es", "y\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("The sub-agent helper asks: write creates new.txt"))
        << chat.screen().text();
    ASSERT_TRUE(chat.answer("[y]es", "\x1b")) << chat.shown();
    ASSERT_TRUE(chat.expect_on_screen("Not answered: the sub-agent is told")) << chat.shown();
    EXPECT_TRUE(chat.expect_on_screen("re: re: write new.txt")) << chat.shown();
    EXPECT_FALSE(is_written());
    EXPECT_TRUE(chat.expect_gone("Esc stops ·")) << chat.shown();
    chat.type("\x03");
    EXPECT_TRUE(chat.expect_on_screen("(Ctrl-C again leaves)")) << chat.screen().text();
    leave(chat);
}

TEST_F(Tasks, D85_TaskOfRun_MayNotWriteUnasked) {
    write_file(home.config(), "allow: [\"subagent: *\"]\n");
    const Piped done = run_piped(home, command({"run", "--no-save"}, {"background write new.txt"}));
    EXPECT_EQ(done.status, 0) << done.err;
    EXPECT_FALSE(is_written());
    EXPECT_NE(done.out.find("re: re: write new.txt"), std::string::npos) << done.out;
}

TEST_F(Tasks, BackgroundOffInConfiguration_IsNotOffered) {
    write_file(home.config(), "subagents: {max_background: false}\n");
    const Piped done = run_piped(home, command({"run", "--no-save"}, {"hello"}));
    EXPECT_EQ(done.status, 0) << done.err;
    const std::string body = model.wait_for("hello");
    EXPECT_EQ(body.find("run_in_background"), std::string::npos);
    EXPECT_EQ(body.find("subagent_tasks"), std::string::npos);
}

TEST_F(Tasks, Doctor_NamesTheLimits) {
    write_file(home.config(),
               "subagents: {max_background: 2, max_turns: 7, max_spend: 0.5}\nprovider: openai\n");
    const Piped doctor = run_piped(home, {"doctor", "--offline"});
    for (const char* line : {"subagents.max_background: 2 (config.yaml)",
                             "subagents.max_turns: 7 (config.yaml)", "subagents.max_spend: $0.5"})
        EXPECT_NE(doctor.out.find(line), std::string::npos) << line << "\n" << doctor.out;
}

TEST_F(Tasks, UnknownLimit_IsRefused) {
    write_file(home.config(), "subagents: {max_agents: 2}\n");
    const Piped doctor = run_piped(home, {"doctor", "--offline"});
    EXPECT_NE((doctor.out + doctor.err).find("unknown key 'max_agents'"), std::string::npos)
        << doctor.out;
}

}  // namespace
}  // namespace cubepi::joint_tests
