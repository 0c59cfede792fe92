// The commands of the chat, and what the end of a conversation looks like when it is resumed.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "terminal.hpp"

namespace cubepi::terminal_tests {
namespace {

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

std::string pasted(const std::string& text) { return "\x1b[200~" + text + "\x1b[201~"; }

/// The live chat, and the chat of plain lines.
class ChatCommand : public ::testing::TestWithParam<const char*> {
protected:
    ChatCommand() { home.set("TERM", GetParam()); }

    /// Enters a prompt and waits until its turn is over.
    ::testing::AssertionResult say(Terminal& chat, const std::string& text,
                                   const std::string& answer) const {
        chat.type(text + "\r");
        const bool live = std::string(GetParam()) != "dumb";
        const bool over =
            chat.expect(answer) && (live ? chat.expect_gone("Esc stops ·") : chat.expect("> "));
        if (over) return ::testing::AssertionSuccess();
        return ::testing::AssertionFailure() << chat.shown();
    }
    std::string answers() const { return home.script(R"(["First.", "Second.", "Third."])"); }

    Home home;
};

INSTANTIATE_TEST_SUITE_P(Of, ChatCommand, ::testing::Values("xterm-256color", "dumb"),
                         [](const auto& info) {
                             return std::string(info.param) == "dumb" ? "PlainLines" : "LiveChat";
                         });

TEST_P(ChatCommand, UnknownCommand_IsRefusedAndNotSent) {
    Terminal chat(home, {"chat", "--script", answers(), "--session", "s"});
    ASSERT_TRUE(chat.answer("> ", "/hlep\r")) << chat.shown();
    ASSERT_TRUE(chat.answer("Did you mean /help?", "/exit now\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("/exit takes no arguments")) << chat.shown();
    ASSERT_TRUE(say(chat, "/etc/hosts is a file", "First."));
    ASSERT_TRUE(say(chat, "//hlep", "Second."));
    chat.type("/quit\r");
    EXPECT_EQ(chat.wait(), 0);
    const std::string context =
        run_piped(home, {"tape", "export", "--messages", "--session", "s"}).out;
    EXPECT_TRUE(has(context, "\\n/etc/hosts is a file\"")) << context;
    EXPECT_TRUE(has(context, "\\n/hlep\"")) << context;
    EXPECT_FALSE(has(context, "/exit")) << context;
}

TEST_P(ChatCommand, LoneWords_LeaveOrHelp) {
    for (const char* word : {"exit", "quit", ",quit"}) {
        // Tall enough for the help.
        Terminal chat(home, {"chat", "--no-save", "--script", answers()}, 110, 90);
        ASSERT_TRUE(chat.answer("talks to", "?\r")) << chat.shown();
        ASSERT_TRUE(chat.expect("start a new session")) << chat.shown();
        chat.type(std::string(word) + "\r");
        EXPECT_EQ(chat.wait(), 0) << chat.shown();
        EXPECT_FALSE(has(chat.shown(), "First.")) << "the model was asked";
        EXPECT_FALSE(has(chat.shown(), "tasks stopped")) << chat.shown();
    }
}

TEST_P(ChatCommand, D117_TodoListOfModel_IsShown) {
    const std::string call =
        R"({"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1", "name": "write_todos",
        "arguments": {"todos": [{"content": "Read the parser", "status": "completed"},
                                {"content": "Write the \u001b[31mtest", "status": "in_progress"},
                                {"content": "Run it", "status": "pending"}]}}]})";
    Terminal chat(home,
                  {"chat", "--session", "s", "--script", home.script("[" + call + R"(, "One."])")},
                  100, 40);
    ASSERT_TRUE(chat.answer("> ", "/todo\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("(no to-dos)")) << chat.shown();
    ASSERT_TRUE(say(chat, "go", "One."));
    const std::string shown = chat.shown();
    EXPECT_TRUE(has(shown, "1 of 3 completed")) << shown;
    EXPECT_TRUE(has(shown, "✓ Read the parser")) << shown;
    EXPECT_TRUE(has(shown, "▸ Write the ")) << shown;
    EXPECT_TRUE(has(shown, "○ Run it")) << shown;
    EXPECT_FALSE(has(shown, "pending")) << shown;
    chat.type("/quit\r");
    EXPECT_EQ(chat.wait(), 0);
    Terminal again(home, {"chat", "--session", "s", "--script", answers()}, 100, 40);
    ASSERT_TRUE(again.answer("talks to", "/todo\r")) << again.shown();
    ASSERT_TRUE(again.expect("○ Run it")) << again.shown();
}

TEST_P(ChatCommand, BackgroundCommand_IsListedAndEnded) {
    const std::string call =
        R"({"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1", "name": "shell",
        "arguments": {"command": "echo begun; sleep 600", "background": true}}]})";
    Terminal chat(home,
                  {"chat", "--no-save", "-y", "--script", home.script("[" + call + R"(, "One."])")},
                  100, 40);
    ASSERT_TRUE(chat.expect("talks to")) << chat.shown();
    ASSERT_TRUE(say(chat, "go", "One."));
    const bool live = std::string(GetParam()) != "dumb";
    if (live) {
        EXPECT_TRUE(chat.expect_on_screen("1 command runs")) << chat.screen().text();
    }
    chat.type("/ps\r");
    ASSERT_TRUE(chat.expect("sh1        runs: echo begun; sleep 600")) << chat.shown();
    chat.type("/tasks sh1\r");
    ASSERT_TRUE(chat.expect("begun")) << chat.shown();
    if (live) chat.type("q");
    chat.type("/tasks cancel sh9\r");
    ASSERT_TRUE(chat.expect("nothing with this id runs")) << chat.shown();
    chat.type("/tasks cancel sh1\r");
    ASSERT_TRUE(chat.expect("The command is being ended.")) << chat.shown();
    if (live) {
        EXPECT_TRUE(chat.expect_gone("1 command runs")) << chat.screen().text();
    }
}

