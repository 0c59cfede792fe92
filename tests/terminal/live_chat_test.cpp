// The prompt of `cubepi chat`: the screen while the user types, waits, interrupts and resizes.

#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "source_tree.hpp"
#include "terminal.hpp"

namespace cubepi::terminal_tests {
namespace {

/// An answer that takes its time: numbered words, so many in a second.
std::string slow_script(const std::string& more = {}, int words = 300, int speed = 30) {
    std::string text;
    for (int i = 0; i < words; ++i) text += "w" + std::to_string(i) + " ";
    return R"({"tokens_per_second": )" + std::to_string(speed) + R"(, "answers": [")" + text +
           "\"" + more + "]}";
}

std::size_t count_of(const std::string& text, const std::string& what) {
    std::size_t count = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
        ++count;
    return count;
}

/// How often a word that ends with a number is there; the ends of rows may be in its middle.
std::size_t count_of_word(std::string text, const std::string& word) {
    std::erase(text, '\n');
    std::size_t count = 0;
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
        const std::size_t end = at + word.size();
        count += end == text.size() || !std::isdigit(static_cast<unsigned char>(text[end]));
    }
    return count;
}

/// The row of the prompt.
std::string prompt_row(const Terminal& chat) { return chat.screen().cursor_row(); }

TEST(LiveChat, D186_Subagent_ShowsItsCallAndItsWork) {
    const Home home;
    const auto call = [](const std::string& tool, const std::string& arguments) {
        return R"({"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c-)" + tool +
               R"(", "name": ")" + tool + R"(", "arguments": )" + arguments + "}]}";
    };
    const std::string script =
        "[" + call("subagent", R"({"prompt": "look around"})") + ", " +
        call("shell", R"({"command": "until [ -e go ]; do sleep 0.05; done; echo gone"})") +
        R"(, "Found it.", "All is done."])";
    Terminal chat(home, {"chat", "--no-save", "-y", "--script", home.script(script)}, 100, 30);
    ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("│ shell command: until [ -e go ]")) << chat.screen().text();
    write_file(home.work() / "go", "");
    ASSERT_TRUE(chat.expect_on_screen("All is done.")) << chat.screen().text();
    EXPECT_NE(chat.screen().text().find("✓ 1 call, "), std::string::npos) << chat.screen().text();
    EXPECT_NE(chat.screen().text().find("tokens: Found it."), std::string::npos)
        << chat.screen().text();
    EXPECT_EQ(chat.screen().text().find("│ shell"), std::string::npos) << chat.screen().text();
}

TEST(LiveChat, StreamingOutput_KeepsThePromptUsable) {
    for (const int columns : {40, 80, 200}) {
        const Home home;
        Terminal chat(home, {"chat", "--script", home.script(slow_script({}, 120, 60))},
                      static_cast<unsigned short>(columns), 24);
        ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.screen().text();
        ASSERT_TRUE(chat.answer_on_screen("w3 ", "typed meanwhile")) << chat.screen().text();
        ASSERT_TRUE(chat.expect_on_screen("> typed meanwhile")) << chat.screen().text();
        ASSERT_TRUE(chat.expect_on_screen("w119")) << chat.screen().text();
        ASSERT_TRUE(chat.expect_gone("Esc stops ·")) << chat.screen().text();
        EXPECT_EQ(prompt_row(chat), "> typed meanwhile") << chat.screen().text();
        EXPECT_EQ(chat.screen().cursor_column(), 17u);
        const std::string text = chat.screen().text();
        // Below the prompt is the random name of the directory, which may end with such a word.
        const std::string answer = text.substr(0, text.rfind("> typed meanwhile"));
        for (int i = 0; i < 120; ++i) {
            EXPECT_EQ(count_of_word(answer, "w" + std::to_string(i)), 1u)
                << "w" << i << " at " << columns << " columns\n"
                << text;
        }
        EXPECT_EQ(count_of(text, "> typed meanwhile"), 1u) << text;
    }
}

TEST(LiveChat, Esc_StopsTheAnswerAndKeepsThePrompt) {
    const Home home;
    Terminal chat(home, {"chat", "--script", home.script(slow_script(R"(, "Here again.")"))});
    ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("w3 ", "\x1b")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("stopped.", "and?\r")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("Here again.", "/quit\r")) << chat.screen().text();
    EXPECT_EQ(chat.wait(), 0);
}

