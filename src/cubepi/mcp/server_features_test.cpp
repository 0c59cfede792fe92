#include <cubepi/mcp/server_features.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/hitl/confirm_tool_calls.hpp>
#include <cubepi/mcp/client_channel.hpp>
#include <cubepi/mcp/mcp_server_test.hpp>

namespace cubepi {
namespace {

using namespace mcp_test;
using ::testing::HasSubstr;

const std::string meta_with_forms =
    R"("_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",
        "io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}})";

std::string accepted(const std::string& value) {
    return R"({"action":"accept","content":{"value":")" + value + R"("}})";
}

/// A server whose tools, prompts and resources use the protocol.
struct FeatureServer {
    TestServer settings;
    std::shared_ptr<int> begun = add_features(settings.options);
    std::shared_ptr<McpServer> server;

    explicit FeatureServer(std::string state_key = {}) {
        settings.options.state_key = std::move(state_key);
        server = settings.make();
    }

    RpcMessage answer(const std::string& line) {
        McpServerCall call;
        call.request = read_rpc_message(std::string_view(line));
        return run(server->answer(std::move(call)));
    }
    RpcMessage call_ask(const std::string& params) {
        return answer(request(1, "tools/call", R"("name":"ask")" + params + "," + meta_with_forms));
    }
};

std::string state_of(const RpcMessage& message) { return member(message, "requestState"); }

TEST(McpQuestions, WithoutSession_AreRoundsOfTheRequest) {
    FeatureServer server;
    const RpcMessage first = server.call_ask("");
    EXPECT_EQ(member(first, "resultType"), R"("input_required")");
    EXPECT_THAT(member(first, "inputRequests"), HasSubstr("Your name?"));
    const RpcMessage second = server.call_ask(R"(,"inputResponses":{"name":)" + accepted("Ann") +
                                              R"(},"requestState":)" + state_of(first));
    EXPECT_THAT(member(second, "inputRequests"), HasSubstr("Your color?"));
    EXPECT_NE(state_of(second), state_of(first));
    const RpcMessage last = server.call_ask(R"(,"inputResponses":{"color":)" + accepted("red") +
                                            R"(},"requestState":)" + state_of(second));
    EXPECT_EQ(member(last, "resultType"), R"("complete")");
    EXPECT_THAT(member(last, "content"), HasSubstr("Ann"));
    EXPECT_THAT(member(last, "content"), HasSubstr("red"));
    EXPECT_EQ(*server.begun, 3);
}

TEST(McpQuestions, AnswersOfEarlierRounds_CannotBeReplaced) {
    FeatureServer server;
    const RpcMessage second =
        server.call_ask(R"(,"inputResponses":{"name":)" + accepted("Ann") + "}");
    const RpcMessage last =
        server.call_ask(R"(,"inputResponses":{"name":)" + accepted("Eve") + R"(,"color":)" +
                        accepted("red") + R"(},"requestState":)" + state_of(second));
    EXPECT_THAT(member(last, "content"), HasSubstr("Ann"));
}

TEST(McpQuestions, StateOfAnotherRequest_IsRefused) {
    FeatureServer server("key");
    const std::string state = state_of(server.call_ask(""));
    const auto code = [&](FeatureServer& at, const std::string& params) {
        return at.call_ask(params + R"(,"requestState":)" + state).code;
    };
    EXPECT_EQ(code(server, R"(,"arguments":{"other":1})"), mcp_error::invalid_params);
    EXPECT_EQ(server.call_ask(R"(,"requestState":"x")").code, mcp_error::invalid_params);
    EXPECT_EQ(server.call_ask(R"(,"requestState":7)").code, mcp_error::invalid_params);
    FeatureServer stranger;
    EXPECT_EQ(code(stranger, ""), mcp_error::invalid_params);
    FeatureServer other_process("key");
    EXPECT_EQ(code(other_process, ""), 0);
}

TEST(McpQuestions, StateThatHasExpired_IsRefused) {
    FeatureServer server;
    server.settings.options.state_lifetime = std::chrono::nanoseconds::zero();
    server.server = server.settings.make();
    const RpcMessage first = server.call_ask("");
    EXPECT_EQ(server.call_ask(R"(,"requestState":)" + state_of(first)).code,
              mcp_error::invalid_params);
}

TEST(McpQuestions, InvalidAnswers_AreRefused) {
    FeatureServer server;
    for (const std::string answers :
         {"null", "7", R"({"name":7})", R"({"name":{}})", R"({"name":{"action":"accept"}})",
          R"({"name":{"action":"accept","content":{"value":7}}})"}) {
        EXPECT_EQ(server.call_ask(R"(,"inputResponses":)" + answers).code,
                  mcp_error::invalid_params)
            << answers;
    }
}

TEST(McpQuestions, LargeAnswers_AreRefused) {
    FeatureServer server;
    const std::string large(std::size_t{100} << 10U, 'x');
    EXPECT_EQ(server.call_ask(R"(,"inputResponses":{"name":)" + accepted(large) + "}").code,
              mcp_error::invalid_params);
}

TEST(McpQuestions, ClientWithoutCapability_IsTold) {
    FeatureServer server;
    const RpcMessage refused = server.answer(modern(1, "tools/call", R"("name":"ask")"));
    EXPECT_EQ(refused.code, mcp_error::missing_client_capability);
    EXPECT_EQ(json_text(refused.data), R"({"requiredCapabilities":{"elicitation":{}}})");
}

TEST(McpQuestions, RepeatedRounds_AreLimited) {
    FeatureServer server;
    std::string state = state_of(server.call_ask(""));
    int rounds = 1;
    RpcMessage answer;
    for (; rounds < 100; ++rounds) {
        answer = server.call_ask(R"(,"requestState":)" + state);
        if (answer.kind == RpcMessage::Kind::error) break;
        state = state_of(answer);
    }
    EXPECT_EQ(rounds, 16);
    EXPECT_EQ(answer.code, mcp_error::internal);
}

/// A client of the era with sessions, which answers questions.
Task<> answer_questions(std::shared_ptr<Pipe> pipe, std::vector<std::string> answers) {
    std::size_t seen = 0;
    std::size_t answered = 0;
    while (answered < answers.size()) {
        while (pipe->received.size() == seen) co_await pipe->arrived.wait();
        const RpcMessage message = pipe->received[seen++];
        if (message.kind != RpcMessage::Kind::request) continue;
        const std::string id = json_text(message.id);
        // Responses to other questions, or repeated ones, change nothing.
        (void)pipe->to_server.force_push(R"({"jsonrpc":"2.0","id":99,"result":{}})"
                                         "\n");
        const std::string response =
            R"({"jsonrpc":"2.0","id":)" + id + "," + answers[answered++] + "}\n";
        (void)pipe->to_server.force_push(response);
        (void)pipe->to_server.force_push(response);
    }
    pipe->to_server.close();
}

std::string open_session(const std::string& capabilities) {
    return request(1, "initialize",
                   R"("protocolVersion":"2025-11-25","capabilities":)" + capabilities) +
           R"({"jsonrpc":"2.0","method":"notifications/initialized"})"
           "\n";
}

std::vector<RpcMessage> converse(const FeatureServer& server, const std::string& line,
                                 std::vector<std::string> answers) {
    const auto pipe = std::make_shared<Pipe>();
    (void)pipe->to_server.force_push(open_session(R"({"elicitation":{}})"));
    (void)pipe->to_server.force_push(line);
    std::vector<Task<>> both;
    both.push_back(server.server->serve(std::make_unique<PipeStream>(pipe)));
    both.push_back(answer_questions(pipe, std::move(answers)));
    run(when_all(std::move(both)));
    return pipe->received;
}

TEST(McpQuestions, InSession_AreRequests) {
    const FeatureServer server;
    const auto received =
        converse(server, request(2, "tools/call", R"("name":"ask")"),
                 {R"("result":)" + accepted("Ann"), R"("result":)" + accepted("red")});
    ASSERT_EQ(received.size(), 4U);
    EXPECT_EQ(received[1].method, "elicitation/create");
    EXPECT_THAT(member(received[3], "content"), HasSubstr("red"));
    EXPECT_EQ(*server.begun, 1);
}

TEST(McpQuestions, RefusedInSession_AreFailuresOfTheTool) {
    const FeatureServer server;
    const auto received = converse(server, request(2, "tools/call", R"("name":"ask")"),
                                   {R"("error":{"code":-1,"message":"no user"})"});
    ASSERT_EQ(received.size(), 3U);
    EXPECT_EQ(member(received[2], "isError"), "true");
    EXPECT_THAT(member(received[2], "content"), HasSubstr("no user"));
}

Task<> leave_at_question(std::shared_ptr<Pipe> pipe) {
    while (pipe->received.size() < 2) co_await pipe->arrived.wait();
    pipe->to_server.close();
}

TEST(McpQuestions, ClientThatLeaves_EndsThem) {
    const FeatureServer server;
    const auto pipe = std::make_shared<Pipe>();
    (void)pipe->to_server.force_push(open_session(R"({"elicitation":{}})") +
                                     request(2, "tools/call", R"("name":"ask")"));
    std::vector<Task<>> both;
    both.push_back(server.server->serve(std::make_unique<PipeStream>(pipe)));
    both.push_back(leave_at_question(pipe));
    run(when_all(std::move(both)));
    ASSERT_EQ(pipe->received.size(), 3U);
    EXPECT_THAT(member(pipe->received[2], "content"), HasSubstr("gone"));
}

TEST(McpQuestions, SessionWithoutCapability_FailsTheTool) {
    FeatureServer server;
    const auto received = exchange(
        {open_session("{}"), request(2, "tools/call", R"("name":"ask")")}, server.settings);
    EXPECT_THAT(member(received[1], "content"), HasSubstr("does not answer"));
}

Task<ApprovalDecision> always_ask() {
    AskUser question;
    co_return ApprovalDecision(std::move(question));
}

HookSet ask_before_calls(McpRequest& request) {
    std::vector<Middleware> all;
    all.emplace_back(std::make_shared<ApprovalPolicyMiddleware>(
        mcp_client_channel(request), [](const BeforeToolCallContext&) { return always_ask(); }));
    return compose_middleware(all);
}

TEST(McpApprovals, Hooks_AskTheUserOfTheClient) {
    FeatureServer server;
    server.settings.options.call_hooks = ask_before_calls;
    server.server = server.settings.make();
    const auto call = [&](const std::string& params) {
        return server.answer(
            request(1, "tools/call",
                    R"("name":"echo","arguments":{"text":"hi"})" + params + "," + meta_with_forms));
    };
    const RpcMessage asked = call("");
    EXPECT_THAT(member(asked, "inputRequests"), HasSubstr("Call the tool echo?"));
    const std::string state = R"(,"requestState":)" + state_of(asked);
    const auto answered = [&](const std::string& answer) {
        return member(call(state + R"(,"inputResponses":{"question_1":)" + answer + "}"),
                      "content");
    };
    EXPECT_THAT(answered(R"({"action":"accept","content":{"allow":true}})"), HasSubstr("hi"));
    EXPECT_THAT(answered(R"({"action":"accept","content":{"allow":false}})"), HasSubstr("refused"));
    EXPECT_THAT(answered(R"({"action":"decline"})"), HasSubstr("refused"));
    EXPECT_THAT(answered(R"({"action":"cancel"})"), HasSubstr("dismissed"));
    EXPECT_EQ(
        server.answer(modern(1, "tools/call", R"("name":"echo","arguments":{"text":"hi"})")).code,
        mcp_error::missing_client_capability);
}

TEST(McpLog, Messages_HaveTheWantedLevel) {
    FeatureServer server;
    const std::string call = R"("name":"log")";
    const auto silent = exchange({modern(1, "tools/call", call)}, server.settings);
    ASSERT_EQ(silent.size(), 1U);
    EXPECT_THAT(member(silent[0], "content"), HasSubstr("audio/wav"));
    EXPECT_EQ(member(silent[0], "structuredContent"), R"({"lines":2})");
    const std::string wanted = meta + R"(,"io.modelcontextprotocol/logLevel":")";
    const auto logged =
        exchange({request(1, "tools/call", call + "," + wanted + R"(warning"})")}, server.settings);
    ASSERT_EQ(logged.size(), 2U);
    EXPECT_EQ(json_text(logged[0].params),
              R"({"level":"warning","logger":"tool","data":"careful"})");
    EXPECT_EQ(
        exchange({request(1, "tools/call", call + "," + wanted + R"(loud"})")}, server.settings)[0]
            .code,
        mcp_error::invalid_params);
    const auto session =
        exchange({open_session("{}"), request(2, "logging/setLevel", R"("level":"debug")"),
                  request(3, "tools/call", call)},
                 server.settings);
    EXPECT_EQ(session.size(), 5U);
}

TEST(McpPrompts, Prompts_AreFilledInAndCompleted) {
    FeatureServer server;
    EXPECT_THAT(member(server.answer(modern(1, "prompts/list")), "prompts"), HasSubstr("greet"));
    const auto get = [&](const std::string& params) {
        return server.answer(modern(1, "prompts/get", params));
    };
    EXPECT_THAT(member(get(R"("name":"greet","arguments":{"name":"Ann"})"), "messages"),
                HasSubstr("Greet Ann."));
    EXPECT_EQ(get(R"("name":"greet")").code, mcp_error::invalid_params);
    EXPECT_EQ(get(R"("name":"greet","arguments":{"name":7})").code, mcp_error::invalid_params);
    EXPECT_EQ(get(R"("name":"missing")").code, mcp_error::invalid_params);
    const auto complete = [&](const std::string& reference) {
        return server.answer(
            modern(1, "completion/complete",
                   R"("ref":)" + reference + R"(,"argument":{"name":"name","value":"A"})"));
    };
    const JsonObject completed =
        complete(R"({"type":"ref/prompt","name":"greet"})").result.at("completion").as_object();
    EXPECT_EQ(completed.at("values").as_array().size(), 100U);
    EXPECT_EQ(completed.at("hasMore"), Json(true));
    EXPECT_EQ(complete(R"({"type":"ref/prompt","name":"x"})").code, mcp_error::invalid_params);
    EXPECT_EQ(complete("{}").code, mcp_error::invalid_params);
}

TEST(McpResources, Resources_AreListedAndRead) {
    FeatureServer server;
    const auto read = [&](const std::string& uri) {
        return server.answer(modern(1, "resources/read", R"("uri":")" + uri + '"'));
    };
    EXPECT_THAT(member(server.answer(modern(1, "resources/list")), "resources"),
                HasSubstr("notes://today"));
    EXPECT_THAT(member(server.answer(modern(1, "resources/templates/list")), "resourceTemplates"),
                HasSubstr("logs://{day}.log"));
    EXPECT_THAT(member(read("notes://today"), "contents"), HasSubstr("Nothing."));
    EXPECT_EQ(member(read("notes://today"), "ttlMs"), "0");
    EXPECT_THAT(member(read("logs://mon%20day.log"), "contents"), HasSubstr("Log of mon day"));
    for (const std::string uri : {"logs://never.log", "logs://a/b.log", "logs://.log", "x", ""})
        EXPECT_EQ(read(uri).code, mcp_error::invalid_params) << uri;
    EXPECT_EQ(json_text(read("logs://never.log").data), R"({"uri":"logs://never.log"})");
    const RpcMessage refused = read("logs://...log");
    EXPECT_EQ(refused.code, mcp_error::invalid_params);
    EXPECT_EQ(refused.text, "not this one");
    const auto session = exchange(
        {open_session("{}"), request(2, "resources/read", R"("uri":"x")")}, server.settings);
    EXPECT_EQ(session[1].code, mcp_error::resource_not_found);
}

Task<> change_offer(std::shared_ptr<McpServer> server, std::shared_ptr<Pipe> pipe,
                    std::size_t ready, std::size_t wanted) {
    while (pipe->received.size() < ready) co_await pipe->arrived.wait();
    server->set_tools(ToolList());
    server->set_tools(ToolList());
    server->set_prompts({});
    server->resource_updated("notes://today");
    server->resource_updated("notes://other");
    while (pipe->received.size() < wanted) co_await pipe->arrived.wait();
    pipe->to_server.close();
}

std::vector<RpcMessage> watch(const FeatureServer& server, const std::string& lines,
                              std::size_t ready, std::size_t wanted) {
    const auto pipe = std::make_shared<Pipe>();
    (void)pipe->to_server.force_push(lines);
    std::vector<Task<>> both;
    both.push_back(server.server->serve(std::make_unique<PipeStream>(pipe)));
    both.push_back(change_offer(server.server, pipe, ready, wanted));
    run(when_all(std::move(both)));
    return pipe->received;
}

TEST(McpChanges, WithoutSession_ArriveAsTheFilterStates) {
    const FeatureServer server;
    const auto received = watch(
        server,
        modern(
            7, "subscriptions/listen",
            R"("notifications":{"toolsListChanged":true,"resourceSubscriptions":["notes://today"]})"),
        1, 3);
    ASSERT_EQ(received.size(), 3U);
    EXPECT_EQ(received[0].method, "notifications/subscriptions/acknowledged");
    EXPECT_EQ(received[1].method, "notifications/tools/list_changed");
    EXPECT_EQ(received[2].method, "notifications/resources/updated");
    for (const RpcMessage& message : received)
        EXPECT_THAT(json_text(Json(message.params)), HasSubstr(R"(subscriptionId":7)"));
}

TEST(McpChanges, InSession_ArriveForAllLists) {
    const FeatureServer server;
    const auto received = watch(
        server, open_session("{}") + request(2, "resources/subscribe", R"("uri":"notes://today")"),
        2, 5);
    ASSERT_EQ(received.size(), 5U);
    EXPECT_EQ(received[2].method, "notifications/tools/list_changed");
    EXPECT_EQ(received[3].method, "notifications/prompts/list_changed");
    EXPECT_EQ(received[4].method, "notifications/resources/updated");
}

TEST(McpChanges, TooManyStreamsAndResources_AreRefused) {
    FeatureServer server;
    server.settings.options.max_subscriptions = 2;
    const std::string listen = R"("notifications":{})";
    const auto received = exchange(
        {modern(1, "subscriptions/listen", listen), modern(2, "subscriptions/listen", listen),
         modern(3, "subscriptions/listen", listen)},
        server.settings);
    ASSERT_EQ(received.size(), 3U);
    EXPECT_EQ(received[2].code, mcp_error::internal);
    const std::string long_uri(5000, 'x');
    EXPECT_EQ(
        exchange({modern(1, "subscriptions/listen",
                         R"("notifications":{"resourceSubscriptions":[")" + long_uri + R"("]})")},
                 server.settings)[0]
            .code,
        mcp_error::invalid_params);
}

TEST(McpFeatures, RepeatedOrInvalidOnes_AreRefused) {
    const auto fails = [](auto change) {
        TestServer settings;
        add_features(settings.options);
        change(settings.options);
        try {
            (void)settings.make();
        } catch (const Error& error) {
            return error.code() == ErrorCode::invalid_argument;
        }
        return false;
    };
    EXPECT_FALSE(fails([](McpServerOptions&) {}));
    EXPECT_TRUE(fails([](McpServerOptions& o) { o.prompts.push_back(o.prompts[0]); }));
    EXPECT_TRUE(fails([](McpServerOptions& o) { o.resources.push_back(o.resources[0]); }));
    EXPECT_TRUE(fails([](McpServerOptions& o) { o.server_tools.push_back(o.server_tools[0]); }));
    EXPECT_TRUE(fails([](McpServerOptions& o) { o.server_tools[0].run = nullptr; }));
    for (const std::string text : {"a{", "a}", "{}", "{a}{b}", "{a}x{a}", "{a,b}", "{?a}"}) {
        EXPECT_TRUE(fails([&](McpServerOptions& o) {
            o.resource_templates[0].resource_template.uri_template = text;
        })) << text;
    }
}

}  // namespace
}  // namespace cubepi
