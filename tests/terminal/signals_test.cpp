// How the program ends at signals and when its terminal is gone, also while it waits for the user, and how it stops and
// continues as a job of an interactive shell.

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../wire/net/raw_server.hpp"
#include "source_tree.hpp"
#include "terminal.hpp"

namespace cubepi::terminal_tests {
namespace {

constexpr const char* write_script =
    R"([{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1", "name": "write",
        "arguments": {"path": "a.txt", "content": "x"}}]}, "That is all."])";

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

TEST(Signals, Sigterm_EndsTheChatAndItsCommands) {
    const Home home;
    Terminal chat(home, {"chat", "--yes", "--script", home.script(staying_command)});
    ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("shell command:")) << chat.screen().text();
    const pid_t command = pid_in(home);
    chat.send(SIGTERM);
    EXPECT_EQ(chat.wait(), 128 + SIGTERM) << chat.screen().text();
    EXPECT_TRUE(has_ended(command));
    EXPECT_NE(chat.raw().rfind("\x1b[?2004l"), std::string::npos) << "the terminal is as it was";
}

TEST(Signals, ClosedWindow_EndsTheChatAndItsCommands) {
    const Home home;
    Terminal chat(home, {"chat", "--yes", "--script", home.script(staying_command)});
    ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("shell command:")) << chat.screen().text();
    const pid_t command = pid_in(home);
    EXPECT_EQ(chat.hang_up(), 128 + SIGHUP);
    EXPECT_TRUE(has_ended(command));
}

TEST(Signals, ClosedWindow_EndsAWaitingChat) {
    const Home home;
    Terminal chat(home, {"chat", "--offline"});
    ASSERT_TRUE(chat.expect_on_screen("talks to"));
    EXPECT_EQ(chat.hang_up(), 128 + SIGHUP);
}

TEST(Signals, Sigterm_EndsARunAndItsCommands) {
    const Home home;
    Terminal run(home, {"run", "--yes", "--script", home.script(staying_command), "go"});
    ASSERT_TRUE(run.expect("shell command:"));
    const pid_t command = pid_in(home);
    run.send(SIGTERM);
    EXPECT_EQ(run.wait(), 128 + SIGTERM) << run.shown();
    EXPECT_TRUE(has_ended(command));
    EXPECT_TRUE(std::filesystem::is_empty(home.root() / "tmp")) << "temporary files";
}

TEST(Signals, SignalDuringJsonRun_IsItsExitStatus) {
    const Home home;
    for (const int signal : {SIGTERM, SIGHUP, SIGINT}) {
        std::filesystem::remove(home.work() / "pid");
        Terminal run(home, {"run", "--yes", "--output-format", "json", "--script",
                            home.script(staying_command), "go"});
        const pid_t command = pid_in(home);
        run.send(signal);
        EXPECT_EQ(run.wait(), 128 + signal) << run.shown();
        EXPECT_NE(run.shown().find("\"exit_status\":" + std::to_string(128 + signal)),
                  std::string::npos)
            << run.shown();
        EXPECT_TRUE(has_ended(command));
    }
}

TEST(Signals, ClosedWindow_EndsARunAndItsCommands) {
    const Home home;
    Terminal run(home, {"run", "--yes", "--script", home.script(staying_command), "go"});
    ASSERT_TRUE(run.expect("shell command:"));
    const pid_t command = pid_in(home);
    EXPECT_EQ(run.hang_up(), 128 + SIGHUP);
    EXPECT_TRUE(has_ended(command));
}

