// Prompt templates, side questions and /context in a chat.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "terminal.hpp"

namespace cubepi::terminal_tests {
namespace {

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

TEST(PromptTemplates, Command_SendsItsText) {
    const Home home;
    std::filesystem::create_directories(home.work() / ".cubepi/prompts");
    write_file(home.work() / ".cubepi/prompts/greet.md",
               "---\ndescription: greets by name\nargument-hint: NAME\n---\nSay hello to $1.");
    Terminal chat(home, {"chat", "--offline", "--session", "s", "--trust"}, 80, 24);
    ASSERT_TRUE(chat.answer_on_screen("talks to", "/gre")) << chat.shown();
    ASSERT_TRUE(chat.answer_on_screen("❯ /greet   greets by name", "\r")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("> /greet\n", "Ann\r")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("You wrote: Say hello to Ann.")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_gone("Esc stops ·")) << chat.screen().text();
    // It is longer than the screen.
    chat.type("/help\r");
    ASSERT_TRUE(chat.answer_on_screen("Commands and keys", "/greets by\r")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("greets by name (prompt of this project)"))
        << chat.screen().text();
    chat.type("q");
    ASSERT_TRUE(chat.expect_gone("Commands and keys")) << chat.screen().text();
}

TEST(PromptTemplates, SideQuestion_IsNotStored) {
    const Home home;
    ASSERT_EQ(run_piped(home, {"run", "--offline", "--session", "s", "first words"}).status, 0);
    Terminal chat(home, {"chat", "--offline", "--session", "s"}, 80, 24);
    ASSERT_TRUE(chat.answer_on_screen("Session: s.", "/btw is it late?\r")) << chat.shown();
    ASSERT_TRUE(chat.expect_on_screen("(not a part of the session)")) << chat.screen().text();
    EXPECT_TRUE(has(chat.screen().text(), "is it late?")) << chat.screen().text();
    chat.type("/quit\r");
    EXPECT_EQ(chat.wait(), 0);
    const std::string messages =
        run_piped(home, {"tape", "export", "--messages", "--session", "s"}).out;
    EXPECT_TRUE(has(messages, "first words")) << messages;
    EXPECT_FALSE(has(messages, "late")) << messages;
}

TEST(PromptTemplates, Context_ListsPartsOfTheRequest) {
    const Home home;
    write_file(home.work() / "AGENTS.md", "Write short answers.\n");
    ASSERT_EQ(run_piped(home, {"run", "--offline", "--session", "s", "first words"}).status, 0);
    Terminal chat(home, {"chat", "--trust", "--offline", "--session", "s"}, 80, 24);
    ASSERT_TRUE(chat.answer_on_screen("Session: s.", "/context\r")) << chat.shown();
    ASSERT_TRUE(chat.expect_on_screen("  answers ")) << chat.screen().text();
    const std::string text = chat.screen().text();
    EXPECT_TRUE(has(text, "The next request has about")) << text;
    EXPECT_TRUE(has(text, "  instructions ")) << text;
    EXPECT_TRUE(has(text, " tools\n")) << text;
    chat.type("/quit\r");
    EXPECT_EQ(chat.wait(), 0);
    EXPECT_TRUE(has(run_piped(home, {"sessions", "list"}).out, "\t2 messages\t"));
}

}  // namespace
}  // namespace cubepi::terminal_tests
