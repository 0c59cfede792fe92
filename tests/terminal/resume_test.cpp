// Saved sessions: picked on the whole screen, renamed, shown and exported.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "terminal.hpp"

namespace cubepi::terminal_tests {
namespace {

const std::string down = "\x1b[B";

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

/// Two sessions of the directory; the name of the last one is "second".
class Resume : public ::testing::Test {
protected:
    Resume() {
        EXPECT_EQ(
            run_piped(home, {"run", "--offline", "--session", "first", "paint it blue"}).status, 0);
        EXPECT_EQ(
            run_piped(home, {"run", "--offline", "--session", "second", "write a song"}).status, 0);
    }
    Home home;
};

TEST_F(Resume, Picker_OpensTheMarkedSession) {
    Terminal chat(home, {"resume", "--offline"}, 80, 24);
    ASSERT_TRUE(chat.expect_on_screen("❯ write a song")) << chat.shown();
    ASSERT_TRUE(chat.answer_on_screen("  paint it blue", down + "\r")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("Session: first.")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("> paint it blue")) << chat.screen().text();
    chat.type("/quit\r");
    EXPECT_EQ(chat.wait(), 0);
    EXPECT_TRUE(has(chat.shown(), "cubepi chat --session first")) << chat.shown();
}

TEST_F(Resume, CtrlO_ShowsTheConversation) {
    Terminal chat(home, {"resume", "--offline"}, 80, 24);
    ASSERT_TRUE(chat.answer_on_screen("  paint it blue", down)) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("❯ paint it blue", "\x0f")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("## Assistant")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("You wrote: *paint it blue", "q")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("❯ paint it blue", "\r")) << chat.screen().text();
    EXPECT_TRUE(chat.expect_on_screen("Session: first.")) << chat.screen().text();
}

TEST_F(Resume, Picker_RenamesAndDeletes) {
    Terminal chat(home, {"resume", "--offline"}, 80, 24);
    ASSERT_TRUE(chat.answer_on_screen("❯ write a song", "\x12")) << chat.shown();
    ASSERT_TRUE(chat.answer_on_screen("title >", "The song\r")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("❯ The song", down)) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("❯ paint it blue", "\x1b[3~")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("Delete permanently?", "y")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_gone("paint it blue")) << chat.screen().text();
    chat.type("\x1b");
    EXPECT_EQ(chat.wait(), 0);
    const std::string list = run_piped(home, {"sessions", "list"}).out;
    EXPECT_TRUE(has(list, "The song")) << list;
    EXPECT_FALSE(has(list, "first")) << list;
}

TEST_F(Resume, Context_IsKnownBeforeTheFirstPrompt) {
    Terminal chat(home, {"chat", "--offline", "--no-save"}, 80, 24);
    ASSERT_TRUE(chat.answer_on_screen("talks to", "/context\r")) << chat.shown();
    EXPECT_TRUE(chat.expect_on_screen("system prompt")) << chat.screen().text();
}

TEST_F(Resume, Escape_LeavesWithoutChat) {
    Terminal chat(home, {"resume", "--offline"}, 80, 24);
    ASSERT_TRUE(chat.answer_on_screen("❯ write a song", "\x1b")) << chat.shown();
    EXPECT_EQ(chat.wait(), 0);
    EXPECT_FALSE(has(chat.shown(), "talks to")) << chat.shown();
}

TEST_F(Resume, Filter_FindsWordsOfAnAnswer) {
    Terminal chat(home, {"resume", "--offline"}, 80, 24);
    ASSERT_TRUE(chat.answer_on_screen("❯ write a song", "channel=")) << chat.shown();
    ASSERT_TRUE(chat.answer_on_screen("No session has this text", "\x15wrote: *paint"))
        << "the context of a prompt is not a part of it\n"
        << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("You wrote: *paint it blue", "\r")) << chat.screen().text();
    EXPECT_TRUE(chat.expect_on_screen("Session: first.")) << chat.screen().text();
}

TEST_F(Resume, Chat_SwitchesToAnotherSession) {
    Terminal chat(home, {"chat", "--offline", "--session", "second"}, 80, 24);
    ASSERT_TRUE(chat.answer_on_screen("Session: second.", "/resume\r")) << chat.shown();
    ASSERT_TRUE(chat.expect_on_screen("❯ ")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("  paint it blue", "blue\r")) << chat.screen().text();
    ASSERT_TRUE(chat.expect("Session: first.")) << chat.screen().text();
    chat.type("and then\r");
    ASSERT_TRUE(chat.expect_on_screen("You wrote: and then")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_gone("Esc stops ·")) << chat.screen().text();
    chat.type("/resume second\r");
    ASSERT_TRUE(chat.expect("Session: second.")) << chat.screen().text();
    chat.type("/resume nothing\r");
    ASSERT_TRUE(chat.expect_on_screen("this directory has no session 'nothing'"))
        << chat.screen().text();
    chat.type("/quit\r");
    EXPECT_EQ(chat.wait(), 0);
    const std::string listed = run_piped(home, {"sessions", "list"}).out;
    EXPECT_TRUE(has(listed, "first\t")) << listed;
    EXPECT_TRUE(has(listed, "\t4 messages\t")) << listed;
}

