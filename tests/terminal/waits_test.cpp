// Every wait for the user ends when the terminal is gone and when a signal ends the program.

#include <gtest/gtest.h>

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
        "arguments": {"path": "a.txt", "content": "x"}}]}, "Refused, then."])";

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
            ASSERT_TRUE(terminal.expect_on_screen(GetParam().before)) << terminal.shown();
            terminal.type(GetParam().keys);
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

TEST_P(WaitForTheUser, EndsAtSigtermAndSighup) {
    for (const int signal : {SIGTERM, SIGHUP}) {
        Terminal terminal(home, arguments);
        ASSERT_NO_FATAL_FAILURE(reach(terminal));
        terminal.send(signal);
        EXPECT_EQ(terminal.wait(), 128 + signal) << terminal.shown();
    }
    EXPECT_TRUE(std::filesystem::is_empty(home.root() / "tmp")) << "temporary files";
    EXPECT_FALSE(std::filesystem::exists(home.work() / "a.txt"));
}

TEST_P(WaitForTheUser, EndsWhenTheTerminalIsGone) {
    Terminal terminal(home, arguments);
    ASSERT_NO_FATAL_FAILURE(reach(terminal));
    EXPECT_EQ(terminal.hang_up(), 128 + SIGHUP);
    EXPECT_TRUE(std::filesystem::is_empty(home.root() / "tmp")) << "temporary files";
    EXPECT_FALSE(std::filesystem::exists(home.work() / "a.txt"));
}

/// Under nohup only reading tells that the terminal is gone.
TEST_P(WaitForTheUser, EndsAtTheEndOfInputWhenSighupIsIgnored) {
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
    {"PlainChatAtThePrompt", {"chat", "--offline"}, true, "", "", "\n>", 141},
    {"PlainChatAtAQuestion", {"chat", "--script", "SCRIPT"}, true, "\n>", "go\r", "[y]es", 141},
    {"PlainChatAtTheModelPicker", {"chat", "--base-url", "SERVER"}, true, "", "", "name >", 130},
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

TEST(WaitsForTheUser, CtrlCAtTheModelPickerOfARunEndsItAndRestoresTheTerminal) {
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
    ASSERT_TRUE(shell.expect("name > ")) << shell.shown();
    shell.type("\x03");
    ASSERT_TRUE(shell.expect("status 130")) << shell.shown();
    EXPECT_TRUE(shell.expect("same")) << shell.shown();
    shell.type("exit\r");
    EXPECT_EQ(shell.wait(), 0) << shell.shown();
}

}  // namespace
}  // namespace cubepi::terminal_tests
