#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/agent/agent.hpp>
#include <cubepi/checkpoint/memory_checkpointer.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/openai_responses.hpp>
#include <cubepi/testing/memory_transport.hpp>

// Agents whose conversation the endpoint stores (D57): their requests over several turns, hooks and restarts.

namespace cubepi {
namespace {

using testing::MemoryResponse;

/// Answers each request: with a call of `add` where requested, else with text.
class Endpoint {
public:
    explicit Endpoint(std::vector<std::string> turns)
        : transport_(std::make_shared<testing::MemoryTransport>(
              [this](const HttpRequest& request) { return answer(request); })),
          turns_(std::move(turns)) {}

    std::shared_ptr<const Runtime> runtime() const {
        return std::make_shared<const Runtime>(Runtime().with_transport(transport_));
    }
    AgentOptions options() const {
        OpenAIResponsesOptions how;
        how.api_key = "k";
        how.base_url = "http://endpoint/v1";
        how.server_state = true;
        const OpenAIResponsesProvider provider(how);
        struct Args {
            int a = 0;
        };
        AgentOptions made;
        made.model = provider.model("gpt-4.1");
        made.system_prompt = "Be brief.";
        made.tools.push_back(
            tool<Args>("add", "Adds one.", [](Args args) { return std::to_string(args.a + 1); }));
        made.runtime = runtime();
        return made;
    }
    /// The response from which the n-th request continued; empty: it contained the whole history.
    std::string previous(std::size_t n) const {
        const Json* id = bodies.at(n).if_contains("previous_response_id");
        return id ? std::string(id->as_string()) : std::string();
    }
    std::size_t items(std::size_t n) const { return bodies.at(n).at("input").as_array().size(); }

    std::vector<JsonObject> bodies;

private:
    MemoryResponse answer(const HttpRequest& request) {
        bodies.push_back(boost::json::parse(request.body).as_object());
        const std::size_t number = bodies.size();
        const std::string id = "r" + std::to_string(number);
        const std::string turn = turns_.at(number - 1);
        const std::string item =
            turn == "call"
                ? R"({"id":"fc_)" + id + R"(","type":"function_call","call_id":"c_)" + id +
                      R"(","name":"add","arguments":"{\"a\":1}"})"
                : R"({"id":"msg_)" + id +
                      R"(","type":"message","role":"assistant","content":[{"type":"output_text","text":")" +
                      turn + R"(","annotations":[]}]})";
        return MemoryResponse(200)
            .with_event(R"({"type":"response.output_item.done","output_index":0,"item":)" + item +
                        "}")
            .with_event(R"({"type":"response.completed","response":{"id":")" + id +
                        R"(","status":"completed","error":null}})");
    }

    std::shared_ptr<testing::MemoryTransport> transport_;
    std::vector<std::string> turns_;
};

TEST(ServerState, D57_SendsOnlyNewMessages) {
    Endpoint endpoint({"call", "Two", "Three"});
    Agent agent(endpoint.options());
    ASSERT_TRUE(run(agent.prompt("a")));
    ASSERT_TRUE(run(agent.prompt("b")));
    ASSERT_EQ(endpoint.bodies.size(), 3u);
    EXPECT_EQ(endpoint.previous(0), "");
    EXPECT_EQ(endpoint.previous(1), "r1");
    EXPECT_EQ(endpoint.items(1), 1u);
    EXPECT_EQ(endpoint.bodies[1].at("input").at(0).at("output"), Json("2"));
    EXPECT_EQ(endpoint.previous(2), "r2");
    EXPECT_EQ(endpoint.items(2), 1u);
}

TEST(ServerState, D57_AnotherAgentContinuesTheStoredThread) {
    Endpoint endpoint({"call", "Two", "Three"});
    auto store = std::make_shared<MemoryCheckpointer>();
    const auto on_thread = [&] {
        AgentOptions options = endpoint.options();
        options.checkpointer = store;
        options.thread_id = "t";
        return options;
    };
    {
        Agent agent(on_thread());
        ASSERT_TRUE(run(agent.prompt("a")));
    }
    Agent agent(on_thread());
    ASSERT_TRUE(run(agent.prompt("b")));
    EXPECT_EQ(endpoint.previous(2), "r2");
}

TEST(ServerState, D57_SendsTheWholeHistoryIfAHookChangesTheContext) {
    Endpoint endpoint({"One", "Two", "Three"});
    AgentOptions options = endpoint.options();
    bool shorten = false;
    options.transform_context = [&shorten](MessageList messages, HookContext&) {
        MessageList result;
        for (std::size_t i = shorten ? 1 : 0; i < messages.size(); ++i)
            result.push_back(messages[i]);
        return result;
    };
    std::vector<std::string> reasons;
    Agent agent(std::move(options));
    agent.subscribe([&](const AgentEvent& event) {
        const NoticeEvent* seen = event.get_if<NoticeEvent>();
        if (seen && seen->notice.code == "server_state_dropped")
            reasons.emplace_back(seen->notice.details.at("reason").as_string());
    });
    ASSERT_TRUE(run(agent.prompt("a")));
    ASSERT_TRUE(run(agent.prompt("b")));
    shorten = true;
    ASSERT_TRUE(run(agent.prompt("c")));
    EXPECT_EQ(endpoint.previous(1), "r1");
    EXPECT_EQ(endpoint.previous(2), "");
    EXPECT_EQ(endpoint.items(2), 4u);
    EXPECT_EQ(reasons, std::vector<std::string>{"the history was changed"});
}

TEST(ServerState, D57_AfterAnAbortInAToolTheNextRequestIsLegal) {
    Endpoint endpoint({"call", "Two"});
    Agent* running = nullptr;
    AgentOptions options = endpoint.options();
    options.before_tool_call = [&running](BeforeToolCallContext&) {
        running->abort();
        return std::optional<BeforeToolCallResult>();
    };
    Agent agent(std::move(options));
    running = &agent;
    EXPECT_FALSE(run(agent.prompt("a")));
    ASSERT_TRUE(run(agent.prompt("b")));
    std::size_t calls = 0;
    std::size_t results = 0;
    for (const Json& item : endpoint.bodies.at(1).at("input").as_array()) {
        const Json* type = item.as_object().if_contains("type");
        calls += type && *type == Json("function_call") ? 1u : 0u;
        results += type && *type == Json("function_call_output") ? 1u : 0u;
    }
    // The call is in the previous response or in the request itself; its result is in the request.
    EXPECT_EQ(calls, endpoint.previous(1).empty() ? 1u : 0u);
    EXPECT_EQ(results, 1u);
}

}  // namespace
}  // namespace cubepi
