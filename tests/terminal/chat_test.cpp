// `cubepi chat` and `cubepi run` at a terminal.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "source_tree.hpp"
#include "terminal.hpp"

namespace cubepi::terminal_tests {
namespace {

std::string write_call(const std::string& id, const std::string& path, const std::string& content) {
    return R"({"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": ")" + id +
           R"(", "name": "write", "arguments": {"path": ")" + path + R"(", "content": ")" +
           content + R"("}}]})";
}

std::size_t count_of(const std::string& text, const std::string& what) {
    std::size_t count = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
        ++count;
    return count;
}

TEST(RunAtATerminal, Answer_ShowsMarkdownAndCost) {
    const Home home;
    Terminal run(home, {"run", "--script", home.script(R"(["Hello **you**."])"), "hi"});
    EXPECT_EQ(run.wait(), 0) << run.shown();
    EXPECT_NE(run.raw().find("\x1b[1myou"), std::string::npos) << run.raw();
    EXPECT_NE(run.shown().find("Hello you."), std::string::npos) << run.shown();
    EXPECT_NE(run.shown().find(" out, "), std::string::npos) << run.shown();
}

TEST(RunAtATerminal, CtrlC_AbortsTheRun) {
    const Home home;
    const std::string slow =
        R"({"tokens_per_second": 5, "answers": [")" + std::string(4000, 'x') + R"("]})";
    Terminal run(home, {"run", "--script", home.script(slow), "hi"});
    ASSERT_TRUE(run.answer("xxxx", "\x03")) << run.shown();
    EXPECT_EQ(run.wait(), 130) << run.shown();
    EXPECT_NE(run.shown().find("stopped"), std::string::npos);
}

TEST(RunAtATerminal, D7_AbortedRun_PrintsLastEventsAndSavesConversation) {
    const Home home;
    const std::string slow =
        R"({"tokens_per_second": 5, "answers": [")" + std::string(4000, 'x') + R"("]})";
    Terminal run(home, {"run", "--json", "--session", "plan", "--script", home.script(slow), "hi"});
    ASSERT_TRUE(run.answer("text_delta", "\x03")) << run.shown();
    EXPECT_TRUE(run.expect("\"type\":\"agent_end\"")) << run.shown();
    EXPECT_EQ(run.wait(), 130) << run.shown();
    const std::string saved = run_piped(home, {"tape", "show", "--session", "plan"}).out;
    EXPECT_NE(saved.find("assistant: x"), std::string::npos) << saved;
}

TEST(RunAtATerminal, SecondCtrlC_EndsAtOnce) {
    const Home home;
    const std::string slow =
        R"({"tokens_per_second": 5, "answers": [")" + std::string(4000, 'x') + R"("]})";
    Terminal run(home, {"run", "--script", home.script(slow), "hi"});
    ASSERT_TRUE(run.answer("xxxx", "\x03\x03")) << run.shown();
    EXPECT_EQ(run.wait(), 130) << run.shown();
}

TEST(Chat, Message_IsAnsweredAndQuitLeaves) {
    const Home home;
    Terminal chat(home, {"chat", "--offline"});
    ASSERT_TRUE(chat.expect("talks to")) << chat.shown();
    ASSERT_TRUE(chat.answer("> ", "hello there\r")) << chat.shown();
    ASSERT_TRUE(chat.expect_on_screen("You wrote: hello there")) << chat.shown();
    ASSERT_TRUE(chat.expect_gone("Esc stops ·")) << chat.shown();
    chat.type("/help\r");
    ASSERT_TRUE(chat.expect_on_screen("leave (also exit")) << chat.shown();
    ASSERT_TRUE(chat.answer_on_screen("q closes", "q")) << chat.shown();
    ASSERT_TRUE(chat.expect_gone("q closes")) << chat.shown();
    chat.type("/quit\r");
    EXPECT_EQ(chat.wait(), 0) << chat.shown();
    const std::string history = read_file(home.root() / "home/.local/state/cubepi/history");
    EXPECT_NE(history.find("hello"), std::string::npos) << history;
}

