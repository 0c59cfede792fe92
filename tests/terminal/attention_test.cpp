// Reports of the terminal about its window, and what the chat does with them.

#include <gtest/gtest.h>

#include <string>

#include "terminal.hpp"

namespace cubepi::terminal_tests {
namespace {

const std::string focus_in = "\x1b[I";
const std::string focus_out = "\x1b[O";
const std::string message = "\x1b]9;cubepi has answered\x07";

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

class Window : public ::testing::Test {
protected:
    Window() { write_file(home.config(), "notifications: osc9\n"); }
    Home home;
};

TEST_F(Window, InBack_IsNotifiedOfTheAnswer) {
    Terminal chat(home, {"chat", "--offline", "--no-save"}, 80, 24);
    ASSERT_TRUE(chat.answer_on_screen("talks to", "one\r")) << chat.shown();
    ASSERT_TRUE(chat.expect_on_screen("You wrote: one")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_gone("Esc stops ·")) << chat.screen().text();
    EXPECT_FALSE(has(chat.raw(), message)) << "the window is in front";
    chat.type(focus_out + "two\r");
    ASSERT_TRUE(chat.expect_on_screen("You wrote: two")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_gone("Esc stops ·")) << chat.screen().text();
    chat.type(focus_in + "/quit\r");
    EXPECT_EQ(chat.wait(), 0);
    EXPECT_TRUE(has(chat.raw(), message));
    EXPECT_TRUE(has(chat.raw(), "\x1b[?1004h"));
    EXPECT_TRUE(has(chat.raw(), "\x1b[?1004l")) << "the terminal is left as it was";
    EXPECT_TRUE(has(chat.raw(), "\x1b]2;cubepi\x07"));
    EXPECT_TRUE(has(chat.raw(), "\x1b[23;2t"));
}

TEST_F(Window, LightBackground_ChangesColors) {
    home.set("TERM", "xterm-256color");
    Terminal chat(home, {"chat", "--offline", "--no-save"}, 80, 24);
    ASSERT_TRUE(chat.expect_on_screen("talks to")) << chat.shown();
    ASSERT_TRUE(has(chat.raw(), "\x1b]11;?\x1b\\"));
    chat.type("\x1b]11;rgb:ffff/ffff/ffff\x1b\\/");
    ASSERT_TRUE(chat.expect_on_screen("❯ /new")) << chat.screen().text();
    EXPECT_TRUE(has(chat.raw(), "\x1b[34m❯")) << "blue, not cyan";
    EXPECT_FALSE(has(chat.screen().text(), "rgb:")) << chat.screen().text();
}

TEST_F(Window, DirectoryChange_IsExplained) {
    Terminal chat(home, {"chat", "--offline", "--no-save"}, 80, 24);
    ASSERT_TRUE(chat.answer_on_screen("talks to", "!cd /tmp\r")) << chat.shown();
    EXPECT_TRUE(chat.expect_on_screen("A command has a shell of its own")) << chat.screen().text();
}

}  // namespace
}  // namespace cubepi::terminal_tests