constexpr const char* tool_then_text =
    R"({"tokens_per_second": 40, "answers": [
        {"stop_reason": "tool_use", "content": [
          {"type": "text", "text": "I will look around in this directory now, slowly, word by word, so that there is time."},
          {"type": "tool_call", "id": "c1", "name": "list", "arguments": {"path": "."}}]},
        "Seen.", "Later."]})";

TEST(LiveChat, InputDuringAnswer_SteersOrWaits) {
    const Home home;
    write_file(home.work() / "a.txt", "x\n");
    Terminal chat(home, {"chat", "--script", home.script(tool_then_text)});
    ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("I will", "look twice\r")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("↳ look twice", "/later and then\r")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("↳ later: and then")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("Seen.")) << chat.screen().text();
    EXPECT_LT(chat.screen().text().find("> look twice"), chat.screen().text().find("Seen."))
        << "it stands where it was heard\n"
        << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("Later.")) << chat.screen().text();
    EXPECT_NE(chat.screen().text().find("> and then"), std::string::npos) << chat.screen().text();
    ASSERT_TRUE(chat.expect_gone("↳"));
    chat.type("/quit\r");
    EXPECT_EQ(chat.wait(), 0);
}

TEST(LiveChat, EqualOrSimilarInputs_AreDistinguished) {
    const Home home;
    write_file(home.work() / "a.txt", "x\n");
    Terminal chat(home, {"chat", "--script", home.script(tool_then_text)});
    ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("I will", "/later on\r")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("↳ later: on", "more on\r")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("↳ more on")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("Later.")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_gone("↳")) << chat.screen().text();
    // "more on" steers the first answer, and "on" has a turn of its own after it.
    const std::string screen = chat.screen().text();
    const std::size_t seen = screen.find("Seen.");
    ASSERT_NE(seen, std::string::npos) << screen;
    EXPECT_LT(screen.find("> more on\n"), seen) << screen;
    EXPECT_GT(screen.find("> on\n"), seen) << screen;
    chat.type("/quit\r");
    EXPECT_EQ(chat.wait(), 0);
}

TEST(LiveChat, EqualConsecutiveInputs_AreTwoInputs) {
    const Home home;
    write_file(home.work() / "a.txt", "x\n");
    Terminal chat(home, {"chat", "--script", home.script(tool_then_text)});
    ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("I will", "/later again\r")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("↳ later: again", "again\r")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("↳ again")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("Later.")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_gone("↳")) << chat.screen().text();
    // The second one steers the first answer, and the first one has a turn of its own after it.
    const std::string screen = chat.screen().text();
    const std::size_t steering = screen.find("> again\n");
    const std::size_t seen = screen.find("Seen.");
    const std::size_t follow_up = screen.find("> again\n", steering + 1);
    ASSERT_NE(steering, std::string::npos) << screen;
    ASSERT_NE(follow_up, std::string::npos) << screen;
    EXPECT_LT(steering, seen) << screen;
    EXPECT_GT(follow_up, seen) << screen;
    EXPECT_EQ(screen.find("> again\n", follow_up + 1), std::string::npos) << screen;
    chat.type("/quit\r");
    EXPECT_EQ(chat.wait(), 0);
}

TEST(LiveChat, StoppedAnswer_ReturnsUnheardInput) {
    const Home home;
    Terminal chat(home, {"chat", "--script", home.script(slow_script())});
    ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("w3 ", "one more thing\r")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("↳ one more thing", "\x03")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("stopped."));
    ASSERT_TRUE(chat.expect_gone("↳"));
    EXPECT_EQ(prompt_row(chat), "> one more thing") << chat.screen().text();
}