TEST(Chat, UnwritableHistory_ChatStillWorks) {
    for (const char* term : {"xterm", "dumb"}) {
        Home home;
        home.set("TERM", term);
        write_file(home.root() / "a-file", "");
        home.set("XDG_STATE_HOME", (home.root() / "a-file").string());
        Terminal chat(home, {"chat", "--offline"});
        ASSERT_TRUE(chat.answer("> ", "hello there\r")) << chat.shown();
        ASSERT_TRUE(chat.expect("You wrote")) << chat.shown();
        ASSERT_TRUE(chat.answer("> ", "/quit\r")) << chat.shown();
        EXPECT_EQ(chat.wait(), 0) << chat.shown();
    }
}

TEST(Chat, CtrlD_LeavesTheChat) {
    const Home home;
    Terminal chat(home, {"chat", "--offline"});
    ASSERT_TRUE(chat.answer("> ", "\x04")) << chat.shown();
    EXPECT_EQ(chat.wait(), 0) << chat.shown();
}

TEST(Chat, Line_CanBeEditedAndRepeated) {
    const Home home;
    Terminal chat(home, {"chat", "--offline"});
    ASSERT_TRUE(chat.answer("> ", "öne twi\x7f\x7fwo\x01\x1b[C\x7fo\r")) << chat.shown();
    ASSERT_TRUE(chat.expect_on_screen("You wrote: one two")) << chat.shown();
    ASSERT_TRUE(chat.expect_gone("Esc stops ·")) << chat.shown();
    chat.type("\x1b[A");
    ASSERT_TRUE(chat.expect_on_screen("> one two\nmode")) << chat.screen().text();
    chat.type("\r");
    ASSERT_TRUE(chat.expect_gone("> one two\nmode")) << chat.screen().text();
    chat.type("/quit\r");
    EXPECT_EQ(chat.wait(), 0);
    EXPECT_EQ(count_of(chat.screen().text(), "> one two"), 2u) << chat.screen().text();
}

TEST(Chat, PastedBlock_IsOneInput) {
    for (const char* term : {"xterm", "dumb"}) {
        Home home;
        home.set("TERM", term);
        Terminal chat(home, {"chat", "--offline"});
        ASSERT_TRUE(chat.answer("> ", "alpha line\rbeta line\rgamma line\r")) << chat.shown();
        ASSERT_TRUE(chat.expect("gamma line")) << chat.shown();
        ASSERT_TRUE(chat.expect("a script, not a mind")) << chat.shown();
        ASSERT_TRUE(chat.answer("> ", "/quit\r")) << chat.shown();
        EXPECT_EQ(chat.wait(), 0) << chat.shown();
        EXPECT_EQ(count_of(chat.screen().text(), "You wrote:"), 1u) << chat.screen().text();
    }
}

TEST(Chat, Yes_RunsTheCall) {
    const Home home;
    const std::string script = "[" + write_call("c1", "a.txt", "from y") + R"(, "Written."])";
    Terminal chat(home, {"chat", "--script", home.script(script)});
    ASSERT_TRUE(chat.answer("> ", "write\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("[y]es  [n]o")) << chat.shown();
    ASSERT_TRUE(chat.expect("> "));
    EXPECT_FALSE(std::filesystem::exists(home.work() / "a.txt")) << "it did not wait";
    chat.type("y\r");
    ASSERT_TRUE(chat.expect("Written.")) << chat.shown();
    EXPECT_EQ(read_file(home.work() / "a.txt"), "from y");
}

/// A model that calls one tool, then says a word.
std::string calls(const std::string& tool, const std::string& arguments) {
    return R"([{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1", "name": ")" +
           tool + R"(", "arguments": )" + arguments + R"(}]}, "That is all."])";
}

