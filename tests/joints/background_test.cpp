// Commands that the model has started in the background: they live as long as their session in this process (D93).

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <cubepi/process/process_test.hpp>

#include "../terminal/terminal.hpp"
#include "model_server.hpp"
#include "program.hpp"

namespace cubepi::joint_tests {
namespace {

using terminal_tests::Home;
using terminal_tests::Piped;
using terminal_tests::Terminal;

const SentCall starts{
    "shell",
    R"sh({"command":"setsid sh -c 'echo $$ > new; mv new pid; exec sleep 1000' & echo ready; wait","background":true})sh"};
const SentCall reads{"shell_output", R"({"id":"sh1","wait_seconds":60})"};

class Background : public ::testing::Test {
protected:
    /// The process that the command has started, which has left its process group.
    pid_t process() const {
        pid_t pid = 0;
        while (pid == 0) {
            std::ifstream(home.work() / "pid") >> pid;
            std::this_thread::yield();
        }
        return pid;
    }
    std::vector<std::string> chat_at(const ModelServer& server) const {
        return {"chat", "--yes", "--provider", "openai", "--base-url", server.url(), "-m", "local"};
    }
    /// Starts the command in the first turn of a chat.
    pid_t start(Terminal& chat) {
        EXPECT_TRUE(chat.answer_on_screen("talks to", "hello\r")) << chat.shown();
        EXPECT_TRUE(chat.expect_on_screen("All set.")) << chat.shown();
        EXPECT_TRUE(chat.expect_gone("Esc stops ·")) << chat.shown();
        return process();
    }
    /// The last message of the last request.
    static std::string last_message(const ModelServer& server) {
        const boost::json::value body = server.bodies().back();
        return boost::json::serialize(body.at("messages").as_array().back());
    }

    Home home;
};

TEST_F(Background, D93_NextTurnOfChat_ReadsOutput) {
    ModelServer server({chat_answer("", {starts}), chat_answer("All set."),
                        chat_answer("", {reads}), chat_answer("Have read.")});
    Terminal chat(home, chat_at(server));
    const pid_t pid = start(chat);
    EXPECT_NE(last_message(server).find("it ends when the user leaves this chat"),
              std::string::npos)
        << last_message(server);
    chat.type("and now?\r");
    ASSERT_TRUE(chat.expect_on_screen("Have read.")) << chat.shown();
    EXPECT_NE(last_message(server).find("ready"), std::string::npos) << last_message(server);
    EXPECT_NE(last_message(server).find("sh1: running"), std::string::npos) << last_message(server);
    chat.type("/status\r");
    ASSERT_TRUE(chat.expect_on_screen("sh1 runs: setsid")) << chat.shown();
    EXPECT_TRUE(is_running(pid));
    chat.type("/quit\r");
    EXPECT_EQ(chat.wait(), 0) << chat.shown();
    expect_gone(pid);
}

TEST_F(Background, D93_NewSession_EndsCommands) {
    ModelServer server({chat_answer("", {starts}), chat_answer("All set.")});
    Terminal chat(home, chat_at(server));
    const pid_t pid = start(chat);
    chat.type("/new\r");
    ASSERT_TRUE(chat.expect_on_screen("Ended 1 background command")) << chat.shown();
    expect_gone(pid);
    chat.type("/status\r");
    ASSERT_TRUE(chat.expect_on_screen("new, 0 messages")) << chat.shown();
    EXPECT_EQ(chat.shown().find("sh1 runs"), std::string::npos) << chat.shown();
    chat.type("\x04");
    EXPECT_EQ(chat.wait(), 0) << chat.shown();
}

TEST_F(Background, D93_AbortedTurn_LeavesCommandRunning) {
    const SentCall sleeps{"shell", R"({"command":"touch begun; sleep 1000"})"};
    ModelServer server({chat_answer("", {starts}), chat_answer("All set."),
                        chat_answer("", {sleeps}), chat_answer("Unused.")});
    Terminal chat(home, chat_at(server));
    const pid_t pid = start(chat);
    chat.type("wait\r");
    while (!std::filesystem::exists(home.work() / "begun")) std::this_thread::yield();
    chat.type("\x1b");
    ASSERT_TRUE(chat.expect_on_screen("stopped")) << chat.shown();
    chat.type("/status\r");
    ASSERT_TRUE(chat.expect_on_screen("sh1 runs: ")) << chat.shown();
    EXPECT_TRUE(is_running(pid));
    chat.type("\x04");
    EXPECT_EQ(chat.wait(), 0) << chat.shown();
    expect_gone(pid);
}

TEST_F(Background, D93_KilledProgram_LeavesNoCommand) {
    ModelServer server({chat_answer("", {starts}), chat_answer("All set.")});
    Terminal chat(home, chat_at(server));
    const pid_t pid = start(chat);
    chat.type("/status\r");
    ASSERT_TRUE(chat.expect_on_screen("sh1 runs: ")) << chat.shown();
    chat.send(SIGKILL);
    EXPECT_EQ(chat.wait(), 128 + SIGKILL);
    expect_gone(pid);
}

TEST_F(Background, D93_ResumedElsewhere_CommandIsUnknown) {
    ModelServer server({chat_answer("", {starts}), chat_answer("All set."),
                        chat_answer("", {reads}), chat_answer("Have read.")});
    const Piped first = run_at(home, server, {"--yes", "-s", "s1", "hello"});
    EXPECT_EQ(first.status, 0) << first.err;
    const boost::json::value second_request = server.bodies().at(1);
    const std::string result =
        boost::json::serialize(second_request.at("messages").as_array().back());
    EXPECT_NE(result.find("it ends with this answer, because cubepi run exits then"),
              std::string::npos)
        << result;
    const Piped second = run_at(home, server, {"--yes", "-s", "s1", "and now?"});
    EXPECT_EQ(second.status, 0) << second.err;
    EXPECT_NE(last_message(server).find("There is no background command sh1"), std::string::npos)
        << last_message(server);
}

TEST_F(Background, D93_EndOfRun_EndsCommand) {
    const SentCall waits{"shell", R"({"command":"until [ -e pid ]; do sleep 0.01; done"})"};
    ModelServer server(
        {chat_answer("", {starts}), chat_answer("", {waits}), chat_answer("All set.")});
    const Piped over = run_at(home, server, {"--yes", "hello"});
    EXPECT_EQ(over.status, 0) << over.err;
    expect_gone(process());
}

TEST_F(Background, D93_CommandOfSubagent_BelongsToConversation) {
    const SentCall to_subagent{"subagent", R"({"prompt":"start it"})"};
    ModelServer server({chat_answer("", {to_subagent}), chat_answer("", {starts}),
                        chat_answer("It runs."), chat_answer("All set."), chat_answer("", {reads}),
                        chat_answer("Have read.")});
    Terminal chat(home, chat_at(server));
    const pid_t pid = start(chat);
    chat.type("and now?\r");
    ASSERT_TRUE(chat.expect_on_screen("Have read.")) << chat.shown();
    EXPECT_NE(last_message(server).find("sh1: running"), std::string::npos) << last_message(server);
    EXPECT_TRUE(is_running(pid));
    chat.type(",shell_kill sh1\r");
    ASSERT_TRUE(chat.expect_on_screen("sh1 was ended")) << chat.shown();
    expect_gone(pid);
    chat.type("\x04");
    EXPECT_EQ(chat.wait(), 0) << chat.shown();
}

}  // namespace
}  // namespace cubepi::joint_tests