TEST(LiveChat, ToolCards_CanBeFolded) {
    const Home home;
    write_file(home.work() / "a.txt", "first line\nsecond line\nthird line\n");
    const std::string script = R"([{"stop_reason": "tool_use", "content": [
        {"type": "tool_call", "id": "c1", "name": "read", "arguments": {"path": "a.txt"}}]}, "Read."])";
    Terminal chat(home, {"chat", "--script", home.script(script)});
    ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("Read.")) << chat.screen().text();
    EXPECT_NE(chat.screen().text().find("● read path: a.txt"), std::string::npos);
    EXPECT_NE(chat.screen().text().find("✓ read 3 lines"), std::string::npos)
        << chat.screen().text();
    EXPECT_EQ(chat.screen().text().find("third line"), std::string::npos);
    chat.type("\x0f");
    ASSERT_TRUE(chat.answer_on_screen("third line", "q")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_gone("q closes")) << chat.screen().text();
    chat.type("/quit\r");
    EXPECT_EQ(chat.wait(), 0);
}

TEST(LiveChat, StoppedTool_LeavesACardSayingSo) {
    for (const char* key : {"\x03", "\x1b"}) {
        const Home home;
        const std::string script = R"([{"stop_reason": "tool_use", "content": [
            {"type": "tool_call", "id": "c1", "name": "shell",
             "arguments": {"command": "exec sleep 1000"}}]}, "Here again."])";
        Terminal chat(home, {"chat", "--yes", "--script", home.script(script)});
        ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.screen().text();
        ASSERT_TRUE(chat.answer_on_screen("shell command: exec sleep 1000", key))
            << chat.screen().text();
        ASSERT_TRUE(chat.expect_on_screen("stopped.")) << chat.screen().text();
        const std::string text = chat.screen().text();
        const std::size_t card = text.find("● shell command: exec sleep 1000\n  ✗ stopped  ");
        EXPECT_LT(card, text.find("stopped.")) << text;
        chat.type("/details\r");
        ASSERT_TRUE(chat.expect_on_screen("are shown in full")) << chat.screen().text();
        EXPECT_EQ(count_of(chat.screen().text(), "✗ stopped  "), 2u) << chat.screen().text();
        EXPECT_EQ(chat.screen().text().find("✗ failed"), std::string::npos);
        chat.type("and?\r");
        ASSERT_TRUE(chat.expect_on_screen("Here again.")) << chat.screen().text();
    }
}

TEST(LiveChat, Approval_ReplacesAndRestoresThePrompt) {
    const Home home;
    const std::string script =
        R"({"tokens_per_second": 40, "answers": [{"stop_reason": "tool_use", "content": [
             {"type": "text", "text": "I will now write a file, if I may do so, after these words."},
             {"type": "tool_call", "id": "c1", "name": "write",
              "arguments": {"path": "a.txt", "content": "hello"}}]}, "Written."]})";
    Terminal chat(home, {"chat", "--script", home.script(script)}, 60, 20);
    ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("I will", "a draft")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("[y]es")) << chat.screen().text();
    EXPECT_NE(prompt_row(chat).find("[e]dit >"), std::string::npos) << prompt_row(chat);
    chat.type("y\r");
    ASSERT_TRUE(chat.expect_on_screen("Written.")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_gone("Esc stops ·"));
    EXPECT_EQ(prompt_row(chat), "> a draft") << chat.screen().text();
    EXPECT_EQ(read_file(home.work() / "a.txt"), "hello");
}

TEST(LiveChat, D7_EscAtQuestion_EndsTheAskingTurn) {
    const Home home;
    const std::string script = R"([{"stop_reason": "tool_use", "content": [
        {"type": "tool_call", "id": "c1", "name": "write",
         "arguments": {"path": "a.txt", "content": "x"}}]}, "Here again."])";
    Terminal chat(home, {"chat", "--script", home.script(script)});
    ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("[y]es", "\x1b")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("stopped.")) << chat.screen().text();
    EXPECT_EQ(prompt_row(chat), ">") << chat.screen().text();
    EXPECT_FALSE(std::filesystem::exists(home.work() / "a.txt"));
    chat.type("and?\r");
    ASSERT_TRUE(chat.expect_on_screen("Here again.")) << chat.screen().text();
}

