// The program at model servers that answer oddly: what it executes, repeats and sends on.

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "../terminal/terminal.hpp"
#include "model_server.hpp"
#include "program.hpp"
#include "source_tree.hpp"

namespace cubepi::joint_tests {
namespace {

using terminal_tests::Home;
using terminal_tests::Piped;
using terminal_tests::run_piped;
using terminal_tests::Terminal;

/// The text of the last tool result in a request.
std::string last_result(const boost::json::value& body) {
    std::string text;
    for (const boost::json::value& message : body.at("messages").as_array()) {
        if (message.at("role") == "tool") text = std::string(message.at("content").as_string());
    }
    return text;
}

/// The files that `write` would make, or that `list` would name.
void fill(const Home& home) {
    terminal_tests::write_file(home.work() / "secret.txt", "x");
    std::filesystem::create_directory(home.work() / "sub");
    terminal_tests::write_file(home.work() / "sub/inner.txt", "x");
}

TEST(BrokenArguments, D84_ToolWithoutRequiredParameters_IsNotExecuted) {
    const std::vector<std::string> broken = {R"({"path":"su)",
                                             R"({"path":"sub"} done)",
                                             R"({"path":"sub"}{"path":"."})",
                                             "null",
                                             R"("{\"path\":\"sub\"}")",
                                             R"(["sub"])",
                                             "  \n"};
    for (const std::string& arguments : broken) {
        const Home home;
        fill(home);
        ModelServer server({chat_answer("", {{"list", arguments}}), chat_answer("second")});
        const Piped run = run_at(home, server, {"hello"});
        EXPECT_EQ(run.status, 0) << run.err;
        ASSERT_EQ(server.requests().size(), 2u);
        const std::string result = last_result(server.bodies()[1]);
        EXPECT_EQ(result.find("secret.txt"), std::string::npos) << arguments << ": " << result;
        const bool says_why = result.find("arrived cut off") != std::string::npos ||
                              result.find("not valid JSON") != std::string::npos;
        EXPECT_TRUE(says_why) << arguments << ": " << result;
    }
}

TEST(BrokenArguments, D84_EmptyArguments_AreAnEmptyObject) {
    const Home home;
    fill(home);
    ModelServer server({chat_answer("", {{"list", ""}}), chat_answer("second")});
    const Piped run = run_at(home, server, {"hello"});
    EXPECT_EQ(run.status, 0) << run.err;
    ASSERT_EQ(server.requests().size(), 2u);
    EXPECT_NE(last_result(server.bodies()[1]).find("secret.txt"), std::string::npos);
}

TEST(BrokenArguments, D84_CutHandOff_LeavesTheConversation) {
    const Home home;
    ModelServer server({chat_answer("", {{"tape_handoff", R"({"summary":"we ta)"}}),
                        chat_answer("second"), chat_answer("third")});
    EXPECT_EQ(run_at(home, server, {"-s", "s1", "the first prompt"}).status, 0);
    EXPECT_EQ(run_at(home, server, {"-s", "s1", "again"}).status, 0);
    const std::vector<std::string> requests = server.requests();
    ASSERT_EQ(requests.size(), 3u);
    EXPECT_NE(requests[2].find("the first prompt"), std::string::npos) << requests[2];
    EXPECT_NE(last_result(server.bodies()[1]).find("arrived cut off"), std::string::npos);
}

TEST(BrokenArguments, D84_CutCallOfSubagent_IsNotExecuted) {
    const Home home;
    fill(home);
    ModelServer server({chat_answer("", {{"subagent", R"({"prompt":"list it"})"}}),
                        chat_answer("", {{"list", R"({"path":"su)"}}), chat_answer("second"),
                        chat_answer("third")});
    const Piped run = run_at(home, server, {"--yes", "hello"});
    EXPECT_EQ(run.status, 0) << run.err;
    ASSERT_EQ(server.requests().size(), 4u) << run.err;
    const std::string result = last_result(server.bodies()[2]);
    EXPECT_NE(result.find("arrived cut off"), std::string::npos) << result;
}

/// The commands that the program prints for the open question.
std::vector<std::string> words_of(const std::string& printed) {
    std::vector<std::string> words;
    std::istringstream line(printed.substr(printed.rfind("cubepi inbox") + 7));
    for (std::string word; words.size() < 5 && line >> word;) words.push_back(word);
    return words;
}

TEST(RepeatedIds, D83_PrintedApproval_IsGoodForItsCallOnly) {
    const Home home;
    ModelServer server({chat_answer("", {{"write", R"({"path":"one","content":"1"})"}}),
                        chat_answer("", {{"write", R"({"path":"two","content":"2"})"}}),
                        chat_answer("All done.")});
    const std::vector<std::string> endpoint = {"--provider", "openai", "--base-url",
                                               server.url(), "-m",     "local"};
    const auto answer = [&](std::vector<std::string> arguments) {
        arguments.insert(arguments.end(), endpoint.begin(), endpoint.end());
        return run_piped(home, std::move(arguments));
    };
    const Piped asked = run_at(home, server, {"-s", "s1", "go"});
    EXPECT_EQ(asked.status, 7) << asked.err;
    const std::vector<std::string> approval = words_of(asked.err);
    const Piped first = answer(approval);
    EXPECT_EQ(first.status, 7) << first.err;
    EXPECT_TRUE(std::filesystem::exists(home.work() / "one"));
    const std::vector<std::vector<std::string>> stale = {
        approval, {"inbox", "approve", "call_0", "--session", "s1"}};
    for (const std::vector<std::string>& again : stale) {
        const Piped refused = answer(again);
        EXPECT_NE(refused.status, 0) << refused.out << refused.err;
        EXPECT_FALSE(std::filesystem::exists(home.work() / "two")) << again[2];
        EXPECT_EQ(server.requests().size(), 2u);
    }
    const Piped second = answer(words_of(first.err));
    EXPECT_EQ(second.status, 0) << second.err;
    EXPECT_TRUE(std::filesystem::exists(home.work() / "two"));
}

/// Executes a command of the program in two processes at the same time. Returns what they print, the one with status 0 first.
std::vector<Piped> run_twice_at_once(Home& home, const std::vector<std::string>& arguments) {
    const std::filesystem::path program = testing::built_program("cubepi");
    std::string line = program.string();
    for (const std::string& word : arguments) line += " " + word;
    terminal_tests::Terminal shell(
        home, terminal_tests::OtherProgram{"/bin/bash"},
        {"-c", "one() { " + line +
                   " > ../out$1 2>&1 < /dev/null; echo -n $? > ../status$1; }; "
                   "one 1 & one 2 & wait"});
    EXPECT_EQ(shell.wait(), 0) << shell.shown();
    std::vector<Piped> ended;
    for (const char* number : {"1", "2"}) {
        Piped one;
        one.out = terminal_tests::read_file(home.root() / (std::string("out") + number));
        const std::string status =
            terminal_tests::read_file(home.root() / (std::string("status") + number));
        one.status = std::stoi(status);
        ended.push_back(std::move(one));
    }
    if (ended[0].status != 0) std::swap(ended[0], ended[1]);
    return ended;
}

TEST(AnswerRace, D105_TwoProcessesApprove_LoserIsToldSo) {
    for (int round = 0; round < 4; ++round) {
        SCOPED_TRACE(round);
        Home home;
        ModelServer server({chat_answer("", {{"shell", R"({"command":"echo x >> log"})"}}),
                            chat_answer("All done.")});
        const Piped asked = run_at(home, server, {"-s", "s1", "go"});
        EXPECT_EQ(asked.status, 7) << asked.err;
        std::vector<std::string> approval = words_of(asked.err);
        const std::vector<std::string> endpoint = {"--provider", "openai", "--base-url",
                                                   server.url(), "-m",     "local"};
        approval.insert(approval.end(), endpoint.begin(), endpoint.end());
        const std::vector<Piped> both = run_twice_at_once(home, approval);
        EXPECT_EQ(both[0].status, 0) << both[0].out;
        EXPECT_EQ(both[1].status, 1) << both[1].out;
        EXPECT_NE(both[1].out.find("already answered"), std::string::npos) << both[1].out;
        const Piped late = run_piped(home, approval);
        EXPECT_EQ(late.status, 1);
        EXPECT_NE(late.err.find("already answered"), std::string::npos) << late.err;
        EXPECT_EQ(terminal_tests::read_file(home.work() / "log"), "x\n");
    }
}

class RacingAnswers : public ::testing::Test {
protected:
    RacingAnswers() {
        terminal_tests::write_file(
            home.config(), "provider: openai\nbase_url: " + server.url() + "\nmodel: local\n");
        EXPECT_EQ(run_piped(home, {"run", "-s", "s1", "go"}).status, 7);
        const Piped listed = run_piped(home, {"inbox", "--json"});
        id = std::string(boost::json::parse(listed.out).at(0).at("id").as_string());
    }
    Piped answer(const char* how) const { return run_piped(home, {"inbox", how, id}); }

    const Home home;
    ModelServer server{{chat_answer("", {{"write", R"({"path":"one","content":"1"})"}}),
                        chat_answer("All done.")}};
    std::string id;
};

TEST_F(RacingAnswers, SecondAnswer_SaysWhoAnsweredFirst) {
    EXPECT_EQ(answer("deny").status, 0);
    for (const char* how : {"approve", "deny", "answer"}) {
        const Piped late = std::string(how) == "answer"
                               ? run_piped(home, {"inbox", "answer", id, "yes"})
                               : answer(how);
        EXPECT_NE(late.status, 0) << late.out;
        EXPECT_NE(late.err.find("It was denied before by "), std::string::npos) << late.err;
    }
    EXPECT_FALSE(std::filesystem::exists(home.work() / "one"));
    EXPECT_EQ(server.requests().size(), 2u);
}

TEST_F(RacingAnswers, ExactlyOne_Succeeds) {
    const std::string program = testing::built_program("cubepi");
    std::vector<std::unique_ptr<Terminal>> racing;
    for (const char* how : {"approve", "deny", "approve"}) {
        const std::string output = "../racer" + std::to_string(racing.size());
        racing.push_back(std::make_unique<Terminal>(
            home, terminal_tests::OtherProgram{"/bin/bash"},
            std::vector<std::string>{"-c", program + " inbox " + how + " " + id +
                                               " < /dev/null > " + output + " 2>&1"}));
    }
    int won = 0;
    for (std::size_t i = 0; i < racing.size(); ++i) {
        const int status = racing[i]->wait();
        won += status == 0 ? 1 : 0;
        const std::string printed =
            terminal_tests::read_file(home.root() / ("racer" + std::to_string(i)));
        const bool says_why = printed.find(" before by ") != std::string::npos ||
                              printed.find("is in the middle of an answer") != std::string::npos;
        EXPECT_EQ(says_why, status != 0) << status << "\n" << printed;
    }
    EXPECT_EQ(won, 1);
    EXPECT_EQ(server.requests().size(), 2u);
}

TEST(RepeatedIds, D83_HostileCallId_IsNotPrinted) {
    const Home home;
    const std::string id = "$(touch${IFS}pwned)\n--all";
    ModelServer server({chat_answer("", {{"write", R"({"path":"one","content":"1"})", id}}),
                        chat_answer("All done.")});
    const Piped asked = run_at(home, server, {"-s", "s1", "go"});
    EXPECT_EQ(asked.err.find("touch"), std::string::npos) << asked.err;
    std::vector<std::string> approval = words_of(asked.err);
    for (const char* word : {"--provider", "openai", "-m", "local", "--base-url"})
        approval.emplace_back(word);
    approval.push_back(server.url());
    EXPECT_EQ(run_piped(home, approval).status, 0);
    EXPECT_TRUE(std::filesystem::exists(home.work() / "one"));
}

TEST(LostAnswers, D91_ReusedConnectionCloses_OnlyTheRetryPolicyRepeats) {
    const Home home;
    fill(home);
    ModelServer server({chat_answer("", {{"list", "{}"}}), chat_answer("second")});
    server.closes_reused = true;
    const Piped run = run_at(home, server, {"hello"});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(run.out, "second\n");
    // The second one was lost; the retry is on a connection of its own.
    EXPECT_EQ(server.requests().size(), 3u);
    EXPECT_NE(run.err.find("trying again"), std::string::npos) << run.err;
}

TEST(Keys, LocalKey_IsNotSentToTheProxy) {
    Home home;
    ModelServer server({chat_answer("direct")});
    ModelServer proxy({chat_answer("from the proxy")});
    home.set("OPENAI_API_KEY", "key");
    for (const char* name : {"http_proxy", "all_proxy"}) home.set(name, proxy.url());
    const std::string port = server.url().substr(server.url().rfind(':'));
    for (const std::string host : {"127.0.0.1", "localhost"}) {
        home.set("OPENAI_BASE_URL", "http://" + host + port);
        const Piped run = run_piped(home, {"run", "-m", "local", "hello"});
        EXPECT_EQ(run.out, "direct\n") << host << run.err;
    }
    EXPECT_EQ(proxy.requests().size(), 0u);
}

TEST(Keys, D58_SecretsOfAllNames_DoNotReachCommands) {
    Home home;
    const std::vector<std::string> names = {"SSHPASS", "HF_TOKEN_2", "APITOKEN", "MYKEY"};
    for (const std::string& name : names) home.set(name, "hidden-value");
    ModelServer server({chat_answer("", {{"shell", R"({"command":"env"})"}}), chat_answer("done")});
    EXPECT_EQ(run_at(home, server, {"--yes", "hello"}).status, 0);
    ASSERT_EQ(server.requests().size(), 2u);
    const std::string result = last_result(server.bodies()[1]);
    EXPECT_NE(result.find("PATH="), std::string::npos) << result;
    EXPECT_EQ(result.find("hidden-value"), std::string::npos) << result;
}

}  // namespace
}  // namespace cubepi::joint_tests