TEST_F(Resume, Rename_SetsTitleInChatAndCommand) {
    Terminal chat(home, {"resume", "first", "--offline"}, 80, 24);
    ASSERT_TRUE(chat.answer_on_screen("Session: first.", "/rename The blue one\r")) << chat.shown();
    ASSERT_TRUE(chat.expect_on_screen("The title of this session is 'The blue one'"))
        << chat.screen().text();
    chat.type("/quit\r");
    EXPECT_EQ(chat.wait(), 0);
    EXPECT_TRUE(has(run_piped(home, {"sessions", "list"}).out, "\tThe blue one\n"));
    EXPECT_EQ(run_piped(home, {"sessions", "rename", "The blue one", "Song\n2"}).status, 0);
    const std::string json = run_piped(home, {"sessions", "list", "--json"}).out;
    EXPECT_TRUE(has(json, R"("title":"Song 2")")) << json;
    EXPECT_TRUE(has(json, R"("title":null)")) << json;
    EXPECT_EQ(run_piped(home, {"sessions", "rename", "no such", "x"}).status, 2);
    Terminal again(home, {"chat", "-s", "first", "--offline"}, 80, 24);
    ASSERT_TRUE(again.answer_on_screen("“Song 2” · 2 messages", "/quit\r")) << again.shown();
    EXPECT_EQ(again.wait(), 0);
    EXPECT_TRUE(has(again.raw(), "]2;cubepi · Song 2")) << again.shown();
}

TEST_F(Resume, WithoutTerminal_NamesTheCommands) {
    const Piped piped = run_piped(home, {"resume", "--offline"});
    EXPECT_EQ(piped.status, 2) << piped.err;
    EXPECT_TRUE(has(piped.err, "cubepi resume NAME")) << piped.err;
    EXPECT_TRUE(has(run_piped(home, {"resume", "first", "--offline"}, "hello\n").out,
                    "You wrote: *hello*"));
}

TEST_F(Resume, OtherDirectory_IsWorkedIn) {
    home.work_in("elsewhere");
    Terminal chat(home, {"resume", "--offline", "--all"}, 80, 24);
    ASSERT_TRUE(chat.answer_on_screen("❯ write a song", "\r")) << chat.shown();
    ASSERT_TRUE(chat.answer_on_screen("Session: second.", "/quit\r")) << chat.screen().text();
    EXPECT_EQ(chat.wait(), 0);
    EXPECT_TRUE(has(chat.shown(), "cubepi chat --session second -C")) << chat.shown();
}

TEST_F(Resume, Export_WritesPageAndText) {
    const std::string page = (home.work() / "page.html").string();
    const std::string text = (home.work() / "text.md").string();
    const Piped written =
        run_piped(home, {"sessions", "export", "first", "--html", page, "--markdown", text});
    EXPECT_EQ(written.status, 0) << written.err;
    EXPECT_TRUE(has(read_file(page), "<h1>paint it blue</h1>")) << read_file(page);
    EXPECT_TRUE(has(read_file(page), "You wrote: *paint it blue")) << read_file(page);
    EXPECT_TRUE(has(read_file(text), "# paint it blue")) << read_file(text);
    EXPECT_NE(run_piped(home, {"sessions", "export", "first", "--html", page}).status, 0);
    EXPECT_EQ(run_piped(home, {"sessions", "export", "first", "--html", page, "-f"}).status, 0);
    EXPECT_EQ(run_piped(home, {"sessions", "export", "first"}).out, read_file(text));
    EXPECT_EQ(run_piped(home, {"sessions", "export", "nosuch"}).status, 2);
    EXPECT_EQ(run_piped(home, {"sessions", "export"}).status, 2);
    const Piped shown = run_piped(home, {"sessions", "show", "first", "-n", "1"});
    EXPECT_TRUE(has(shown.out, "## Assistant\n\nYou wrote: *paint it blue")) << shown.out;
    EXPECT_FALSE(has(shown.out, "## User")) << shown.out;
    EXPECT_TRUE(has(shown.err, "1 earlier messages")) << shown.err;
}

}  // namespace
}  // namespace cubepi::terminal_tests