TEST(LiveChat, B11_CommaCommands_NeverReachTheModel) {
    const Home home;
    Terminal chat(home, {"chat", "--script", home.script(slow_script(R"(, "Second.")"))});
    ASSERT_TRUE(chat.answer_on_screen("talks to", ",help\r")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("tape")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_gone("Esc stops ·"));
    EXPECT_EQ(chat.screen().text().find("w0 "), std::string::npos) << "the model was not asked";
    chat.type("go\r");
    ASSERT_TRUE(chat.answer_on_screen("w3 ", ",help\r")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("↳ later: ,help", "\x1b")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("stopped."));
    EXPECT_EQ(prompt_row(chat), "> ,help") << chat.screen().text();
}

TEST(LiveChat, B11_StoppedQueue_ReturnsEachInputAsItWas) {
    const Home home;
    Terminal chat(
        home, {"chat", "--script", home.script(slow_script(R"(, "Second.", "Third.", "Fourth.")"))},
        120, 40);
    ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("w3 ", "steering text\r")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("↳ steering text", "!echo out-$((40+2))\r"));
    ASSERT_TRUE(chat.answer_on_screen("↳ later: !echo", "/later the third\r"));
    ASSERT_TRUE(chat.answer_on_screen("↳ later: the third", "\x1b")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("stopped.")) << chat.screen().text();
    EXPECT_EQ(prompt_row(chat), "> steering text") << chat.screen().text();
    EXPECT_TRUE(chat.expect_on_screen("not sent (2 in all): !echo")) << chat.screen().text();
    chat.type("\r");
    ASSERT_TRUE(chat.expect_on_screen("Second.")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_gone("Esc stops ·")) << chat.screen().text();
    EXPECT_EQ(prompt_row(chat), "> !echo out-$((40+2))") << chat.screen().text();
    chat.type("\r");
    ASSERT_TRUE(chat.expect_on_screen("out-42")) << "it is a command\n" << chat.screen().text();
    ASSERT_TRUE(chat.expect_gone("Esc stops ·")) << chat.screen().text();
    EXPECT_EQ(prompt_row(chat), "> /later the third") << chat.screen().text();
    chat.type("\r");
    ASSERT_TRUE(chat.expect_on_screen("Third.")) << chat.screen().text();
}

TEST(LiveChat, StoppedQueue_LeavesADraftAlone) {
    const Home home;
    Terminal chat(home, {"chat", "--script", home.script(slow_script(R"(, "Second.")"))}, 120, 40);
    ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("w3 ", "!echo one\r")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("↳ later: !echo one", "a draft")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("> a draft", "\x1b")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("stopped.")) << chat.screen().text();
    EXPECT_EQ(prompt_row(chat), "> a draft") << chat.screen().text();
    chat.type("\x03");
    ASSERT_TRUE(chat.expect_gone("a draft")) << chat.screen().text();
    EXPECT_EQ(prompt_row(chat), "> !echo one") << chat.screen().text();
}

TEST(LiveChat, Failure_IsReportedOnceWithTheRemedy) {
    const Home home;
    Terminal chat(home, {"chat", "--base-url", "http://127.0.0.1:9/v1", "-m", "m"});
    ASSERT_TRUE(chat.answer_on_screen("talks to", "hello\r")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("cubepi doctor")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_gone("Esc stops ·"));
    EXPECT_EQ(count_of(chat.screen().text(), "cannot reach"), 1u) << chat.screen().text();
    EXPECT_EQ(chat.screen().text().find("An error occurred"), std::string::npos)
        << chat.screen().text();
    chat.type("/quit\r");
    EXPECT_EQ(chat.wait(), 0);
}

TEST(LiveChat, Markdown_ShowsCodeAndTables) {
    const Home home;
    const std::string script =
        R"({"tokens_per_second": 200, "answers": ["# Plan\n\n- paint the **door**\n\n```sh\nmake all\n```\n\n| who | what |\n|---|---|\n| Ann | grease |\n\nThat is all."]})";
    Terminal chat(home, {"chat", "--script", home.script(script)}, 60, 24);
    ASSERT_TRUE(chat.answer_on_screen("talks to", "plan\r")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("That is all.")) << chat.screen().text();
    for (const char* text : {"• paint the door", "make all", "who  what", "Ann  grease"})
        EXPECT_NE(chat.screen().text().find(text), std::string::npos) << text << "\n"
                                                                      << chat.screen().text();
}

