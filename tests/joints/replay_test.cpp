// Calls of sub-agents that were approved in another process (D104, D115): those in the background and those that inherit the conversation
// are made once, and never again after a kill.

#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "../terminal/terminal.hpp"
#include "program.hpp"
#include "task_model.hpp"

namespace cubepi::joint_tests {
namespace {

using terminal_tests::Home;
using terminal_tests::Piped;
using terminal_tests::run_piped;
using terminal_tests::Terminal;

class ApprovedSubagent : public ::testing::Test {
protected:
    std::vector<std::string> command(std::vector<std::string> words,
                                     const std::vector<std::string>& more = {}) const {
        for (std::string& flag : model.flags()) words.push_back(std::move(flag));
        words.insert(words.end(), more.begin(), more.end());
        return words;
    }
    Piped suspend(const std::string& prompt) const {
        const Piped run = run_piped(home, command({"run", "-s", "s1"}, {prompt}));
        EXPECT_EQ(run.status, 7) << run.err;
        return run;
    }
    /// Approves the call in a process that is killed when its sub-agent has asked its model. In the background, the result of the
    /// call is stored by then, too: the model of its caller was asked with it.
    void approve_and_kill(const std::string& prompt) {
        (void)suspend(prompt);
        model.hold("look");
        Terminal answering(home, command({"inbox", "approve", "call_0", "--session", "s1"}));
        model.wait_for("look");
        if (prompt.starts_with("background")) model.wait_for(prompt, 2);
        answering.send(SIGKILL);
        EXPECT_EQ(answering.wait(), 128 + SIGKILL);
        model.release();
    }
    Piped next_prompt() const {
        return run_piped(home, command({"run", "-s", "s1"}, {"and now?"}));
    }

    Home home;
    TaskModel model;
};

TEST_F(ApprovedSubagent, D115_InBackground_StartsInAnotherProcess) {
    const Piped first = suspend("background look");
    EXPECT_EQ(model.count("look"), 0u);
    const Piped over = run_printed(home, first.err, "To answer: ");
    EXPECT_EQ(over.status, 0) << over.err;
    EXPECT_NE(over.out.find("re: re: look"), std::string::npos) << over.out << over.err;
    EXPECT_EQ(model.count("look"), 1u);
}

TEST_F(ApprovedSubagent, D104_Inheriting_WorksInAnotherProcess) {
    const Piped first = suspend("inherit look");
    const Piped over = run_printed(home, first.err, "To answer: ");
    EXPECT_EQ(over.status, 0) << over.err;
    EXPECT_NE(over.out.find("re: inherit look"), std::string::npos) << over.out << over.err;
    EXPECT_EQ(model.count("look"), 1u);
    EXPECT_NE(model.wait_for("inherit look", 2).find("re: look"), std::string::npos);
}

TEST_F(ApprovedSubagent, D115_KilledInBackground_IsInterruptedOnce) {
    approve_and_kill("background look");
    const Piped next = next_prompt();
    EXPECT_EQ(next.status, 0) << next.err;
    EXPECT_NE(next.out.find("it is not repeated"), std::string::npos) << next.out;
    EXPECT_EQ(model.count("look"), 1u);
    EXPECT_EQ(run_piped(home, {"inbox", "--json"}).out, "[]\n");
}

TEST_F(ApprovedSubagent, D104_KilledWhileInheriting_IsInterruptedOnce) {
    approve_and_kill("inherit look");
    EXPECT_EQ(run_piped(home, {"inbox", "--json"}).out, "[]\n");
    const Piped next = next_prompt();
    EXPECT_EQ(next.status, 0) << next.err;
    EXPECT_NE(model.wait_for("and now?").find("interrupted"), std::string::npos);
    EXPECT_EQ(model.count("look"), 1u);
}

TEST_F(ApprovedSubagent, D104_Denied_IsNotStarted) {
    for (const char* prompt : {"background look", "inherit look"}) {
        const Home other;
        EXPECT_EQ(run_piped(other, command({"run", "-s", "s1"}, {prompt})).status, 7);
        const Piped denied =
            run_piped(other, command({"inbox", "deny", "call_0", "--session", "s1"}));
        EXPECT_EQ(denied.status, 0) << denied.err;
    }
    EXPECT_EQ(model.count("look"), 0u);
}

}  // namespace
}  // namespace cubepi::joint_tests