constexpr auto eight_lines = "1\n2\n3\n4\n5\n6\n7\n8\n";

TEST(Chat, Overwrite_IsShownAsADiff) {
    const Home home;
    write_file(home.work() / "calc.py", eight_lines);
    const std::string script =
        calls("write", R"({"path": "calc.py", "content": "1\n2\n3\n4\nfive\n6\n7\n8\n"})");
    Terminal chat(home, {"chat", "--script", home.script(script)});
    ASSERT_TRUE(chat.answer("> ", "go\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("? write replaces 8 lines of calc.py (+1 -1)")) << chat.shown();
    ASSERT_TRUE(chat.expect("@@ -2,7 +2,7 @@\n      2  2\n")) << chat.shown();
    ASSERT_TRUE(chat.expect("      5 -5\n      5 +five\n")) << chat.shown();
    ASSERT_TRUE(chat.answer("[y]es", "y\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("wrote 8 lines, replaces 8 lines of calc.py (+1 -1)")) << chat.shown();
    ASSERT_TRUE(chat.expect("That is all.")) << chat.shown();
}

TEST(Chat, D170_AcceptedChange_IsShownOnce) {
    const std::string script =
        calls("write", R"({"path": "calc.py", "content": "1\n2\n3\n4\nfive\n6\n7\n8\n"})");
    for (const char* term : {"xterm", "dumb"}) {
        Home home;
        home.set("TERM", term);
        write_file(home.work() / "calc.py", eight_lines);
        Terminal asked(home, {"chat", "-s", "s", "--script", home.script(script)});
        ASSERT_TRUE(asked.answer("> ", "go\r")) << asked.shown();
        ASSERT_TRUE(asked.answer("[e]dit > ", "y\r")) << asked.shown();
        ASSERT_TRUE(asked.expect("● write calc.py\n")) << asked.shown();
        ASSERT_TRUE(asked.expect_on_screen("That is all.")) << asked.shown();
        EXPECT_EQ(count_of(asked.screen().text(), "+five"), 1u) << asked.screen().text();
        (void)asked.hang_up();
        Terminal resumed(home, {"chat", "-s", "s", "--offline"});
        ASSERT_TRUE(resumed.expect_on_screen("messages")) << resumed.shown();
        EXPECT_EQ(count_of(resumed.screen().text(), "+five"), 1u) << resumed.screen().text();
        write_file(home.work() / "calc.py", eight_lines);
        Terminal unasked(home, {"chat", "--yes", "--script", home.script(script)});
        ASSERT_TRUE(unasked.answer("> ", "go\r")) << unasked.shown();
        ASSERT_TRUE(unasked.expect_on_screen("That is all.")) << unasked.shown();
        EXPECT_EQ(count_of(unasked.screen().text(), "+five"), 1u) << unasked.screen().text();
    }
}

TEST(Chat, SubagentOfCommand_CountsInTheStatusLine) {
    const Home home;
    Terminal chat(home, {"chat", "--offline", "--no-save"});
    ASSERT_TRUE(chat.answer("> ", ",subagent prompt=hello\r")) << chat.shown();
    EXPECT_TRUE(chat.expect_on_screen(" in, ")) << chat.screen().text();
}

TEST(Chat, CreateAndEdit_AreNamedAsSuch) {
    const Home home;
    Terminal created(
        home, {"chat", "--script",
               home.script(calls("write", R"({"path": "src/new.py", "content": "a\nb\n"})"))});
    ASSERT_TRUE(created.answer("> ", "go\r")) << created.shown();
    ASSERT_TRUE(created.expect("? write creates src/new.py, 2 lines")) << created.shown();
    ASSERT_TRUE(created.answer("[e]dit > ", "n\r")) << created.shown();
    ASSERT_TRUE(created.expect("That is all.")) << created.shown();
    EXPECT_FALSE(std::filesystem::exists(home.work() / "src"));
    write_file(home.work() / "calc.py", "a\nb\na\n");
    Terminal edited(
        home, {"chat", "--script", home.script(calls("edit", R"({"path": "calc.py", "old_text": "a",
                               "new_text": "c", "all": true})"))});
    ASSERT_TRUE(edited.answer("> ", "go\r")) << edited.shown();
    ASSERT_TRUE(edited.expect("? edit changes 2 lines of calc.py (+2 -2)")) << edited.shown();
    ASSERT_TRUE(edited.expect("      1 -a\n      1 +c\n      2  b\n      3 -a\n      3 +c\n"));
    ASSERT_TRUE(edited.answer("[e]dit > ", "y\r")) << edited.shown();
    ASSERT_TRUE(edited.expect("That is all.")) << edited.shown();
    EXPECT_EQ(read_file(home.work() / "calc.py"), "c\nb\nc\n");
}

TEST(Chat, ImpossibleCall_IsRefusedWithoutAQuestion) {
    const Home home;
    write_file(home.work() / "calc.py", "a\n");
    const std::vector<std::pair<std::string, std::string>> cases = {
        {calls("edit", R"({"path": "calc.py", "old_text": "zz", "new_text": "c"})"),
         "old_text does not occur in calc.py"},
        {calls("write", R"({"path": "../out.py", "content": "x"})"), "is outside of the workspace"},
        {calls("write", R"({"content": "x"})"), "✗ path: field required"},
    };
    for (const auto& [script, error] : cases) {
        Terminal chat(home, {"chat", "--script", home.script(script)});
        ASSERT_TRUE(chat.answer("> ", "go\r")) << chat.shown();
        ASSERT_TRUE(chat.expect(error)) << chat.shown();
        ASSERT_TRUE(chat.expect("That is all.")) << chat.shown();
        EXPECT_EQ(chat.shown().find("[y]es"), std::string::npos) << chat.shown();
    }
}

TEST(Chat, FileChangedDuringQuestion_IsNotOverwritten) {
    const Home home;
    write_file(home.work() / "calc.py", eight_lines);
    Terminal chat(home, {"chat", "--script",
                         home.script(calls("write", R"({"path": "calc.py", "content": "x\n"})"))});
    ASSERT_TRUE(chat.answer("> ", "go\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("[y]es")) << chat.shown();
    ASSERT_TRUE(chat.expect("> ")) << chat.shown();
    write_file(home.work() / "calc.py", "precious\n");
    chat.type("y\r");
    ASSERT_TRUE(chat.expect("calc.py has changed since this call was approved")) << chat.shown();
    ASSERT_TRUE(chat.expect("That is all.")) << chat.shown();
    EXPECT_EQ(read_file(home.work() / "calc.py"), "precious\n");
}

TEST(Chat, No_RefusesTheCall) {
    const Home home;
    const std::string script = "[" + write_call("c1", "a.txt", "x") + R"(, "A pity."])";
    Terminal chat(home, {"chat", "--script", home.script(script)});
    ASSERT_TRUE(chat.answer("> ", "write\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("[y]es  [n]o")) << chat.shown();
    ASSERT_TRUE(chat.answer("> ", "n\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("refused")) << chat.shown();
    ASSERT_TRUE(chat.expect("A pity.")) << chat.shown();
    EXPECT_FALSE(std::filesystem::exists(home.work() / "a.txt"));
}

TEST(Chat, Always_AsksNoMore) {
    const Home home;
    const std::string script = "[" + write_call("c1", "a.txt", "one") + "," +
                               write_call("c2", "b.txt", "two") + R"(, "Both."])";
    Terminal chat(home, {"chat", "--script", home.script(script)});
    ASSERT_TRUE(chat.answer("> ", "write\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("always adds: write: *")) << chat.shown();
    ASSERT_TRUE(chat.answer("> ", "a\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("save it permanently?")) << chat.shown();
    ASSERT_TRUE(chat.answer("> ", "y\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("Both.")) << chat.shown();
    EXPECT_EQ(count_of(chat.screen().text(), "[e]dit"), 1u) << chat.screen().text();
    EXPECT_EQ(read_file(home.work() / "b.txt"), "two");
    EXPECT_NE(read_file(home.config()).find("write: *"), std::string::npos);
}

TEST(Chat, D72_WriteToAgentsMd_ExplainsTheMissingRule) {
    const Home home;
    write_file(home.config(), "allow: [\"write: *\"]\n");
    const std::string script = "[" + write_call("c1", "AGENTS.md", "x") + R"(, "A pity."])";
    Terminal chat(home, {"chat", "--script", home.script(script)}, 160, 40);
    ASSERT_TRUE(chat.answer("> ", "write\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("Always needs approval: it becomes instructions of later turns"))
        << chat.shown();
    ASSERT_TRUE(chat.answer("[y]es  [n]o  [r]eason  [e]dit > ", "n\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("A pity.")) << chat.shown();
    EXPECT_FALSE(std::filesystem::exists(home.work() / "AGENTS.md"));
}

TEST(Chat, D72_Always_AllowsExactCommandInItsDirectory) {
    const Home home;
    std::filesystem::create_directory(home.work() / "sub");
    for (const char* directory : {"", "sub"}) {
        write_file(home.work() / directory / "b.sh", "echo ran >> ran\n");
        std::filesystem::permissions(home.work() / directory / "b.sh",
                                     std::filesystem::perms(0755));
    }
    const auto call = [](const std::string& id, const std::string& more) {
        return R"({"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": ")" + id +
               R"(", "name": "shell", "arguments": {"command": "./b.sh")" + more + "}}]}";
    };
    const std::string script = "[" + call("c1", "") + "," + call("c2", "") + "," +
                               call("c3", R"(, "working_directory": "sub")") + R"(, "Enough."])";
    Terminal chat(home, {"chat", "--script", home.script(script)}, 160, 40);
    ASSERT_TRUE(chat.answer("> ", "go\r")) << chat.shown();
    const std::string work = std::filesystem::canonical(home.work()).string();
    ASSERT_TRUE(chat.expect("always adds: shell: ./b.sh (only in this directory)")) << chat.shown();
    ASSERT_TRUE(chat.answer("[e]dit > ", "a\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("save it permanently?")) << chat.shown();
    ASSERT_TRUE(chat.answer("> ", "n\r")) << chat.shown();
    // The second call runs, and the third one, elsewhere, is asked about.
    ASSERT_TRUE(chat.expect("always adds: shell: ./b.sh (only in " + work + "/sub)"))
        << chat.shown();
    ASSERT_TRUE(chat.answer("[e]dit > ", "n\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("Enough.")) << chat.shown();
    EXPECT_EQ(read_file(home.work() / "ran"), "ran\nran\n");
    EXPECT_FALSE(std::filesystem::exists(home.work() / "sub" / "ran"));
}

TEST(Chat, D54_EditedCall_ShowsWhatRan) {
    const Home home;
    const std::string script =
        R"([{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1", "name": "shell",
        "arguments": {"command": "touch two"}}]}, "Enough."])";
    Terminal chat(home, {"chat", "-s", "s", "--script", home.script(script)}, 120, 40);
    ASSERT_TRUE(chat.answer("> ", "go\r")) << chat.shown();
    ASSERT_TRUE(chat.answer("[e]dit > ", "e")) << chat.shown();
    ASSERT_TRUE(chat.answer("command > touch two", "\x15touch three\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("shell (edited) command: touch three")) << chat.shown();
    ASSERT_TRUE(chat.expect("Enough.")) << chat.shown();
    // Neither while it runs nor with its result.
    EXPECT_EQ(chat.shown().find("shell command: touch two"), std::string::npos) << chat.shown();
    EXPECT_TRUE(std::filesystem::exists(home.work() / "three"));
    EXPECT_FALSE(std::filesystem::exists(home.work() / "two"));
    const Piped stored = run_piped(home, {"sessions", "show", "s"});
    EXPECT_NE(stored.out.find(R"(The user changed the arguments to {"command":"touch three")"),
              std::string::npos)
        << stored.out;
}

TEST(Chat, InvalidAnswer_IsExplained) {
    const Home home;
    const std::string script = "[" + write_call("c1", "a.txt", "x") + R"(, "Done."])";
    Terminal chat(home, {"chat", "--script", home.script(script)});
    ASSERT_TRUE(chat.answer("> ", "write\r")) << chat.shown();
    ASSERT_TRUE(chat.answer("[e]dit > ", "perhaps\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("Answer y, n, or one of the other letters.")) << chat.shown();
    ASSERT_TRUE(chat.expect("[e]dit > ")) << chat.shown();
    EXPECT_FALSE(std::filesystem::exists(home.work() / "a.txt"));
    chat.type("y\r");
    ASSERT_TRUE(chat.expect("Done.")) << chat.shown();
    EXPECT_EQ(read_file(home.work() / "a.txt"), "x");
}

TEST(Chat, Edit_ChangesTheArguments) {
    const Home home;
    const std::string script = "[" + write_call("c1", "a.txt", "x") + R"(, "Edited."])";
    Terminal chat(home, {"chat", "--script", home.script(script)});
    ASSERT_TRUE(chat.answer("> ", "write\r")) << chat.shown();
    ASSERT_TRUE(chat.answer("[e]dit > ", "e\r")) << chat.shown();
    ASSERT_TRUE(chat.answer("content > ", "\x15")) << chat.shown();  // Ctrl-U: the line is empty
    chat.type("my own\r");
    ASSERT_TRUE(chat.expect("Edited.")) << chat.shown();
    EXPECT_EQ(read_file(home.work() / "a.txt"), "my own");
}

TEST(Chat, EscInEdit_ReturnsToTheQuestion) {
    const Home home;
    const std::string script = "[" + write_call("c1", "a.txt", "x") + R"(, "Written."])";
    Terminal chat(home, {"chat", "--script", home.script(script)});
    ASSERT_TRUE(chat.answer("> ", "write\r")) << chat.shown();
    ASSERT_TRUE(chat.answer("[e]dit > ", "e")) << chat.shown();
    ASSERT_TRUE(chat.answer("(Esc: back) content > x", "yz\x1b")) << chat.shown();
    ASSERT_TRUE(chat.answer("[e]dit > ", "r")) << chat.shown();
    ASSERT_TRUE(chat.answer("no, because > ", "\x1b")) << chat.shown();
    ASSERT_TRUE(chat.answer("[e]dit > ", "y")) << chat.shown();
    ASSERT_TRUE(chat.expect("Written.")) << chat.shown();
    EXPECT_EQ(read_file(home.work() / "a.txt"), "x");
}

TEST(Chat, CtrlC_StopsTheAnswerAndTwiceLeaves) {
    const Home home;
    const std::string slow = R"({"tokens_per_second": 5, "answers": [")" + std::string(4000, 'x') +
                             R"(", "Here again."]})";
    Terminal chat(home, {"chat", "--script", home.script(slow)});
    ASSERT_TRUE(chat.answer("> ", "go\r")) << chat.shown();
    ASSERT_TRUE(chat.answer("xxxx", "\x03")) << chat.shown();
    ASSERT_TRUE(chat.expect("stopped")) << chat.shown();
    ASSERT_TRUE(chat.answer("> ", "and?\r")) << chat.shown();
    ASSERT_TRUE(chat.expect_on_screen("Here again.")) << chat.shown();
    ASSERT_TRUE(chat.expect_gone("Esc stops ·")) << chat.shown();
    chat.type("\x03");
    ASSERT_TRUE(chat.answer("again leaves", "\x03")) << chat.shown();
    EXPECT_EQ(chat.wait(), 0) << chat.shown();
}

TEST(Chat, CtrlCWithoutLivePrompt_DropsTheLine) {
    Home home;
    home.set("TERM", "dumb");
    Terminal chat(home, {"chat", "--offline"});
    ASSERT_TRUE(chat.answer("> ", "some text")) << chat.shown();
    ASSERT_TRUE(chat.answer("some text", "\x03")) << chat.shown();
    ASSERT_TRUE(chat.answer("\n> (Ctrl-C again leaves) ", "hello\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("You wrote: *hello*")) << chat.shown();
    ASSERT_TRUE(chat.answer("\n> ", "\x03")) << chat.shown();
    ASSERT_TRUE(chat.answer("again leaves", "\x03")) << chat.shown();
    EXPECT_EQ(chat.wait(), 0) << chat.shown();
}

TEST(Chat, Session_IsRetained) {
    const Home home;
    {
        Terminal chat(home, {"chat", "--offline", "--session", "plan"});
        ASSERT_TRUE(chat.expect("Session: plan")) << chat.shown();
        ASSERT_TRUE(chat.answer("> ", "remember\r")) << chat.shown();
        ASSERT_TRUE(chat.expect("You wrote: remember")) << chat.shown();
        ASSERT_TRUE(chat.answer("> ", "/quit\r")) << chat.shown();
        EXPECT_EQ(chat.wait(), 0);
    }
    Terminal chat(home, {"chat", "--offline", "--continue"});
    ASSERT_TRUE(chat.expect("Session: plan")) << chat.shown();
    ASSERT_TRUE(chat.answer("> ", "/quit\r")) << chat.shown();
    EXPECT_EQ(chat.wait(), 0);
}

/// The page docs/captures/chat.txt, from a real chat: written when CUBEPI_WRITE_CAPTURE is set.
TEST(Chat, CaptureOfChat_ShowsCallsAndApproval) {
    Home home;
    home.set("NO_COLOR", "1");
    write_file(home.work() / "notes.md", "# Lighthouse\n\nThe inspector comes on Friday.\n");
    write_file(home.work() / "todo.txt", "order grease\npaint the door\n");
    const std::string script =
        R"([{"stop_reason": "tool_use", "content": [{"type": "text", "text": "I look at both files at once."},
            {"type": "tool_call", "id": "c1", "name": "read", "arguments": {"path": "notes.md"}},
            {"type": "tool_call", "id": "c2", "name": "read", "arguments": {"path": "todo.txt"}}]},
           "- the inspector comes on **Friday**\n- grease is to be ordered, the door to be painted\n",)" +
        write_call("c3", "plan.md", "1. paint the door\\n2. order grease\\n") +
        R"(, "`plan.md` is written."])";
    Terminal chat(home, {"chat", "--script", home.script(script)});
    ASSERT_TRUE(chat.answer("> ", "What is to be done here?\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("to be painted")) << chat.shown();
    ASSERT_TRUE(chat.answer("> ", "Write a plan.\r")) << chat.shown();
    ASSERT_TRUE(chat.answer("[e]dit > ", "y\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("is written.")) << chat.shown();
    ASSERT_TRUE(chat.answer("> ", "/quit\r")) << chat.shown();
    EXPECT_EQ(chat.wait(), 0) << chat.shown();
    EXPECT_EQ(read_file(home.work() / "plan.md"), "1. paint the door\n2. order grease\n");
    if (std::getenv("CUBEPI_WRITE_CAPTURE")) {
        write_file(cubepi::testing::source_path("docs/captures/chat.txt"),
                   "$ cubepi chat --script script.json\n" + chat.screen().text());
    }
    EXPECT_TRUE(std::filesystem::exists(cubepi::testing::source_path("docs/captures/chat.txt")));
}

}  // namespace
}  // namespace cubepi::terminal_tests