/// The pages docs/captures/chat-COLUMNSxROWS.txt: a chat in the middle of an answer, with something waiting for it and a
/// draft. Written when CUBEPI_WRITE_CAPTURE is set.
TEST(LiveChat, CaptureDuringAnswer_ShowsWaitingInputAndDraft) {
    for (const auto& [columns, rows] : {std::pair(40, 12), std::pair(60, 16), std::pair(100, 20)}) {
        Home home;
        home.set("NO_COLOR", "1");
        home.work_in("home/lighthouse");
        write_file(home.work() / "notes.md", "# Lighthouse\n\nThe inspector comes on Friday.\n");
        const std::string script =
            R"({"tokens_per_second": 25, "answers": [{"stop_reason": "tool_use", "content": [
                 {"type": "text", "text": "I look at the notes."},
                 {"type": "tool_call", "id": "c1", "name": "read", "arguments": {"path": "notes.md"}}]},
               "The inspector comes on Friday. Until then the door is to be painted and the lamp to be cleaned; both take a day when the weather holds, and two when it does not. I would begin with the door."]})";
        Terminal chat(home, {"chat", "--script", home.script(script)},
                      static_cast<unsigned short>(columns), static_cast<unsigned short>(rows));
        ASSERT_TRUE(chat.answer_on_screen("talks to", "What is to be done here?\r"))
            << chat.screen().text();
        ASSERT_TRUE(chat.answer_on_screen("The inspector comes", "and the grease?\r"))
            << chat.screen().text();
        ASSERT_TRUE(chat.answer_on_screen("↳ and the grease?", "a draft of what comes ne"))
            << chat.screen().text();
        ASSERT_TRUE(chat.expect_on_screen("> a draft of what comes ne")) << chat.screen().text();
        if (std::getenv("CUBEPI_WRITE_CAPTURE")) {
            write_file(cubepi::testing::source_path("docs/captures/chat-") +
                           std::to_string(columns) + "x" + std::to_string(rows) + ".txt",
                       chat.screen().text());
        }
    }
}

/// The pages docs/captures/chat-answer-COLUMNS.txt: what Markdown looks like.
TEST(LiveChat, CaptureOfAnswer_ShowsMarkdown) {
    for (const int columns : {28, 60}) {
        const Home home;
        const std::string script =
            R"(["# The lighthouse\n\nBefore the inspector comes, *everything* is to be done; see [the list](https://example.org/list) and `notes.md`.\n\n- paint the **door**, which takes a day when the weather holds\n- clean the lamp\n  1. switch it off\n  2. let it cool down\n\n> Friday, in the morning\n\n| who | what | hours |\n|:---|:---|---:|\n| Ann | grease the *hinges* and the gears of the lamp | 2 |\n| 李明 | paint | 11 |\n\n```sh\nmake door lamp && echo 'all is done, the inspector may come'\n```\n\nThat is all."])";
        Terminal chat(home, {"chat", "--script", home.script(script)},
                      static_cast<unsigned short>(columns), 24);
        ASSERT_TRUE(chat.answer_on_screen("/help", "plan\r")) << chat.screen().text();
        ASSERT_TRUE(chat.expect_on_screen("That is all.")) << chat.screen().text();
        ASSERT_TRUE(chat.expect_gone("Esc stops ·"));
        std::string text = chat.screen().text();
        for (const char* shown : {"• paint the door", "李明", "make door lamp"})
            EXPECT_NE(text.find(shown), std::string::npos) << shown << "\n" << text;
        if (std::getenv("CUBEPI_WRITE_CAPTURE")) {
            // Without the status line, which has a time.
            text.erase(text.rfind("\n>") + 1);
            write_file(cubepi::testing::source_path("docs/captures/chat-answer-") +
                           std::to_string(columns) + ".txt",
                       text);
        }
    }
}

