// The program at model servers whose words it must understand: rejections, limits of rates, finish reasons (D87).

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "../terminal/terminal.hpp"
#include "model_server.hpp"

namespace cubepi::joint_tests {
namespace {

using terminal_tests::Home;
using terminal_tests::Piped;
using terminal_tests::run_piped;

Piped run_at(const Home& home, const ModelServer& server, std::vector<std::string> more) {
    std::vector<std::string> arguments = {"run",        "--provider", "openai", "--base-url",
                                          server.url(), "-m",         "local"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_piped(home, std::move(arguments));
}

/// The answers of a session whose second prompt is rejected.
std::vector<std::string> answers_around(const std::string& rejection) {
    return {chat_answer("First answer."), rejection, chat_answer("A summary."),
            chat_answer("Another answer.")};
}

TEST(ServerWords, D87_Overflow_ContinuesFromSummary) {
    const std::string rejections[] = {
        refusal(400, R"({"message": "Input is too long for requested model."})"),
        refusal(400, R"([{"error": {"code": 400, "status": "INVALID_ARGUMENT", "message":
            "The input token count (1310720) exceeds the maximum number of tokens allowed (1048576)."}}])"),
        refusal(400, R"({"code": "Client specified an invalid argument", "error":
            "This model's maximum prompt length is 262144 but the request contains 301177 tokens."})"),
        refusal(400, R"({"error": {"code": "1261", "message": "Prompt 超长"}})"),
        refusal(500, R"({"error": "input length exceeds the context length"})"),
        refusal(413, "<html><h1>413 Request Entity Too Large</h1></html>"),
        "data: {\"error\": {\"message\": \"Your input exceeds the context window of this "
        "model.\"}}\n\n",
    };
    for (const std::string& rejection : rejections) {
        const Home home;
        ModelServer server(answers_around(rejection));
        EXPECT_EQ(run_at(home, server, {"-s", "s1", "first"}).status, 0);
        const Piped run = run_at(home, server, {"-s", "s1", "second"});
        EXPECT_EQ(run.status, 0) << rejection << run.err;
        EXPECT_EQ(run.out, "Another answer.\n") << rejection;
        EXPECT_NE(run.err.find("continuing from a summary"), std::string::npos) << run.err;
        EXPECT_EQ(server.requests().size(), 4u) << rejection;
    }
}

TEST(ServerWords, D87_OtherRejection_KeepsTheConversation) {
    const std::string again = "retry-after: 0.01\r\n";
    const std::string throttled =
        refusal(429, R"({"message": "Too many tokens, please wait before trying again."})", again);
    const std::string window = refusal(
        429,
        R"({"error": {"message": "This would exceed the rate limit for the long context window.",
             "type": "rate_limit_error"}})",
        again);
    const std::vector<std::vector<std::string>> cases = {
        {throttled, throttled, throttled},
        {window, window, window},
        {refusal(400, R"({"error": {"code": "unsupported_parameter", "message":
            "Unsupported parameter: 'max_tokens'. The context window of this model is 262144."}})")},
        {refusal(403, R"({"error": {"message": "The daily token limit is exceeded."}})")},
    };
    for (const std::vector<std::string>& rejections : cases) {
        const Home home;
        std::vector<std::string> answers = {chat_answer("First answer.")};
        answers.insert(answers.end(), rejections.begin(), rejections.end());
        answers.push_back(chat_answer("Third answer."));
        ModelServer server(std::move(answers));
        EXPECT_EQ(run_at(home, server, {"-s", "s1", "first"}).status, 0);
        const Piped run = run_at(home, server, {"-s", "s1", "second"});
        EXPECT_EQ(run.status, 1) << run.err;
        EXPECT_NE(run.err.find("Server message: "), std::string::npos) << run.err;
        const Piped third = run_at(home, server, {"-s", "s1", "third"});
        EXPECT_EQ(third.out, "Third answer.\n") << third.err;
        EXPECT_NE(server.requests().back().find("First answer."), std::string::npos);
    }
}

TEST(ServerWords, D87_FirstPromptDoesNotFit_IsExplained) {
    const Home home;
    ModelServer server(
        {refusal(400, R"({"error": "prompt too long; exceeded max context length"})")});
    const Piped run = run_at(home, server, {"hello"});
    EXPECT_EQ(run.status, 1);
    EXPECT_NE(run.err.find("exceeds the context window"), std::string::npos) << run.err;
    EXPECT_NE(run.err.find("larger context window"), std::string::npos) << run.err;
}

}  // namespace
}  // namespace cubepi::joint_tests