TEST(Signals, Sigterm_EndsChatByLinesAndItsCommands) {
    Home home;
    home.set("TERM", "dumb");
    Terminal chat(home, {"chat", "--yes", "--script", home.script(staying_command)});
    ASSERT_TRUE(chat.answer("> ", "go\r")) << chat.shown();
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

TEST(Signals, NoUtf8_UsesPlainSignsAndRightColumns) {
    Home home;
    home.set("LANG", "C");
    Terminal chat(home, {"chat", "--script", home.script(R"(["- an **item**\n"])")}, 40, 12);
    ASSERT_TRUE(chat.answer_on_screen("talks to", "漢字 é")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("> 漢字 é")) << chat.screen().text();
    EXPECT_EQ(chat.screen().cursor_column(), 2u + 4 + 1 + 1);
    chat.type("\r");
    ASSERT_TRUE(chat.expect_on_screen("* an item")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_gone("Esc stops -"));
    for (const char* sign : {"•", "·", "⠋"})
        EXPECT_EQ(chat.raw().find(sign), std::string::npos) << sign;
    chat.type("/quit\r");
    EXPECT_EQ(chat.wait(), 0);
}

/// A server with two models, so that one has to be chosen.
std::string two_models(const std::string& request) {
    if (request.starts_with("GET /v1/models "))
        return wire::ok(R"({"object": "list", "data": [{"id": "one"}, {"id": "two"}]})",
                        "Content-Type: application/json\r\n");
    return "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
}

/// A place at which the program waits for the user.
struct Wait {
    std::string name = {};
    std::vector<std::string> arguments = {};
    bool dumb = false;
    std::string before = {};  ///< shown before `keys` are typed
    std::string keys = {};
    std::string question = {};
    /// Exit status if the terminal is gone and SIGHUP is ignored: 141 if the program still has something to write.
    int ignoring_hangup = 0;
};

std::ostream& operator<<(std::ostream& out, const Wait& wait) { return out << wait.name; }

class WaitForTheUser : public ::testing::TestWithParam<Wait> {
protected:
    WaitForTheUser() {
        if (GetParam().dumb) home.set("TERM", "dumb");
        for (const std::string& word : GetParam().arguments) {
            if (word == "SCRIPT") {
                arguments.push_back(home.script(write_script));
            } else if (word == "SERVER") {
                arguments.push_back(server.url("/v1"));
            } else {
                arguments.push_back(word);
            }
        }
    }

    /// Brings the program to the place.
    void reach(Terminal& terminal) {
        if (!GetParam().keys.empty()) {
            ASSERT_TRUE(terminal.answer_on_screen(GetParam().before, GetParam().keys))
                << terminal.screen().text();
        }
        ASSERT_TRUE(terminal.expect_on_screen(GetParam().question)) << terminal.shown();
    }

    wire::RawServer server{[](wire::Connection& connection) {
        for (;;) {
            const std::string request = connection.read_request();
            if (request.empty() || !connection.send(two_models(request))) return;
        }
    }};
    Home home;
    std::vector<std::string> arguments;
};

TEST_P(WaitForTheUser, SigtermAndSighup_EndTheWait) {
    for (const int signal : {SIGTERM, SIGHUP}) {
        Terminal terminal(home, arguments);
        ASSERT_NO_FATAL_FAILURE(reach(terminal));
        terminal.send(signal);
        EXPECT_EQ(terminal.wait(), 128 + signal) << terminal.shown();
    }
    EXPECT_TRUE(std::filesystem::is_empty(home.root() / "tmp")) << "temporary files";
    EXPECT_FALSE(std::filesystem::exists(home.work() / "a.txt"));
}

TEST_P(WaitForTheUser, LostTerminal_EndsTheWait) {
    Terminal terminal(home, arguments);
    ASSERT_NO_FATAL_FAILURE(reach(terminal));
    EXPECT_EQ(terminal.hang_up(), 128 + SIGHUP);
    EXPECT_TRUE(std::filesystem::is_empty(home.root() / "tmp")) << "temporary files";
    EXPECT_FALSE(std::filesystem::exists(home.work() / "a.txt"));
}

/// Under nohup only reading tells that the terminal is gone.
TEST_P(WaitForTheUser, IgnoredSighup_InputEndEndsTheWait) {
    std::vector<std::string> words{"-c", "trap '' HUP; exec \"$0\" \"$@\"",
                                   cubepi::testing::built_program("cubepi")};
    words.insert(words.end(), arguments.begin(), arguments.end());
    Terminal terminal(home, OtherProgram{"/bin/sh"}, words);
    ASSERT_NO_FATAL_FAILURE(reach(terminal));
    EXPECT_EQ(terminal.hang_up(), GetParam().ignoring_hangup);
    EXPECT_FALSE(std::filesystem::exists(home.work() / "a.txt"));
}

const std::vector<Wait> waits{
    {"RunAtAQuestion", {"run", "--script", "SCRIPT", "go"}, false, "", "", "[y]es", 141},
    {"RunAtTheModelPicker", {"run", "--base-url", "SERVER", "go"}, false, "", "", "name >", 130},
    {"DemoAtItsQuestion", {"demo", "--fast"}, false, "", "", "[y]es", 141},
    {"ChatByLinesAtThePrompt", {"chat", "--offline"}, true, "", "", "\n>", 141},
    {"ChatByLinesAtAQuestion", {"chat", "--script", "SCRIPT"}, true, "\n>", "go\r", "[y]es", 141},
    {"ChatByLinesAtTheModelPicker", {"chat", "--base-url", "SERVER"}, true, "", "", "name >", 130},
    {"LiveChatAtThePrompt", {"chat", "--offline"}, false, "", "", "talks to", 129},
    {"LiveChatAtAQuestion",
     {"chat", "--script", "SCRIPT"},
     false,
     "talks to",
     "go\r",
     "[y]es",
     129},
    {"LiveChatAtTheModelPicker", {"chat", "--base-url", "SERVER"}, false, "", "", "name >", 129},
    {"Onboard", {"onboard"}, false, "", "", "number", 141},
};

INSTANTIATE_TEST_SUITE_P(Waits, WaitForTheUser, ::testing::ValuesIn(waits),
                         [](const auto& info) { return info.param.name; });

TEST(WaitsForTheUser, CtrlCAtPicker_EndsRunRestoringTerminal) {
    const wire::RawServer server([](wire::Connection& connection) {
        for (;;) {
            const std::string request = connection.read_request();
            if (request.empty() || !connection.send(two_models(request))) return;
        }
    });
    const Home home;
    Terminal shell(home, OtherProgram{"/bin/bash"}, {"--norc", "--noprofile", "-i"});
    const std::string run =
        cubepi::testing::built_program("cubepi") + " run --base-url " + server.url("/v1");
    shell.type("a=$(stty -g); " + run +
               " go; echo status $?; [ \"$a\" = \"$(stty -g)\" ] && echo sa''me\r");
    ASSERT_TRUE(shell.answer("name > ", "\x03")) << shell.shown();
    ASSERT_TRUE(shell.expect("status 130")) << shell.shown();
    EXPECT_TRUE(shell.answer("same", "exit\r")) << shell.shown();
    EXPECT_EQ(shell.wait(), 0) << shell.shown();
}

/// Ends the job, and returns to the prompt when its process is gone: bash may keep the notification of a job that ends just
/// before a prompt until the next prompt.
constexpr const char* kill_job =
    "p=$(jobs -p %1); kill %1; while kill -0 $p 2>/dev/null; do sleep 0.05; done\r";

/// An interactive bash with cubepi on its path and a prompt that can be recognized.
class Shell : public Terminal {
public:
    explicit Shell(const Home& home)
        : Terminal(home, OtherProgram{"/bin/bash"}, {"--norc", "--noprofile", "-i"}) {
        const std::string directory =
            std::filesystem::path(cubepi::testing::built_program("cubepi")).parent_path().string();
        type("PS1='ready$ '; PATH=" + directory + ":$PATH; echo se''t\r");
        started_ = expect("set");
    }
    bool started() const { return started_; }

private:
    bool started_ = false;
};

TEST(JobControl, BackgroundRun_DoesNotTouchTheTerminal) {
    const Home home;
    const std::string script = home.script(R"(["Answered."])");
    Shell shell(home);
    ASSERT_TRUE(shell.started()) << shell.shown();
    shell.type("cubepi run --script " + script + " a & cubepi run --script " + script +
               " b & wait; echo ov''er\r");
    ASSERT_TRUE(shell.answer("over", "jobs; stty -a | grep -o -- '-\\?icanon'; exit\r"))
        << shell.shown();
    EXPECT_EQ(shell.wait(), 0);
    EXPECT_EQ(shell.shown().find("Stopped"), std::string::npos) << shell.shown();
    const std::size_t first = shell.shown().find("Answered.");
    EXPECT_NE(shell.shown().find("Answered.", first + 1), std::string::npos) << shell.shown();
}

TEST(JobControl, BackgroundQuestion_IsRefusedWithTheRemedy) {
    const Home home;
    const std::string script = home.script(write_script);
    Shell shell(home);
    ASSERT_TRUE(shell.started()) << shell.shown();
    shell.type("cubepi run --script " + script + " a & wait; echo ov''er\r");
    ASSERT_TRUE(shell.expect("runs in the background")) << shell.shown();
    ASSERT_TRUE(shell.expect("That is all.")) << shell.shown();
    ASSERT_TRUE(shell.answer("over", "exit\r")) << shell.shown();
    EXPECT_EQ(shell.wait(), 0);
    EXPECT_EQ(shell.shown().find("Stopped"), std::string::npos) << shell.shown();
    EXPECT_FALSE(std::filesystem::exists(home.work() / "a.txt"));
}

TEST(JobControl, StoppedQuestion_IsAnsweredInTheForeground) {
    const Home home;
    const std::string script = home.script(write_script);
    Shell shell(home);
    ASSERT_TRUE(shell.started()) << shell.shown();
    shell.type("cubepi run --script " + script + " a\r");
    ASSERT_TRUE(shell.answer("[e]dit > ", "\x1a")) << shell.shown();
    ASSERT_TRUE(shell.answer("Stopped", "fg\r")) << shell.shown();
    ASSERT_TRUE(shell.answer("[e]dit > ", "y\r")) << shell.shown();
    ASSERT_TRUE(shell.answer("That is all.", "exit\r")) << shell.shown();
    EXPECT_EQ(shell.wait(), 0);
    EXPECT_EQ(read_file(home.work() / "a.txt"), "x");
}

TEST(JobControl, BackgroundChat_StopsUntilInTheForeground) {
    for (const char* term : {"xterm", "dumb"}) {
        Home home;
        home.set("TERM", term);
        Shell shell(home);
        ASSERT_TRUE(shell.started()) << shell.shown();
        shell.type("cubepi chat --offline &\r");
        shell.type("wait; echo a''waited; fg\r");
        ASSERT_TRUE(shell.expect("Stopped")) << shell.shown();
        ASSERT_TRUE(shell.expect("awaited")) << shell.shown();
        ASSERT_TRUE(shell.answer("> ", "/quit\r")) << shell.shown();
        ASSERT_TRUE(shell.answer("ready$ ", "exit\r")) << shell.shown();
        EXPECT_EQ(shell.wait(), 0) << shell.shown();
    }
}

TEST(JobControl, ChatStoppedInBackground_CanBeEnded) {
    for (const char* term : {"xterm", "dumb"}) {
        Home home;
        home.set("TERM", term);
        Shell shell(home);
        ASSERT_TRUE(shell.started()) << shell.shown();
        shell.type("set -b; cubepi chat --offline &\r");
        ASSERT_TRUE(shell.answer("Stopped", kill_job)) << shell.shown();
        ASSERT_TRUE(shell.answer("Exit 143", "\rcubepi chat --offline\r")) << shell.shown();
        ASSERT_TRUE(shell.expect("talks to")) << shell.shown();
        ASSERT_TRUE(shell.answer("> ", "\x1a")) << shell.shown();
        ASSERT_TRUE(shell.answer("Stopped", "bg\r")) << shell.shown();
        // A chat by lines stops when the terminal has input, which may be the next line already.
        if (std::string(term) == "xterm") {
            ASSERT_TRUE(shell.expect("Stopped")) << shell.shown();
        }
        shell.type(kill_job);
        ASSERT_TRUE(shell.answer("Exit 143", "exit\r")) << shell.shown();
        EXPECT_EQ(shell.wait(), 0) << shell.shown();
    }
}

}  // namespace
}  // namespace cubepi::terminal_tests