TEST(LiveChat, CompletionAndHistorySearch_FillThePrompt) {
    const Home home;
    write_file(home.work() / "lighthouse.md", "x\n");
    Terminal chat(home, {"chat", "--offline"});
    ASSERT_TRUE(chat.answer_on_screen("talks to", "/he\t")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("> /help", "\r")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("q closes", "q")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_gone("q closes")) << chat.screen().text();
    chat.type("what is in ligh\t");
    ASSERT_TRUE(chat.answer_on_screen("> what is in lighthouse.md", "\x15"))
        << chat.screen().text();
    chat.type("first thing\r");
    ASSERT_TRUE(chat.expect_on_screen("You wrote: first thing")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_gone("Esc stops ·"));
    chat.type("\x12rst");
    ASSERT_TRUE(chat.answer_on_screen("search 'rst' > first thing", "\x1b"))
        << chat.screen().text();
    ASSERT_TRUE(chat.expect_gone("search 'rst'"));
    EXPECT_EQ(prompt_row(chat), "> first thing") << chat.screen().text();
    chat.type("\x15/");
    ASSERT_TRUE(chat.answer_on_screen("❯ /new", "\x1b[B")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("❯ /resume", "\t")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("> /resume\n", "\x15,")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("remove this conversation", "\x15")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_gone("remove this conversation")) << chat.screen().text();
}

TEST(LiveChat, LongInput_WrapsAndCanHaveLines) {
    const Home home;
    Terminal chat(home, {"chat", "--offline"}, 40, 20);
    ASSERT_TRUE(chat.expect_on_screen("talks to"));
    const std::string text(100, 'a');
    chat.type(text + "END");
    ASSERT_TRUE(chat.answer_on_screen("END", "\x15one\x1b\rtwo\x1b\rthree"))
        << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("> one\n  two\n  three", "\x1b[A\x1b[A!"))
        << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("> one!", "\x1b[200~pasted\rblock\x1b[201~"))
        << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("block")) << chat.screen().text();
    EXPECT_EQ(chat.screen().text().find("You wrote"), std::string::npos) << "nothing was entered";
    chat.type("\r");
    ASSERT_TRUE(chat.expect_on_screen("You wrote:")) << chat.screen().text();
}

TEST(LiveChat, Resize_KeepsTextAndPrompt) {
    const Home home;
    Terminal chat(home, {"chat", "--script", home.script(slow_script({}, 120, 60))}, 100, 30);
    ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("w20 "));
    chat.resize(60, 20);
    chat.type("still here");
    ASSERT_TRUE(chat.expect_on_screen("> still here")) << chat.screen().text();
    chat.resize(120, 40);
    ASSERT_TRUE(chat.expect_on_screen("w119")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_gone("Esc stops ·"));
    EXPECT_EQ(prompt_row(chat), "> still here") << chat.screen().text();
    chat.type("\x15/quit\r");
    EXPECT_EQ(chat.wait(), 0);
}

TEST(LiveChat, TinyTerminal_HasAPrompt) {
    const Home home;
    Terminal chat(home, {"chat", "--offline"}, 20, 4);
    chat.type("hello\r");
    ASSERT_TRUE(chat.expect_on_screen("You wrote")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_gone("Esc stops ·"));
    std::string text = chat.screen().text();
    std::erase(text, '\n');
    EXPECT_NE(text.find("OPENAI_API_KEY"), std::string::npos) << chat.screen().text();
    chat.type("/quit\r");
    EXPECT_EQ(chat.wait(), 0);
}

TEST(LiveChat, WideCharacters_KeepTheCursorRight) {
    const Home home;
    Terminal chat(home, {"chat", "--offline"}, 30, 20);
    ASSERT_TRUE(chat.answer_on_screen("talks to", "漢字 öé 🙂")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("> 漢字 öé 🙂")) << chat.screen().text();
    EXPECT_EQ(chat.screen().cursor_column(), 2u + 4 + 1 + 2 + 1 + 2);
    chat.type("\x7f\x7f!");
    ASSERT_TRUE(chat.expect_on_screen("> 漢字 öé!")) << chat.screen().text();
    EXPECT_EQ(chat.screen().cursor_column(), 2u + 4 + 1 + 2 + 1);
}

