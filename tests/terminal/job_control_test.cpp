// The program as a job of an interactive shell.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "source_tree.hpp"
#include "terminal.hpp"

namespace cubepi::terminal_tests {
namespace {

constexpr const char* write_script =
    R"([{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1", "name": "write",
        "arguments": {"path": "a.txt", "content": "x"}}]}, "That is all."])";

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

TEST(JobControl, BackgroundRunsDoNotTouchTheTerminal) {
    const Home home;
    const std::string script = home.script(R"(["Answered."])");
    Shell shell(home);
    ASSERT_TRUE(shell.started()) << shell.shown();
    shell.type("cubepi run --script " + script + " a & cubepi run --script " + script +
               " b & wait; echo ov''er\r");
    ASSERT_TRUE(shell.expect("over")) << shell.shown();
    shell.type("jobs; stty -a | grep -o -- '-\\?icanon'; exit\r");
    EXPECT_EQ(shell.wait(), 0);
    EXPECT_EQ(shell.shown().find("Stopped"), std::string::npos) << shell.shown();
    const std::size_t first = shell.shown().find("Answered.");
    EXPECT_NE(shell.shown().find("Answered.", first + 1), std::string::npos) << shell.shown();
}

TEST(JobControl, AQuestionOfABackgroundRunIsRefusedAndSaysHowToAllowIt) {
    const Home home;
    const std::string script = home.script(write_script);
    Shell shell(home);
    ASSERT_TRUE(shell.started()) << shell.shown();
    shell.type("cubepi run --script " + script + " a & wait; echo ov''er\r");
    ASSERT_TRUE(shell.expect("runs in the background")) << shell.shown();
    ASSERT_TRUE(shell.expect("That is all.")) << shell.shown();
    ASSERT_TRUE(shell.expect("over")) << shell.shown();
    shell.type("exit\r");
    EXPECT_EQ(shell.wait(), 0);
    EXPECT_EQ(shell.shown().find("Stopped"), std::string::npos) << shell.shown();
    EXPECT_FALSE(std::filesystem::exists(home.work() / "a.txt"));
}

TEST(JobControl, AStoppedQuestionCanBeAnsweredInTheForeground) {
    const Home home;
    const std::string script = home.script(write_script);
    Shell shell(home);
    ASSERT_TRUE(shell.started()) << shell.shown();
    shell.type("cubepi run --script " + script + " a\r");
    ASSERT_TRUE(shell.expect("[e]dit > ")) << shell.shown();
    shell.type("\x1a");
    ASSERT_TRUE(shell.expect("Stopped")) << shell.shown();
    shell.type("fg\r");
    ASSERT_TRUE(shell.expect("[e]dit > ")) << shell.shown();
    shell.type("y\r");
    ASSERT_TRUE(shell.expect("That is all.")) << shell.shown();
    shell.type("exit\r");
    EXPECT_EQ(shell.wait(), 0);
    EXPECT_EQ(read_file(home.work() / "a.txt"), "x");
}

TEST(JobControl, AChatInTheBackgroundStopsUntilItIsInTheForeground) {
    for (const char* term : {"xterm", "dumb"}) {
        Home home;
        home.set("TERM", term);
        Shell shell(home);
        ASSERT_TRUE(shell.started()) << shell.shown();
        shell.type("cubepi chat --offline &\r");
        shell.type("wait; echo a''waited; fg\r");
        ASSERT_TRUE(shell.expect("Stopped")) << shell.shown();
        ASSERT_TRUE(shell.expect("awaited")) << shell.shown();
        ASSERT_TRUE(shell.expect("> ")) << shell.shown();
        shell.type("/quit\r");
        ASSERT_TRUE(shell.expect("ready$ ")) << shell.shown();
        shell.type("exit\r");
        EXPECT_EQ(shell.wait(), 0) << shell.shown();
    }
}

TEST(JobControl, AChatThatIsStoppedInTheBackgroundCanBeEnded) {
    for (const char* term : {"xterm", "dumb"}) {
        Home home;
        home.set("TERM", term);
        Shell shell(home);
        ASSERT_TRUE(shell.started()) << shell.shown();
        shell.type("set -b; cubepi chat --offline &\r");
        ASSERT_TRUE(shell.expect("Stopped")) << shell.shown();
        shell.type(kill_job);
        ASSERT_TRUE(shell.expect("Exit 143")) << shell.shown();
        shell.type("\rcubepi chat --offline\r");
        ASSERT_TRUE(shell.expect("talks to")) << shell.shown();
        ASSERT_TRUE(shell.expect("> ")) << shell.shown();
        shell.type("\x1a");
        ASSERT_TRUE(shell.expect("Stopped")) << shell.shown();
        shell.type("bg\r");
        // The plain chat stops when the terminal has input, which may be the next line already.
        if (std::string(term) == "xterm") {
            ASSERT_TRUE(shell.expect("Stopped")) << shell.shown();
        }
        shell.type(kill_job);
        ASSERT_TRUE(shell.expect("Exit 143")) << shell.shown();
        shell.type("exit\r");
        EXPECT_EQ(shell.wait(), 0) << shell.shown();
    }
}

}  // namespace
}  // namespace cubepi::terminal_tests
