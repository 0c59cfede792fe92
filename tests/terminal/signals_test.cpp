// How a chat ends when it is not the person who ends it, and what it leaves behind.

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
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