TEST(LiveChat, NoColor_ShowsNoColours) {
    Home home;
    home.set("NO_COLOR", "1");
    Terminal chat(home, {"chat", "--offline"});
    ASSERT_TRUE(chat.answer_on_screen("talks to", "hello\r")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("a mind", "/quit\r")) << chat.screen().text();
    EXPECT_EQ(chat.wait(), 0);
    for (std::size_t at = chat.raw().find("\x1b["); at != std::string::npos;
         at = chat.raw().find("\x1b[", at + 2)) {
        const std::size_t end = chat.raw().find_first_not_of("0123456789;?", at + 2);
        EXPECT_NE(chat.raw()[end], 'm') << "a colour: " << chat.raw().substr(at + 1, 8);
    }
}

TEST(LiveChat, DumbTerminal_GetsPlainLines) {
    Home home;
    home.set("TERM", "dumb");
    Terminal chat(home, {"chat", "--offline"});
    ASSERT_TRUE(chat.answer("> ", "hello\r")) << chat.shown();
    ASSERT_TRUE(chat.expect("You wrote")) << chat.shown();
    ASSERT_TRUE(chat.answer("> ", "/quit\r")) << chat.shown();
    EXPECT_EQ(chat.wait(), 0) << chat.shown();
}

/// A server that takes connections and never says anything.
struct SilentServer {
    SilentServer() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address = {};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        auto* plain = reinterpret_cast<sockaddr*>(&address);
        if (bind(socket_, plain, size) != 0 || listen(socket_, 8) != 0 ||
            getsockname(socket_, plain, &size) != 0)
            throw std::runtime_error("no server");
        url = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/v1";
    }
    ~SilentServer() { close(socket_); }
    SilentServer(const SilentServer&) = delete;
    SilentServer& operator=(const SilentServer&) = delete;
    std::string url;

private:
    int socket_;
};

TEST(LiveChat, D7_CtrlCDuringModelSearch_LeavesTheChat) {
    const Home home;
    const SilentServer server;
    Terminal chat(home, {"chat", "--base-url", server.url});
    ASSERT_TRUE(chat.answer_on_screen(">", "\x03")) << chat.screen().text();
    EXPECT_EQ(chat.wait(), 130) << chat.shown();
}

TEST(LiveChat, TwoInterruptsAtOnce_LeaveWithResumeHint) {
    const Home home;
    const std::string script =
        R"({"tokens_per_second": 5, "answers": [")" + std::string(4000, 'x') + R"("]})";
    Terminal chat(home, {"chat", "--session", "plan", "--script", home.script(script)});
    ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("xx", "\x03\x03")) << chat.screen().text();
    EXPECT_EQ(chat.wait(), 130) << chat.shown();
    EXPECT_NE(chat.shown().find("Resume this chat: cubepi chat --session plan"), std::string::npos)
        << chat.shown();
}

TEST(LiveChat, PromptForSessionInUse_IsHandedBack) {
    const Home home;
    const std::string script =
        R"({"tokens_per_second": 5, "answers": [")" + std::string(4000, 'x') + R"("]})";
    Terminal first(home, {"chat", "--session", "plan", "--script", home.script(script)});
    ASSERT_TRUE(first.answer_on_screen("talks to", "go\r")) << first.screen().text();
    ASSERT_TRUE(first.expect_on_screen("xx")) << first.screen().text();
    Terminal second(home, {"chat", "--session", "plan", "--offline"});
    ASSERT_TRUE(second.answer_on_screen("talks to", "later words\r")) << second.shown();
    ASSERT_TRUE(second.expect("or use another session: /new")) << second.shown();
    EXPECT_TRUE(second.expect("later words")) << second.shown();
}

TEST(LiveChat, Exit_RestoresTheTerminal) {
    const Home home;
    Terminal chat(home, {"chat", "--offline"});
    ASSERT_TRUE(chat.answer_on_screen("talks to", "\x04")) << chat.screen().text();
    EXPECT_EQ(chat.wait(), 0);
    EXPECT_NE(chat.raw().rfind("\x1b[?2004l"), std::string::npos);
    EXPECT_EQ(chat.raw().rfind("\x1b[?25h") > chat.raw().rfind("\x1b[?25l"), true);
    EXPECT_EQ(chat.screen().text().find("\n>"), std::string::npos) << "the prompt is gone";
}

}  // namespace
}  // namespace cubepi::terminal_tests
