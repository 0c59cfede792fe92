#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/hitl/in_memory_channel.hpp>
#include <cubepi/mcp/mcp_test.hpp>
#include <cubepi/mcp/sampling.hpp>
#include <cubepi/mcp/tools.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi {
namespace {

using namespace mcp_test;
using ::testing::HasSubstr;

/// An agent whose model calls the tool `sample` of a server, and the model that answers the server.
struct Sampling {
    FauxProvider agent_model;
    FauxProvider server_model;
    std::shared_ptr<InMemoryChannel> channel = std::make_shared<InMemoryChannel>();
    std::shared_ptr<McpSamplingOptions> options = std::make_shared<McpSamplingOptions>();
    JsonObject arguments;
    double max_spend = 0.0;
    std::string question;
    RunResult result;

    Sampling() {
        options->model = [this] { return server_model.model(); };
        server_model.set_responses({"Hello."});
    }

    static Task<> answer_one(Sampling* self, HitlRequestStream requests, bool allowed) {
        const std::optional<HitlRequest> request = co_await requests.next();
        if (!request) co_return;
        self->question = std::get<ConfirmRequest>(request->payload).prompt;
        co_await self->channel->answer(request->request_id, Json(allowed));
    }
    /// Returns the result of the tool.
    std::string call(const std::string& era, bool allowed, bool has_user = true) {
        FakeServer server(era + ",extra");
        server.client.sampling = options;
        const auto client = server.start();
        const McpTools made = run(mcp_tools(client));
        agent_model.set_responses(
            {faux_assistant_message(faux_tool_call("mcp__fake__sample", arguments), "tool_use"),
             "done"});
        Model free = agent_model.model().spec();
        free.cost = ModelCost();
        free.cost->input = free.cost->output = 0.0;
        AgentOptions agent_options{
            .model = BoundModel(agent_model.model().provider(), std::move(free)),
            .tools = made.tools};
        if (has_user) agent_options.channel = channel;
        agent_options.limits.max_spend = max_spend;
        HitlRequestStream requests = channel->subscribe();
        auto agent = std::make_unique<Agent>(std::move(agent_options));
        std::vector<Task<>> both;
        if (has_user) both.push_back(answer_one(this, std::move(requests), allowed));
        both.push_back(run_and_release(this, std::move(agent)));
        run(when_all(std::move(both)));
        run(client->close());
        return result.new_messages[2].text();
    }
    static Task<> run_and_release(Sampling* self, std::unique_ptr<Agent> agent) {
        self->result = co_await agent->prompt("Go");
        agent.reset();
        self->channel.reset();
    }
};

TEST(McpSampling, D163_AllowedRequest_IsAnsweredByTheModel) {
    for (const std::string era : {"modern", "2025-11-25"}) {
        Sampling it;
        const std::string text = it.call(era, true);
        EXPECT_THAT(text, HasSubstr(R"("text": "Hello.")"));
        EXPECT_THAT(text, HasSubstr(R"("stopReason": "endTurn")"));
        EXPECT_THAT(it.question, HasSubstr("The server fake asks the model"));
        EXPECT_THAT(it.question, HasSubstr("at most 100 tokens"));
        EXPECT_THAT(it.question, HasSubstr("Instructions:\n  Be brief.\nUser:\n  Say hello."));
    }
}

TEST(McpSampling, D163_RefusedRequest_CallsNoModel) {
    Sampling it;
    EXPECT_THAT(it.call("2025-11-25", false), HasSubstr("has refused"));
    EXPECT_EQ(it.server_model.call_count(), 0U);
    Sampling modern;
    EXPECT_THAT(modern.call("modern", false), HasSubstr("has refused"));
    EXPECT_EQ(modern.server_model.call_count(), 0U);
}

TEST(McpSampling, D163_WithoutUser_IsRefused) {
    Sampling it;
    EXPECT_THAT(it.call("2025-11-25", true, false), HasSubstr("No user can be asked"));
    Sampling modern;
    EXPECT_THAT(modern.call("modern", true, false), HasSubstr("no user can be asked"));
    EXPECT_EQ(it.server_model.call_count() + modern.server_model.call_count(), 0U);
}

TEST(McpSampling, D163_Usage_IsChargedToTheRun) {
    Sampling it;
    it.server_model.set_responses({faux_assistant_message(std::string(40'000, 'y'))});
    it.call("2025-11-25", true);
    // The agent's own model has written a few words.
    EXPECT_GE(it.result.usage.output_tokens.value_or(0), 5'000);
}

TEST(McpSampling, D163_SpentBudget_RefusesTheRequest) {
    Sampling it;
    Model priced = it.server_model.model().spec();
    priced.cost = ModelCost();
    priced.cost->input = 1e6;
    priced.cost->output = 1e6;
    it.options->model = [provider = it.server_model.model().provider(), priced] {
        return BoundModel(provider, priced);
    };
    it.max_spend = 0.01;
    const std::string answer = it.call("2025-11-25", true);
    EXPECT_THAT(answer, HasSubstr("The model has not answered."));
    EXPECT_EQ(answer.find("max_spend"), std::string::npos) << "limits are not for servers";
    EXPECT_EQ(it.server_model.call_count(), 0U);
}

const auto any_model = [] {
    Model model;
    model.id = "m";
    model.max_tokens = 1000;
    return BoundModel(std::move(model));
};

ModelRequest request_of(const std::string& params, bool may_have_tools = true) {
    McpSamplingOptions options;
    options.model = any_model;
    options.max_prompt_bytes = 5000;
    McpSamplingRequest request;
    request.params = parse_json(params).as_object();
    request.may_have_tools = may_have_tools;
    return detail::sampling_request(options, request);
}

std::string problem_of(const std::string& params, bool may_have_tools = true) {
    try {
        (void)request_of(params, may_have_tools);
    } catch (const McpError& error) {
        EXPECT_EQ(error.rpc_code(), mcp_error::invalid_params);
        return error.what();
    }
    return {};
}

TEST(McpSampling, InvalidRequests_AreRejected) {
    EXPECT_THAT(problem_of("{}"), HasSubstr("no messages"));
    EXPECT_THAT(problem_of(R"({"messages":[7]})"), HasSubstr("invalid"));
    EXPECT_THAT(problem_of(R"({"messages":[{"role":"system","content":[]}]})"),
                HasSubstr("unknown role"));
    EXPECT_THAT(problem_of(R"({"messages":[{"role":"user"}]})"), HasSubstr("no content"));
    EXPECT_THAT(
        problem_of(R"({"messages":[{"role":"user","content":{"type":"audio","data":"aGk="}}]})"),
        HasSubstr("'audio'"));
    EXPECT_THAT(
        problem_of(
            R"({"messages":[{"role":"user","content":{"type":"image","data":"http://10.0.0.1/x"}}]})"),
        HasSubstr("not base64"));
    EXPECT_THAT(
        problem_of(
            R"({"maxTokens":0,"messages":[{"role":"user","content":{"type":"text","text":"x"}}]})"),
        HasSubstr("positive"));
    EXPECT_THAT(problem_of(R"({"messages":[{"role":"user","content":{"type":"text","text":")" +
                           std::string(6000, 'x') + R"("}}]})"),
                HasSubstr("more than 5000 bytes"));
    const std::string tools =
        R"({"tools":[{"name":"a b","inputSchema":{}}],"messages":[{"role":"user","content":{"type":"text","text":"x"}}]})";
    EXPECT_THAT(problem_of(tools), HasSubstr("a b"));
    EXPECT_THAT(problem_of(tools, false), HasSubstr("has no tools"));
}

TEST(McpSampling, Request_IsConvertedWithinItsLimits) {
    const ModelRequest request = request_of(
        R"({"maxTokens":100000,"temperature":9,"tools":[{"name":"t","inputSchema":{"type":"object"}}],"messages":[
            {"role":"user","content":{"type":"text","text":"x"}},
            {"role":"assistant","content":[{"type":"tool_use","id":"1","name":"t","input":{"a":1}}]},
            {"role":"user","content":[{"type":"tool_result","toolUseId":"1","content":[{"type":"text","text":"r"}]}]}]})");
    EXPECT_EQ(request.model.max_tokens, 1000);
    EXPECT_EQ(request.model.temperature, 2.0);
    ASSERT_EQ(request.messages.size(), 3U);
    EXPECT_EQ(request.messages[1].assistant()->tool_calls().at(0)->arguments.at("a"), Json(1));
    EXPECT_EQ(request.messages[2].tool_result()->tool_call_id, "1");
    ASSERT_TRUE(request.tools);
    EXPECT_EQ(request.tools->size(), 1U);
}

TEST(McpSampling, Question_CannotBeImitated) {
    McpSamplingRequest request;
    request.server = "git";
    const ModelRequest asked = request_of(
        R"({"messages":[{"role":"user","content":{"type":"text","text":"x\nAllow it?\n\u001b[2Jy"}}]})");
    const std::string text = detail::sampling_question(request, asked);
    EXPECT_THAT(text, HasSubstr("\n  x\n  Allow it?\n   [2Jy"));
}

TEST(McpSampling, ToolCalls_AreReturnedToTheServer) {
    JsonObject arguments;
    arguments["a"] = 1;
    const AssistantMessage answer =
        faux_assistant_message(faux_tool_call("t", std::move(arguments), "c1"), "tool_use");
    const JsonObject result = detail::sampling_result(answer);
    EXPECT_EQ(result.at("stopReason"), Json("toolUse"));
    EXPECT_EQ(result.at("content").at(0).at("name"), Json("t"));
}

}  // namespace
}  // namespace cubepi
