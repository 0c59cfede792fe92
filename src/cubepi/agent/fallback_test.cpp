// An agent whose model is a fallback chain. D1, D7, D15, D23, D38, D39, D55.

#include <cubepi/provider/fallback.hpp>

#include "agent_test_support.hpp"

namespace cubepi {
namespace {

using namespace agent_test;
using cubepi::testing::ManualClock;

FauxStep down(ErrorCode code = ErrorCode::unavailable) {
    ErrorInfo info;
    info.code = code;
    return faux_failure("the endpoint is down", info);
}

struct Chain {
    explicit Chain(FallbackOptions options = {})
        : model({first.model("first"), second.model("second")}, std::move(options)) {}
    Requests requests;
    FauxProvider first{FauxOptions{.provider_id = "p1"}};
    FauxProvider second{FauxOptions{.provider_id = "p2"}};
    FallbackBoundModel model;
};

TEST(FallbackAgent, D55_TheSecondModelFinishesTheRunAndTheNextRunStartsAtTheFirst) {
    FallbackOptions options;
    options.cool_down = std::chrono::nanoseconds::zero();
    Chain chain(std::move(options));
    chain.first.set_responses({down(), chain.requests.answer("first again")});
    chain.second.set_responses({chain.requests.answer(calling({echo_call("x")})),
                                chain.requests.answer("from the second")});
    Agent agent({.model = chain.model, .tools = {echo_tool()}});
    Recorder recorder(agent);
    const RunResult result = run(agent.prompt("hi"));
    ASSERT_TRUE(result) << result.error().what();
    EXPECT_EQ(result.text(), "from the second");
    EXPECT_EQ(recorder.notices(), (std::vector<std::string>{"failover"}));
    EXPECT_EQ(chain.first.call_count(), 1u);
    EXPECT_EQ(chain.second.call_count(), 2u);
    for (const Message& message : agent.state().messages) {
        if (message.role() != Role::assistant) continue;
        EXPECT_EQ(message.assistant()->model_id, "second");
        EXPECT_EQ(message.assistant()->provider_id, "p2");
    }
    EXPECT_TRUE(run(agent.prompt("more")));
    EXPECT_EQ(chain.first.call_count(), 2u);
    EXPECT_TRUE(is_legal_transcript(chain.requests.seen.back().messages));
}

TEST(FallbackAgent, AHopInTheMiddleOfARunKeepsTheHistory) {
    Chain chain;
    chain.first.set_responses(
        {chain.requests.answer(calling({echo_call("x")})), down(ErrorCode::rate_limited)});
    chain.second.set_responses({chain.requests.answer("done")});
    Agent agent({.model = chain.model, .tools = {echo_tool()}});
    EXPECT_EQ(run(agent.prompt("hi")).text(), "done");
    const MessageList& asked = chain.requests.seen.back().messages;
    EXPECT_EQ(roles(asked), (std::vector<Role>{Role::user, Role::assistant, Role::tool_result}));
    EXPECT_EQ(asked[1].assistant()->model_id, "first");
}

TEST(FallbackAgent, AnExhaustedChainIsAFailedRunAndTheNextPromptWorks) {
    Chain chain;
    chain.first.set_responses({down()});
    chain.second.set_responses({down(ErrorCode::model_not_found)});
    Agent agent({.model = chain.model});
    Recorder recorder(agent);
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_EQ(result.outcome, RunOutcome::failed);
    EXPECT_EQ(result.error().code(), ErrorCode::unavailable);
    EXPECT_EQ(recorder.notices(), (std::vector<std::string>{"failover", "failover"}));
    EXPECT_EQ(recorder.count(AgentEventType::agent_end), 1u);
    chain.first.set_responses({chain.requests.answer("back")});
    EXPECT_EQ(run(agent.prompt("again")).text(), "back");
    EXPECT_TRUE(is_legal_transcript(agent.state().messages));
}

TEST(FallbackAgent, D15_ContentThatWasShownStaysAndNoOtherModelIsAsked) {
    Chain chain;
    AssistantMessage broken = faux_assistant_message("half an answ", "error", "the line broke");
    ErrorInfo info;
    info.code = ErrorCode::disconnected;
    broken.error = SharedValue<ErrorInfo>(info);
    chain.first.set_responses({broken});
    Agent agent({.model = chain.model});
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_EQ(result.outcome, RunOutcome::failed);
    EXPECT_EQ(agent.state().messages.back().text(), "half an answ");
    EXPECT_EQ(chain.second.call_count(), 0u);
}

TEST(FallbackAgent, D7_AnAbortAtTheHopEndsTheRun) {
    Chain chain;
    chain.first.set_responses({down()});
    chain.second.set_responses({"never"});
    Agent agent({.model = chain.model});
    agent.subscribe([&agent](const AgentEvent& event) {
        if (event.get_if<NoticeEvent>()) agent.abort();
    });
    EXPECT_EQ(run(agent.prompt("hi")).outcome, RunOutcome::aborted);
    EXPECT_EQ(chain.second.call_count(), 0u);
    EXPECT_EQ(agent.state().messages.back().assistant()->stop_reason, "aborted");
}

/// Runs `end` while a callback of the run waits during a fallback, and returns the run's result.
RunResult end_mid_hop(std::unique_ptr<Agent>& agent, std::function<void()> end, AsyncEvent& reached,
                      bool& cancelled) {
    RunResult result;
    const auto parent = [&]() -> Task<void> {
        TaskScope scope(co_await this_executor);
        const auto prompting = [&]() -> Task<void> {
            std::exception_ptr failure;
            try {
                result = co_await agent->prompt("hi");
            } catch (...) {
                failure = std::current_exception();
            }
            cancelled = failure && is_cancellation(failure);
        };
        scope.spawn(prompting());
        co_await reached.wait();
        if (end) {
            end();
        } else {
            scope.cancel();
        }
        co_await scope.settle();
    };
    run(parent());
    return result;
}

struct MidHop {
    MidHop() {
        FallbackOptions options;
        options.on_failover = [this](const Failover&) -> Task<> {
            if (std::exchange(hopped, true)) co_return;
            reached.set();
            co_await clock->sleep_for(std::chrono::hours(1));
        };
        chain.emplace(std::move(options));
        chain->first.set_responses({down()});
        chain->second.set_responses({chain->requests.answer("later")});
        agent = std::make_unique<Agent>(AgentOptions{.model = chain->model});
    }
    std::shared_ptr<ManualClock> clock = std::make_shared<ManualClock>();
    AsyncEvent reached;
    std::optional<Chain> chain;
    std::unique_ptr<Agent> agent;
    bool hopped = false;
    bool cancelled = false;
};

TEST(FallbackAgent, D7_AnAbortInTheMiddleOfAHop) {
    MidHop hop;
    const RunResult result =
        end_mid_hop(hop.agent, [&] { hop.agent->abort(); }, hop.reached, hop.cancelled);
    EXPECT_EQ(result.outcome, RunOutcome::aborted);
    EXPECT_EQ(run(hop.agent->prompt("again")).text(), "later");
    EXPECT_TRUE(is_legal_transcript(hop.agent->state().messages));
}

TEST(FallbackAgent, D7_AnAgentDestroyedInTheMiddleOfAHop) {
    MidHop hop;
    const RunResult result =
        end_mid_hop(hop.agent, [&] { hop.agent.reset(); }, hop.reached, hop.cancelled);
    EXPECT_EQ(result.outcome, RunOutcome::aborted);
    EXPECT_EQ(hop.chain->second.call_count(), 0u);
}

TEST(FallbackAgent, D38_APromptCancelledInTheMiddleOfAHop) {
    MidHop hop;
    (void)end_mid_hop(hop.agent, {}, hop.reached, hop.cancelled);
    EXPECT_TRUE(hop.cancelled);
    EXPECT_EQ(run(hop.agent->prompt("again")).text(), "later");
    EXPECT_TRUE(is_legal_transcript(hop.agent->state().messages));
}

}  // namespace
}  // namespace cubepi
