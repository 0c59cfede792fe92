// Questions of the gateway's turns: answered after a restart, by those who may, and their deadlines.

#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include <cubepi/core/run.hpp>

#include "gateway_process.hpp"

namespace cubepi::gateway_tests {
namespace {

constexpr const char* writes_a_file =
    R"({"tokens_per_second": 100000, "answers": [{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1",
        "name": "write", "arguments": {"path": "new.txt", "content": "hello\n"}}]}, "Done."]})";
constexpr const char* continues = R"({"tokens_per_second": 100000, "answers": ["Done."]})";

HttpReply post(std::uint16_t port, JsonObject message) {
    message["session"] = "s1";
    return run(post_message(port, std::move(message)));
}

bool wrote(const GatewayHome& home) {
    for (const auto& entry : std::filesystem::directory_iterator(home.workspaces())) {
        if (std::filesystem::exists(entry.path() / "new.txt")) return true;
    }
    return false;
}

TEST(GatewayQuestions, B26_AToolThatWritesIsAskedAboutAndAnsweredAfterARestart) {
    const GatewayHome home;
    {
        GatewayProcess gateway(home, {"--script", home.script(writes_a_file)});
        const std::uint16_t port = gateway.wait_until_running();
        const HttpReply asked = post(port, {{"text", "write it"}, {"user", "ann"}});
        EXPECT_EQ(asked.json().at("outputs").at(0).at("kind"), "question") << asked.body;
        EXPECT_FALSE(wrote(home));
        gateway.kill();
    }
    GatewayProcess gateway(home, {"--script", home.script(continues)});
    const std::uint16_t port = gateway.wait_until_running();
    const CommandResult inbox = run_command(home, {"inbox", "--gateway"});
    EXPECT_NE(inbox.output.find("c1\t"), std::string::npos) << inbox.output;
    const HttpReply refused = post(port, {{"text", ",approve c1"}, {"user", "ann"}});
    EXPECT_NE(refused.text().find("You may not answer this question"), std::string::npos)
        << refused.body;
    EXPECT_FALSE(wrote(home));
    const HttpReply answered = post(port, {{"text", ",approve c1"}, {"user", "olga"}});
    EXPECT_EQ(answered.text(), "Done.") << answered.body;
    EXPECT_TRUE(wrote(home));
}

TEST(GatewayQuestions, AnOperatorAnswersFromTheTerminal) {
    const GatewayHome home;
    GatewayProcess gateway(home, {"--script", home.script(writes_a_file)});
    const std::uint16_t port = gateway.wait_until_running();
    (void)post(port, {{"text", "write it"}});
    const CommandResult answered = run_command(home, {"inbox", "--gateway", "approve", "c1"});
    EXPECT_EQ(answered.status, 0) << answered.output;
    // The next message of the session waits for the turn of the answer.
    (void)post(port, {{"text", "next"}});
    EXPECT_TRUE(wrote(home));
    EXPECT_NE(run_command(home, {"inbox", "--gateway"}).output.find("No question"),
              std::string::npos);
}

TEST(GatewayQuestions, B26_ARuleAllowsATool) {
    const GatewayHome home;
    home.configure(
        R"({http: {listen: "127.0.0.1:0"}, rules: [{channel: http, user: ann, allow: ["write: *"]}]})");
    GatewayProcess gateway(home, {"--script", home.script(writes_a_file)});
    const std::uint16_t port = gateway.wait_until_running();
    const HttpReply done = post(port, {{"text", "write it"}, {"user", "ann"}});
    EXPECT_EQ(done.text(), "Done.") << done.body;
    EXPECT_TRUE(wrote(home));
}

TEST(GatewayQuestions, D65_AQuestionThatExpiresContinuesTheSession) {
    const GatewayHome home;
    home.configure(R"({http: {listen: "127.0.0.1:0", operators: [olga]}, question_timeout: 1})");
    GatewayProcess gateway(home, {"--script", home.script(writes_a_file)});
    const std::uint16_t port = gateway.wait_until_running();
    (void)post(port, {{"text", "write it"}});
    while (run_command(home, {"inbox", "--gateway"}).output.find("No question") ==
           std::string::npos) {
    }
    EXPECT_FALSE(wrote(home));
    const HttpReply next = post(port, {{"text", ",tape_info"}, {"user", "olga"}});
    EXPECT_NE(next.text().find("entries: "), std::string::npos) << next.body;
}

}  // namespace
}  // namespace cubepi::gateway_tests