TEST_P(ChatCommand, D119_Goal_ContinuesUntilAchieved) {
    const auto verdict = [](const std::string& achieved, const std::string& reason) {
        return R"({"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "g", "name": "structured_output",
            "arguments": {"achieved": )" +
               achieved + R"(, "reason": ")" + reason + "\"}}]}";
    };
    const std::string script = "[\"Begun.\", " + verdict("false", "no file") + ", \"Finished.\", " +
                               verdict("true", "it exists") + ", \"Hello.\"]";
    Terminal chat(home, {"chat", "--session", "s", "--script", home.script(script)}, 100, 40);
    ASSERT_TRUE(chat.answer("> ", "/goal\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("(no goal")) << chat.shown();
    ASSERT_TRUE(say(chat, "/goal write a file", "Finished."));
    EXPECT_TRUE(has(chat.shown(), "The goal is not achieved yet: no file")) << chat.shown();
    chat.type("/goal\r");
    ASSERT_TRUE(chat.expect("Goal (achieved, 2 of 10 evaluations): write a file")) << chat.shown();
    EXPECT_TRUE(has(chat.shown(), "! The goal is achieved: it exists")) << chat.shown();
    chat.type("/goal clear\r");
    ASSERT_TRUE(chat.expect("Goal cleared: write a file")) << chat.shown();
    ASSERT_TRUE(say(chat, "hi", "Hello."));
}

TEST_P(ChatCommand, Permissions_ListsAndWithdrawsRules) {
    write_file(home.config(), "allow: [\"fetch: https://example.org\"]\n");
    const std::string call =
        R"({"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1", "name": "write",
        "arguments": {"path": "a", "content": "x"}}]})";
    Terminal chat(home,
                  {"chat", "--no-save", "--script",
                   home.script("[" + call + R"(, "One.", )" + call + R"(, "Two."])")},
                  120, 50);
    ASSERT_TRUE(chat.answer("talks to", "go\r")) << chat.shown();
    ASSERT_TRUE(chat.answer("[e]dit >", "a\r")) << chat.shown();
    ASSERT_TRUE(chat.answer("always in this session; save it permanently?  [y]es ›[n]o >", "\r"))
        << chat.shown();
    ASSERT_TRUE(chat.expect("for this session only; /permissions lists")) << chat.shown();
    ASSERT_TRUE(chat.answer("One.", "/permissions\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("1  allow fetch: https://example.org  (")) << chat.shown();
    ASSERT_TRUE(chat.expect("2  allow write: *  (this session)")) << chat.shown();
    chat.type("/rules remove 2\r");
    ASSERT_TRUE(chat.expect("Withdrawn: write: *")) << chat.shown();
    chat.type("/permissions remove 1\r");
    ASSERT_TRUE(chat.expect("Withdrawn, also from the configuration: fetch:")) << chat.shown();
    chat.type("/rules remove 1\r");
    ASSERT_TRUE(chat.expect("'1' is not the number of a rule")) << chat.shown();
    chat.type("/permissions\r");
    ASSERT_TRUE(chat.expect("No rule allows a call; tools that write")) << chat.shown();
    chat.type("/mode all\r");
    ASSERT_TRUE(chat.answer("Mode all: ", "/permissions\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("There are no rules.")) << chat.shown();
    chat.type("/mode ask\r");
    ASSERT_TRUE(chat.expect("Mode ask: ")) << chat.shown();
    EXPECT_FALSE(has(read_file(home.config()), "example.org")) << read_file(home.config());
    chat.type("again\r");
    ASSERT_TRUE(chat.expect("[e]dit >")) << "the rule is withdrawn\n" << chat.shown();
}

TEST_P(ChatCommand, ShellOutput_IsShownAndReachesTheModel) {
    Terminal chat(home, {"chat", "--script", answers(), "--session", "s"});
    ASSERT_TRUE(chat.answer("> ", "!echo from-the-shell | tr a-z A-Z\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("FROM-THE-SHELL")) << chat.shown();
    ASSERT_TRUE(say(chat, "what was that?", "First."));
    chat.type("/quit\r");
    EXPECT_EQ(chat.wait(), 0);
    const std::string context =
        run_piped(home, {"tape", "export", "--messages", "--session", "s"}).out;
    EXPECT_TRUE(has(context, "$ echo from-the-shell | tr a-z A-Z\\nFROM-THE-SHELL")) << context;
}

TEST_P(ChatCommand, StatusAndCost_SumUpTheSession) {
    Terminal chat(home, {"chat", "--script", answers(), "--session", "plan"});
    ASSERT_TRUE(chat.expect("> "));
    ASSERT_TRUE(say(chat, "hello", "First."));
    chat.type("/status\r");
    ASSERT_TRUE(chat.expect("plan, 2 messages")) << chat.shown();
    ASSERT_TRUE(chat.expect("directory")) << chat.shown();
    ASSERT_TRUE(chat.answer("rules      none", "/cost\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("1 of a model")) << chat.shown();
    ASSERT_TRUE(chat.answer("cost       unknown (no list price for", "/quit\r")) << chat.shown();
    EXPECT_EQ(chat.wait(), 0);
}

TEST_P(ChatCommand, Export_WritesMarkdownWithoutReplacingAFile) {
    Terminal chat(home, {"chat", "--script", answers()});
    ASSERT_TRUE(chat.answer("> ", "/export out.md\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("there is nothing to export yet")) << chat.shown();
    ASSERT_TRUE(say(chat, "hello", "First."));
    chat.type("/export out.md\r");
    ASSERT_TRUE(chat.expect("Wrote 2 messages to ")) << chat.shown();
    const std::string text = read_file(home.work() / "out.md");
    EXPECT_EQ(text, "# hello\n\n## User\n\nhello\n\n## Assistant\n\nFirst.\n\n");
    ASSERT_TRUE(say(chat, "again", "Second."));
    chat.type("/export out.md\r");
    ASSERT_TRUE(chat.expect("exists already")) << chat.shown();
    EXPECT_EQ(read_file(home.work() / "out.md"), text);
    chat.type("/quit\r");
    EXPECT_EQ(chat.wait(), 0);
}

TEST_P(ChatCommand, New_BeginsASessionAndNamesThePrevious) {
    Terminal chat(home, {"chat", "--script", answers(), "--session", "plan"});
    ASSERT_TRUE(chat.expect("> "));
    ASSERT_TRUE(say(chat, "first prompt", "First."));
    chat.type("/new\r");
    ASSERT_TRUE(chat.expect("New session")) << chat.shown();
    ASSERT_TRUE(chat.expect("cubepi chat --session plan")) << chat.shown();
    ASSERT_TRUE(say(chat, "second prompt", "Second."));
    chat.type("/quit\r");
    EXPECT_EQ(chat.wait(), 0);
    const std::string listed = run_piped(home, {"sessions", "list"}).out;
    EXPECT_TRUE(has(listed, "plan\t")) << listed;
    const std::string before =
        run_piped(home, {"tape", "export", "--messages", "--session", "plan"}).out;
    EXPECT_TRUE(has(before, "first prompt")) << before;
    EXPECT_FALSE(has(before, "second prompt")) << before;
}

TEST_P(ChatCommand, TapeReset_AsksAndArchives) {
    Terminal chat(home, {"chat", "--script", answers(), "--session", "plan"});
    ASSERT_TRUE(chat.expect("> "));
    ASSERT_TRUE(say(chat, "first", "First."));
    chat.type(",tape_reset\r");
    ASSERT_TRUE(chat.expect("archives and removes the ")) << chat.shown();
    ASSERT_TRUE(chat.answer("run it?  [y]es", "n\r")) << chat.shown();
    ASSERT_TRUE(chat.answer("Not run.", "/status\r")) << chat.shown();
    ASSERT_TRUE(chat.answer("plan, 2 messages", ",tape_reset\r")) << chat.shown();
    ASSERT_TRUE(chat.answer("run it?  [y]es", "y\r")) << chat.shown();
    ASSERT_TRUE(chat.answer("Archived:", "/status\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("plan, 0 messages")) << chat.shown();
}

TEST(PastedCommand, ShellCommand_AsksBeforeItRuns) {
    const Home home;
    Terminal chat(home, {"chat", "--offline"});
    ASSERT_TRUE(chat.answer("> ", pasted(",touch made") + "\r")) << chat.shown();
    ASSERT_TRUE(chat.expect_on_screen("The pasted text runs as a shell command:"))
        << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("run it?  [y]es  [n]o >", "n\r")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("Not run.")) << chat.screen().text();
    EXPECT_FALSE(std::filesystem::exists(home.work() / "made"));
    chat.type(",echo " + pasted("typed-comma") + "\r");
    ASSERT_TRUE(chat.answer("typed-comma\n", pasted("!touch made") + "\r")) << chat.shown();
    ASSERT_TRUE(chat.answer("run it?  [y]es  [n]o >", "y\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("(no output)")) << chat.screen().text();
    EXPECT_TRUE(std::filesystem::exists(home.work() / "made"));
    chat.type(pasted(",tape_info") + "\r");
    ASSERT_TRUE(chat.expect("entries: ")) << chat.screen().text();
}

TEST(BangCommand, Esc_StopsTheCommand) {
    const Home home;
    Terminal chat(home, {"chat", "--offline"});
    ASSERT_TRUE(chat.answer("> ", "!touch begun; sleep 600\r")) << chat.shown();
    ASSERT_TRUE(chat.answer("Esc stops ·", "\x1b")) << chat.shown();
    ASSERT_TRUE(chat.answer_on_screen("stopped.", "still there\r")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("You wrote: still there")) << chat.screen().text();
}

TEST(CopyCommand, LastAnswer_IsWrittenAsOsc52) {
    const Home home;
    Terminal chat(home, {"chat", "--script", home.script(R"(["Man"])")});
    ASSERT_TRUE(chat.answer("> ", "/copy\r")) << chat.shown();
    ASSERT_TRUE(chat.answer("there is no answer to copy", "go\r")) << chat.shown();
    ASSERT_TRUE(chat.expect_on_screen("Man")) << chat.shown();
    ASSERT_TRUE(chat.expect_gone("Esc stops ·")) << chat.shown();
    chat.type("/copy\r");
    ASSERT_TRUE(chat.expect("Sent 3 bytes to the terminal's clipboard")) << chat.shown();
    EXPECT_TRUE(has(chat.raw(), "\x1b]52;c;TWFu\x07"));
}

TEST_P(ChatCommand, Resume_ShowsTheEndOfTheConversation) {
    std::string answers = "[";
    for (int i = 0; i < 30; ++i)
        answers += (i ? ", " : "") + std::string("\"answer-") + std::to_string(i) + ".\"";
    const std::string script = home.script(answers + "]");
    {
        Terminal chat(home, {"chat", "--script", script, "--session", "plan"});
        ASSERT_TRUE(chat.expect("New session 'plan'.")) << chat.shown();
        ASSERT_TRUE(chat.expect("> "));
        for (int i = 0; i < 30; ++i) {
            ASSERT_TRUE(
                say(chat, "prompt-" + std::to_string(i), "answer-" + std::to_string(i) + "."));
        }
        chat.type("/quit\r");
        EXPECT_EQ(chat.wait(), 0);
    }
    for (const int columns : {80, 40}) {
        Terminal chat(home, {"chat", "--offline", "--continue"},
                      static_cast<unsigned short>(columns), 24);
        ASSERT_TRUE(chat.expect("> prompt-29")) << chat.shown();
        ASSERT_TRUE(chat.expect("answer-29.")) << chat.shown();
        ASSERT_TRUE(chat.expect("“prompt-0” · 60 messages")) << chat.shown();
        EXPECT_FALSE(has(chat.shown(), "prompt-3\n")) << "a screenful is enough";
        EXPECT_FALSE(has(chat.shown(), "New session"));
        chat.type("/quit\r");
        EXPECT_EQ(chat.wait(), 0);
    }
    Terminal misspelt(home, {"chat", "--offline", "--session", "pln"});
    ASSERT_TRUE(misspelt.expect("New session 'pln'. Did you mean 'plan'?")) << misspelt.shown();
}

TEST(OpenSession, OtherProcess_CannotDeleteIt) {
    const Home home;
    {
        Terminal chat(home, {"chat", "--offline", "--session", "plan"});
        ASSERT_TRUE(chat.answer("> ", "hello\r")) << chat.shown();
        ASSERT_TRUE(chat.expect("a real model.")) << chat.shown();
        ASSERT_TRUE(chat.expect_gone("Esc stops ·")) << chat.shown();
        const Piped refused = run_piped(home, {"sessions", "delete", "plan"});
        EXPECT_EQ(refused.status, 4) << refused.err;
        EXPECT_TRUE(has(refused.err, "it is open in process ")) << refused.err;
        EXPECT_TRUE(has(run_piped(home, {"sessions", "list"}).out, "plan\t"));
        chat.type("/quit\r");
        EXPECT_EQ(chat.wait(), 0);
    }
    Terminal asks(home, {"sessions", "delete", "plan"});
    ASSERT_TRUE(asks.answer("Delete session plan (2 messages) permanently? [y/N]", "n\r"))
        << asks.shown();
    EXPECT_EQ(asks.wait(), 1) << asks.shown();
    EXPECT_EQ(run_piped(home, {"sessions", "delete", "plan"}).status, 0);
    EXPECT_EQ(run_piped(home, {"sessions", "list"}).out, "");
}

TEST(PipedChat, B11_PipedInput_RunsNoCommands) {
    const Home home;
    const Piped chat = run_piped(home, {"chat", "--offline"}, "/nwe\n!touch made\n/export x.md\n");
    EXPECT_TRUE(has(chat.err, "Did you mean /new?")) << chat.err;
    EXPECT_TRUE(has(chat.err, "/export works only at a terminal")) << chat.err;
    EXPECT_TRUE(has(chat.out, "touch made")) << chat.out;
    EXPECT_EQ(chat.status, 2);
    EXPECT_FALSE(std::filesystem::exists(home.work() / "made"));
}

}  // namespace
}  // namespace cubepi::terminal_tests
