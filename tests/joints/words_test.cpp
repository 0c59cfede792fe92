// The program at model servers whose words it must understand: rejections, limits of rates, finish reasons (D87).

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "../terminal/terminal.hpp"
#include "model_server.hpp"
#include "program.hpp"

namespace cubepi::joint_tests {
namespace {

using terminal_tests::Home;
using terminal_tests::Piped;
using terminal_tests::run_piped;

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
        EXPECT_NE(run.err.find("a summary stands for "), std::string::npos) << run.err;
        EXPECT_EQ(server.requests().size(), 4u) << rejection;
    }
}

TEST(ServerWords, D87_Status403_IsNotAnAuthenticationError) {
    for (const char* body :
         {R"({"error": {"message": "Model access is denied.", "type": "permission_error"}})",
          R"({"error": {"message": "Model access is denied.", "code": "invalid_api_key"}})"}) {
        const Home home;
        ModelServer server({refusal(403, body)});
        const Piped run = run_at(home, server, {"hi"});
        EXPECT_EQ(run.status, 1);
        EXPECT_NE(
            run.err.find("denied access (HTTP 403).\n  Server message: Model access is denied."),
            std::string::npos)
            << run.err;
        EXPECT_EQ(run.err.find("authentication"), std::string::npos) << run.err;
        EXPECT_EQ(server.requests().size(), 1u);
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

// Finish reasons.

void expect_incomplete(const Piped& run, const std::string& word) {
    EXPECT_EQ(run.status, 6) << word << run.err;
    EXPECT_EQ(run.out, "The three causes are\n") << word;
    EXPECT_NE(run.err.find("is incomplete"), std::string::npos) << run.err;
    EXPECT_NE(run.err.find(word), std::string::npos) << run.err;
}

TEST(ServerWords, D87_UnknownFinishReason_IsIncomplete) {
    for (const char* word :
         {"abort", "aborted", "error", "network_error", "MAX_TOKENS", "SAFETY", "unknown",
          "insufficient_system_resource", "model_context_window_exceeded", "pause"}) {
        const Home home;
        ModelServer server({chat_answer("The three causes are", {}, word)});
        const Piped run = run_at(home, server, {"hello"});
        expect_incomplete(run, word);
        EXPECT_EQ(server.requests().size(), 1u);
    }
}

TEST(ServerWords, D87_KnownFinishReason_IsSuccess) {
    for (const char* word : {"stop", "eos", "eos_token", "STOP", "COMPLETE", "end_turn",
                             "stop_sequence", "eosFound"}) {
        const Home home;
        ModelServer server({chat_answer("Hello.", {}, word)});
        const Piped run = run_at(home, server, {"hello"});
        EXPECT_EQ(run.status, 0) << word << run.err;
        EXPECT_EQ(run.out, "Hello.\n");
        EXPECT_EQ(run.err, "") << word;
    }
}

TEST(ServerWords, D87_HostileFinishReason_IsBoundedAndEscaped) {
    const Home home;
    ModelServer server({chat_answer("The three causes are", {},
                                    "x\x1b[2J\ncubepi: all is well" + std::string(5'000, 'y'))});
    const Piped run = run_at(home, server, {"hello"});
    expect_incomplete(run, "'x?[2J?cubepi: all is well");
    EXPECT_EQ(run.err.find('\x1b'), std::string::npos);
    EXPECT_LT(run.err.size(), 500u);
}

TEST(ServerWords, D87_IncompleteAnswerInChat_IsReportedOnce) {
    const Home home;
    ModelServer server({chat_answer("Half of it", {}, "abort"), chat_answer("All of it")});
    terminal_tests::Terminal chat(home, {"chat", "--no-save", "--provider", "openai", "--base-url",
                                         server.url(), "-m", "local"});
    ASSERT_TRUE(chat.answer_on_screen("talks to", "hello\r")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("'abort'", "again\r")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("All of it")) << chat.screen().text();
    const std::string screen = chat.screen().text();
    EXPECT_EQ(screen.find("'abort'"), screen.rfind("'abort'")) << screen;
}

TEST(ServerWords, D87_IncompleteAnswerOfSubagent_IsReportedToParent) {
    const Home home;
    ModelServer server({chat_answer("", {{"subagent", R"({"prompt":"list it"})"}}),
                        chat_answer("The three causes are", {}, "abort"), chat_answer("Done.")});
    const Piped run = run_at(home, server, {"--yes", "hello"});
    EXPECT_EQ(run.status, 0) << run.err;
    ASSERT_EQ(server.requests().size(), 3u) << run.err;
    EXPECT_NE(server.requests()[2].find("[error: the answer is incomplete: the server ended it"),
              std::string::npos)
        << server.requests()[2];
}

/// `cubepi run` with the Messages API or the Responses API of the server.
Piped run_with(const Home& home, const ModelServer& server, const std::string& provider) {
    std::string url = server.url();
    if (provider == "anthropic") url.resize(url.size() - 3);
    return run_piped(
        home, {"run", "--provider", provider, "--base-url", url, "-m", "local", "-s", "s1", "go"});
}

std::string anthropic_answer(const std::string& blocks, const std::string& reason) {
    return "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\","
           "\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[]}}\n\n" +
           blocks +
           "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":"
           "{\"stop_reason\":\"" +
           reason +
           "\"}}\n\n"
           "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
}

std::string block(int index, const std::string& content) {
    const std::string number = std::to_string(index);
    return "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":" +
           number + ",\"content_block\":" + content +
           "}\n\nevent: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":" +
           number + "}\n\n";
}

const std::string text_block = R"({"type":"text","text":"The three causes are"})";
const std::string search_block =
    R"({"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"x"}})";

TEST(ServerWords, D87_MessagesApiReasons_AreIncomplete) {
    for (const char* word :
         {"max_tokens", "refusal", "model_context_window_exceeded", "aborted", "new_reason"}) {
        const Home home;
        ModelServer server({anthropic_answer(block(0, text_block), word)});
        // The library's own word for max_tokens is `length`.
        const std::string reported = word == std::string("max_tokens") ? "length" : word;
        expect_incomplete(run_with(home, server, "anthropic"), reported);
    }
}

TEST(ServerWords, D87_PausedAnswer_IsSentBackUnchanged) {
    const Home home;
    const std::string blocks = block(0, text_block) + block(1, search_block);
    ModelServer server(
        {anthropic_answer(blocks, "pause_turn"), anthropic_answer(blocks, "pause_turn"),
         anthropic_answer(block(0, R"({"type":"text","text":"rain."})"), "end_turn")});
    const Piped run = run_with(home, server, "anthropic");
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_NE(run.out.find("rain."), std::string::npos) << run.out;
    ASSERT_EQ(server.requests().size(), 3u);
    const boost::json::array content{boost::json::parse(text_block),
                                     boost::json::parse(search_block)};
    for (const boost::json::value& body : {server.bodies()[1], server.bodies()[2]}) {
        const boost::json::object last = body.at("messages").as_array().back().as_object();
        EXPECT_EQ(last.at("role"), "assistant");
        EXPECT_EQ(last.at("content"), boost::json::value(content));
    }
}

TEST(ServerWords, D87_PausedForever_EndsAtTheTurnLimit) {
    const Home home;
    ModelServer server({anthropic_answer(block(0, search_block), "pause_turn")});
    std::string url = server.url();
    url.resize(url.size() - 3);
    const Piped run = run_piped(home, {"run", "--provider", "anthropic", "--base-url", url, "-m",
                                       "local", "--max-turns", "3", "go"});
    EXPECT_NE(run.status, 0);
    EXPECT_NE(run.err.find("max_turns"), std::string::npos) << run.err;
    EXPECT_EQ(server.requests().size(), 3u);
}

/// The server begins an answer before it refuses the request.
TEST(ServerWords, D112_OverflowAfterStart_ContinuesFromSummary) {
    const auto data = [](const std::string& json) { return "data: " + json + "\n\n"; };
    const auto answers = [](const std::string& provider, const std::string& text) {
        if (provider == "openai") return chat_answer(text);
        if (provider == "anthropic")
            return anthropic_answer(block(0, R"({"type":"text","text":")" + text + R"("})"),
                                    "end_turn");
        return R"(data: {"type":"response.completed","response":{"id":"r","status":"completed",)"
               R"("output":[{"type":"message","id":"i","role":"assistant","content":)"
               R"([{"type":"output_text","text":")" +
               text + "\"}]}]}}\n\n";
    };
    const std::pair<std::string, std::string> cases[] = {
        {"openai",
         data(R"({"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]})") +
             data(
                 R"({"error":{"message":"This model's maximum context length is 4096 tokens."}})")},
        {"anthropic",
         data(R"({"type":"message_start","message":{"id":"m","type":"message","content":[]}})") +
             data(R"({"type":"error","error":{"type":"invalid_request_error",)"
                  R"("message":"prompt is too long: 210000 tokens > 200000 maximum"}})")},
        {"openai-responses",
         data(R"({"type":"response.created","response":{"id":"r","status":"in_progress"}})") +
             data(R"({"type":"response.failed","response":{"id":"r","status":"failed",)"
                  R"("error":{"code":"context_length_exceeded","message":"Too long."}}})")}};
    for (const auto& [provider, rejection] : cases) {
        const Home home;
        ModelServer server({answers(provider, "First answer."), rejection,
                            answers(provider, "A summary."), answers(provider, "Another answer.")});
        EXPECT_EQ(run_with(home, server, provider).status, 0);
        const Piped run = run_with(home, server, provider);
        EXPECT_EQ(run.status, 0) << provider << run.err;
        EXPECT_EQ(run.out, "Another answer.\n") << provider;
        EXPECT_NE(run.err.find("a summary stands for "), std::string::npos) << run.err;
        EXPECT_EQ(server.requests().size(), 4u) << provider;
    }
}

/// Calls of an answer that was refused or aborted.
TEST(ServerWords, D3_CallsOfIncompleteAnswer_AreNotExecuted) {
    const std::vector<SentCall> calls = {{"shell", R"({"command":"echo ran > ran.txt"})"}};
    for (const char* word : {"abort", "error", "unknown"}) {
        const Home home;
        ModelServer server({chat_answer("", calls, word), chat_answer("Done.")});
        const Piped run = run_at(home, server, {"--yes", "go"});
        EXPECT_EQ(run.status, 0) << word << run.err;
        ASSERT_EQ(server.requests().size(), 2u) << word;
        EXPECT_NE(server.requests()[1].find("The call was not executed. Make it again."),
                  std::string::npos)
            << server.requests()[1];
    }
    const std::string refusal_text =
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"refusal\":\"I cannot.\"}}]}\n\n";
    for (const std::string& answer :
         {chat_answer("", calls, "content_filter"), chat_answer("", calls, "SAFETY"),
          refusal_text + chat_answer("", calls)}) {
        const Home home;
        ModelServer server({answer});
        const Piped run = run_at(home, server, {"--yes", "go"});
        EXPECT_EQ(run.status, 6) << answer << run.err;
        EXPECT_NE(run.err.find("was refused or filtered"), std::string::npos) << run.err;
        EXPECT_EQ(server.requests().size(), 1u) << answer;
    }
}

TEST(ServerWords, D87_ResponsesApiStatus_IsIncomplete) {
    const std::string item =
        R"({"type":"message","id":"i","role":"assistant","status":"completed","content":[{"type":"output_text","text":"The three causes are"}]})";
    const std::pair<const char*, const char*> cases[] = {
        {R"("status":"incomplete","incomplete_details":{"reason":"content_filter"})",
         "content_filter"},
        {R"("status":"incomplete","incomplete_details":{"reason":"max_output_tokens"})", "length"},
        {R"("status":"incomplete","incomplete_details":{"reason":"new_reason"})", "new_reason"},
        {R"("status":"suspended")", "suspended"},
    };
    for (const auto& [members, word] : cases) {
        const Home home;
        ModelServer server(
            {"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{"
             "\"id\":\"r\",\"object\":\"response\",\"output\":[" +
             item + "]," + members + "}}\n\n"});
        expect_incomplete(run_with(home, server, "openai-responses"), word);
    }
}

// Limits of rates and times.

TEST(ServerWords, D15_RateLimitWithDelayInText_IsRetried) {
    const std::string body =
        R"({"error": {"message": "Rate limit reached: Please try again in 50ms.", "code": "rate_limit_exceeded"}})";
    for (const std::string& limited : {refusal(429, body), "data: " + body + "\n\n"}) {
        const Home home;
        // More often than other failures.
        ModelServer server({limited, limited, limited, limited, chat_answer("ok")});
        const Piped run = run_at(home, server, {"hello"});
        EXPECT_EQ(run.status, 0) << run.err;
        EXPECT_EQ(run.out, "ok\n");
        EXPECT_NE(run.err.find("for at most 60 s"), std::string::npos) << run.err;
        EXPECT_EQ(server.requests().size(), 5u);
    }
}

TEST(ServerWords, D16_ConfiguredIdleTimeout_IsExplained) {
    const Home home;
    terminal_tests::write_file(home.config(), "idle_timeout: 0.2\n");
    wire::RawServer server([](wire::Connection& connection) {
        (void)connection.read_request();
        const bool sent =
            connection.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: ping\n\n");
        while (sent && !connection.read_some().empty()) {
        }
    });
    const Piped run = run_piped(home, {"run", "--provider", "openai", "--base-url",
                                       server.url("/v1"), "-m", "local", "hello"});
    EXPECT_EQ(run.status, 1) << run.err;
    EXPECT_NE(run.err.find("only keep-alives or events without content received for 0.2 s"),
              std::string::npos)
        << run.err;
    EXPECT_NE(run.err.find("raise idle_timeout (seconds) in "), std::string::npos) << run.err;
}

}  // namespace
}  // namespace cubepi::joint_tests
