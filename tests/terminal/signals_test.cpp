// Chats that end by a signal or without a terminal, and their state afterwards.

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <string>

#include "terminal.hpp"

namespace cubepi::terminal_tests {
namespace {

/// A command that says which process it is, and then stays.
constexpr const char* staying_command =
    R"([{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1", "name": "shell",
        "arguments": {"command": "echo $$ > pid; exec sleep 1000"}}]}, "No."])";

/// The process of the command, once it runs; read when `chat` shows its card.
pid_t pid_in(const Home& home) {
    std::string text;
    while (text.empty() || text.back() != '\n') text = read_file(home.work() / "pid");
    return static_cast<pid_t>(std::stol(text));
}

bool has_ended(pid_t pid) { return kill(pid, 0) != 0 && errno == ESRCH; }

TEST(Signals, SigtermEndsTheChatAndTheCommandsOfItsTurn) {
    const Home home;
    Terminal chat(home, {"chat", "--yes", "--script", home.script(staying_command)});
    ASSERT_TRUE(chat.expect_on_screen("talks to"));
    chat.type("go\r");
    ASSERT_TRUE(chat.expect_on_screen("shell command:")) << chat.screen().text();
    const pid_t command = pid_in(home);
    chat.send(SIGTERM);
    EXPECT_EQ(chat.wait(), 128 + SIGTERM) << chat.screen().text();
    EXPECT_TRUE(has_ended(command));
    EXPECT_NE(chat.raw().rfind("\x1b[?2004l"), std::string::npos) << "the terminal is as it was";
}

TEST(Signals, AClosedWindowEndsTheChatAndTheCommandsOfItsTurn) {
    const Home home;
    Terminal chat(home, {"chat", "--yes", "--script", home.script(staying_command)});
    ASSERT_TRUE(chat.expect_on_screen("talks to"));
    chat.type("go\r");
    ASSERT_TRUE(chat.expect_on_screen("shell command:")) << chat.screen().text();
    const pid_t command = pid_in(home);
    EXPECT_EQ(chat.hang_up(), 128 + SIGHUP);
    EXPECT_TRUE(has_ended(command));
}

TEST(Signals, AClosedWindowEndsAChatThatWaits) {
    const Home home;
    Terminal chat(home, {"chat", "--offline"});
    ASSERT_TRUE(chat.expect_on_screen("talks to"));
    EXPECT_EQ(chat.hang_up(), 128 + SIGHUP);
}

TEST(Signals, SigtermEndsARunAndItsCommands) {
    const Home home;
    Terminal run(home, {"run", "--yes", "--script", home.script(staying_command), "go"});
    ASSERT_TRUE(run.expect("shell command:"));
    const pid_t command = pid_in(home);
    run.send(SIGTERM);
    EXPECT_EQ(run.wait(), 128 + SIGTERM) << run.shown();
    EXPECT_TRUE(has_ended(command));
    EXPECT_TRUE(std::filesystem::is_empty(home.root() / "tmp")) << "temporary files";
}

TEST(Signals, AClosedWindowEndsARunAndItsCommands) {
    const Home home;
    Terminal run(home, {"run", "--yes", "--script", home.script(staying_command), "go"});
    ASSERT_TRUE(run.expect("shell command:"));
    const pid_t command = pid_in(home);
    EXPECT_EQ(run.hang_up(), 128 + SIGHUP);
    EXPECT_TRUE(has_ended(command));
}

TEST(Signals, APlainChatEndsAsWell) {
    Home home;
    home.set("TERM", "dumb");
    Terminal chat(home, {"chat", "--yes", "--script", home.script(staying_command)});
    ASSERT_TRUE(chat.expect("> "));
    chat.type("go\r");
    ASSERT_TRUE(chat.expect("shell command:"));
    const pid_t command = pid_in(home);
    chat.send(SIGTERM);
    EXPECT_EQ(chat.wait(), 128 + SIGTERM) << chat.shown();
    EXPECT_TRUE(has_ended(command));

    Terminal waits(home, {"chat", "--offline"});
    ASSERT_TRUE(waits.expect("> "));
    waits.send(SIGTERM);
    EXPECT_EQ(waits.wait(), 128 + SIGTERM) << waits.shown();
}

TEST(Signals, WithoutUtf8TheSignsArePlainAndTheColumnsRight) {
    Home home;
    home.set("LANG", "C");
    Terminal chat(home, {"chat", "--script", home.script(R"(["- an **item**\n"])")}, 40, 12);
    ASSERT_TRUE(chat.expect_on_screen("talks to"));
    chat.type("漢字 é");
    ASSERT_TRUE(chat.expect_on_screen("> 漢字 é")) << chat.screen().text();
    EXPECT_EQ(chat.screen().cursor_column(), 2u + 4 + 1 + 1);
    chat.type("\r");
    ASSERT_TRUE(chat.expect_on_screen("* an item")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen(" in, "));
    for (const char* sign : {"•", "·", "⠋"})
        EXPECT_EQ(chat.raw().find(sign), std::string::npos) << sign;
    chat.type("/quit\r");
    EXPECT_EQ(chat.wait(), 0);
}

}  // namespace
}  // namespace cubepi::terminal_tests
