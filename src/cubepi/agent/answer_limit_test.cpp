// Answers that are larger than AgentLimits::max_answer_bytes, and models that never wait. D24, D34, D74.

#include <cubepi/agent/agent_test_support.hpp>
#include <cubepi/provider/openai.hpp>
#include <cubepi/testing/memory_transport.hpp>

namespace cubepi {
namespace {

using namespace agent_test;
using testing::MemoryResponse;
using testing::MemoryTransport;

MemoryResponse stream() {
    return MemoryResponse(200).with_header("content-type", "text/event-stream");
}

/// Pieces of a text, or of a call's arguments, without an end.
MemoryResponse endless(const std::string& delta) {
    MemoryResponse answer = stream();
    for (int i = 0; i < 400; ++i) {
        answer =
            MemoryResponse(answer).with_event(R"({"choices":[{"index":0,"delta":)" + delta + "}]}");
    }
    return answer;
}

MemoryResponse response_with(const std::string& text) {
    return stream()
        .with_event(R"({"choices":[{"index":0,"delta":{"content":")" + text + R"("}}]})")
        .with_event(R"({"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})")
        .with_event("[DONE]");
}

}  // namespace

TEST(AnswerLimit, D74_ALargeAnswerEndsTheRunAndTheNextPromptWorks) {
    const std::string piece(10'000, 'x');
    const std::vector<std::string> deltas{
        R"({"content":")" + piece + R"("})",
        R"({"reasoning_content":")" + piece + R"("})",
        R"({"refusal":")" + piece + R"("})",
        R"({"tool_calls":[{"index":0,"id":"c1","function":{"name":"echo","arguments":")" + piece +
            R"("}}]})",
    };
    for (const std::string& delta : deltas) {
        const auto transport = std::make_shared<MemoryTransport>(
            std::vector<MemoryResponse>{endless(delta), response_with("fine")});
        AgentOptions options;
        options.model = OpenAIProvider({.api_key = "k"}).model("m");
        options.tools = {echo_tool()};
        options.limits.max_answer_bytes = 1'000'000;
        options.runtime = std::make_shared<const Runtime>(Runtime().with_transport(transport));
        options.checkpointer = std::make_shared<MemoryCheckpointer>();
        options.thread_id = "t";
        Agent agent(std::move(options));
        const RunResult result = run(agent.prompt("hi"));
        EXPECT_EQ(result.outcome, RunOutcome::limited) << delta.substr(0, 20);
        const auto* reached = dynamic_cast<const LimitReachedError*>(&result.error());
        ASSERT_NE(reached, nullptr);
        EXPECT_EQ(reached->limit(), "max_answer_bytes");
        std::size_t bytes = 0;
        for (const Message& message : agent.state().messages) bytes += message.text().size();
        EXPECT_LE(bytes, std::size_t{65} << 10U);
        EXPECT_TRUE(repair_request(agent.state().messages).repairs == TranscriptRepairs());
        const RunResult next = run(agent.prompt("and now?"));
        EXPECT_EQ(next.outcome, RunOutcome::completed) << delta.substr(0, 20);
        EXPECT_EQ(next.text(), "fine");
        const std::vector<HttpRequest> requests = transport->requests();
        ASSERT_EQ(requests.size(), 2U) << "an answer that was too large is not asked for again";
        EXPECT_LE(requests.back().body.size(), std::size_t{70} << 10U);
    }
}

// A model and a tool that never wait: other coroutines of the same loop run all the same, and can stop the run.
TEST(AnswerLimit, AModelThatNeverWaitsCanBeAborted) {
    FauxProvider faux;
    std::vector<FauxStep> steps;
    for (int i = 0; i < 500; ++i)
        steps.emplace_back(calling({echo_call("a", "c" + std::to_string(i))}));
    faux.set_responses(std::move(steps));
    AgentOptions options;
    options.model = faux.model();
    options.tools = {echo_tool()};
    options.limits.max_turns = 0;
    Agent agent(std::move(options));
    RunResult result;
    run([](Agent& agent, RunResult& result) -> Task<> {
        Task<RunResult> prompted = agent.prompt("hi");
        BackgroundScope others(co_await this_executor);
        others.spawn([](Agent& agent) -> Task<> {
            while (!agent.state().is_streaming) co_await yield_now();
            agent.abort();
        }(agent));
        result = co_await std::move(prompted);
        co_await others.close();
    }(agent, result));
    EXPECT_EQ(result.outcome, RunOutcome::aborted);
    EXPECT_LT(agent.state().messages.size(), 200U);
}

}  // namespace cubepi
