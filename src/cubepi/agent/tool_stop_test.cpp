// The end of a running tool after an abort or at its time limit: D7, D24.

#include <cubepi/agent/agent_test_support.hpp>

#include <chrono>
#include <map>

namespace cubepi {
namespace {

using namespace agent_test;
using namespace std::chrono_literals;

/// Runs one prompt whose first answer calls `tools`, and measures how long their calls took on a manual clock.
class Stop {
public:
    explicit Stop(std::vector<ToolCall> calls) {
        faux.set_responses({calling(std::move(calls)), "done"});
    }

    RunResult prompt(std::vector<AgentTool> tools) {
        auto runtime = std::make_shared<const Runtime>(Runtime().with_clock(clock));
        agent = std::make_unique<Agent>(AgentOptions{
            .model = faux.model(), .tools = std::move(tools), .runtime = std::move(runtime)});
        const auto begin = clock->now();
        agent->subscribe([this, begin](const AgentEvent& event) {
            const auto* end = event.get_if<ToolExecutionEndEvent>();
            if (!end) return;
            took[end->tool_call_id.str()] = clock->now() - begin;
            side_effects_over = side_effects_over && !in_tool;
        });
        const RunResult result = testing::run_advancing(*clock, agent->prompt("hi"));
        EXPECT_TRUE(is_legal_transcript(agent->state().messages));
        return result;
    }
    /// Sleeps for a day; the run is aborted meanwhile.
    Task<std::string> hang() {
        agent->abort();
        co_await clock->sleep_for(24h);
        co_return std::string("late");
    }

    std::shared_ptr<testing::ManualClock> clock = std::make_shared<testing::ManualClock>();
    FauxProvider faux;
    std::unique_ptr<Agent> agent;
    std::map<std::string, std::chrono::nanoseconds> took;
    bool in_tool = false;
    bool side_effects_over = true;
};

TEST(ToolStop, D7_ToolWithoutContext_IsCancelledAtOnce) {
    Stop stop({echo_call("a")});
    auto hanging = tool<EchoArgs>("echo", "Hangs.", [&](EchoArgs) { return stop.hang(); });
    const RunResult result = stop.prompt({hanging});
    EXPECT_EQ(result.outcome, RunOutcome::aborted);
    EXPECT_EQ(stop.took.at("c1"), 0s);
    EXPECT_EQ(result.new_messages[2].text(),
              "The call was interrupted by an abort; whether it took effect is unknown.");
}

TEST(ToolStop, D7_ToolWithUnusedToken_IsCancelledAtOnce) {
    Stop stop({echo_call("a")});
    auto hanging = tool<EchoArgs>("echo", "Hangs.", [&](EchoArgs, ToolContext& context) {
        EXPECT_EQ(context.tool_call_id(), "c1");
        return stop.hang();
    });
    EXPECT_EQ(stop.prompt({hanging}).outcome, RunOutcome::aborted);
    EXPECT_EQ(stop.took.at("c1"), 0s);
}

TEST(ToolStop, D7_ToolThatIgnoresToken_IsCancelledAfterGrace) {
    Stop stop({echo_call("a")});
    auto ignoring = tool<EchoArgs>("echo", "Hangs.", [&](EchoArgs, ToolContext& context) {
        EXPECT_FALSE(context.stop_token().stop_requested());
        return stop.hang();
    });
    EXPECT_EQ(stop.prompt({ignoring}).outcome, RunOutcome::aborted);
    EXPECT_EQ(stop.took.at("c1"), 2s);
}

TEST(ToolStop, D7_CopyOfContext_CountsAsTheToken) {
    Stop stop({echo_call("a")});
    std::shared_ptr<ToolContext> copy;
    auto ignoring = tool<EchoArgs>("echo", "Hangs.", [&](EchoArgs, ToolContext& context) {
        copy = std::make_shared<ToolContext>(context);
        return stop.hang();
    });
    EXPECT_EQ(stop.prompt({ignoring}).outcome, RunOutcome::aborted);
    EXPECT_EQ(stop.took.at("c1"), 2s);
    EXPECT_TRUE(copy->stop_token().stop_requested());
}

Task<std::string> clean_up(Stop& stop, std::stop_token token) {
    stop.in_tool = true;
    stop.agent->abort();
    while (!token.stop_requested()) co_await yield_now();
    co_await stop.clock->sleep_for(1s);
    stop.in_tool = false;
    co_return std::string("cleaned up");
}

TEST(ToolStop, D7_ToolThatHandlesToken_EndsByItself) {
    Stop stop({echo_call("a")});
    auto handling = tool<EchoArgs>("echo", "Stops.", [&](EchoArgs, ToolContext& context) {
        return clean_up(stop, context.stop_token());
    });
    const RunResult result = stop.prompt({handling});
    EXPECT_EQ(result.new_messages[2].text(), "cleaned up");
    EXPECT_EQ(stop.took.at("c1"), 1s);
    EXPECT_TRUE(stop.side_effects_over);
}

Task<std::string> clean_up_when_cancelled(Stop& stop) {
    stop.in_tool = true;
    std::exception_ptr failure;
    try {
        co_await stop.hang();
    } catch (...) {
        failure = std::current_exception();
    }
    co_await shield();
    co_await stop.clock->sleep_for(1s);
    stop.in_tool = false;
    if (failure) std::rethrow_exception(failure);
    co_return std::string();
}

TEST(ToolStop, D7_SideEffectsOfCancelledTool_PrecedeItsResult) {
    Stop stop({echo_call("a")});
    auto hanging =
        tool<EchoArgs>("echo", "Hangs.", [&](EchoArgs) { return clean_up_when_cancelled(stop); });
    EXPECT_EQ(stop.prompt({hanging}).outcome, RunOutcome::aborted);
    EXPECT_EQ(stop.took.at("c1"), 1s);
    EXPECT_TRUE(stop.side_effects_over);
}

TEST(ToolStop, D7_ToolsOfBatch_EndByTheirOwnRules) {
    Stop stop({faux_tool_call("ignoring", {{"value", "a"}}, "slow"),
               faux_tool_call("hanging", {{"value", "b"}}, "quick")});
    auto ignoring = tool<EchoArgs>("ignoring", "Hangs.",
                                   [&](EchoArgs, ToolContext& context) -> Task<std::string> {
                                       EXPECT_FALSE(context.stop_token().stop_requested());
                                       co_await stop.clock->sleep_for(24h);
                                       co_return std::string("late");
                                   });
    auto hanging = tool<EchoArgs>("hanging", "Hangs.", [&](EchoArgs) { return stop.hang(); });
    EXPECT_EQ(stop.prompt({ignoring, hanging}).outcome, RunOutcome::aborted);
    EXPECT_EQ(stop.took.at("quick"), 0s);
    EXPECT_EQ(stop.took.at("slow"), 2s);
}

TEST(ToolStop, D7_SubAgent_IsAbortedAtOnceAndCloses) {
    Stop stop({echo_call("a")});
    FauxOptions slow;
    slow.tokens_per_second = 1.0;
    FauxProvider child_model(slow);
    child_model.set_responses({faux_assistant_message(std::string(4000, 'x'))});
    auto runtime = std::make_shared<const Runtime>(Runtime().with_clock(stop.clock));
    Agent child({.model = child_model.model(), .runtime = runtime});
    Recorder recorder(child);
    child.subscribe([&](const AgentEvent& event) {
        if (event.type() == AgentEventType::message_start) stop.agent->abort();
    });
    auto ask_child = tool<EchoArgs>("echo", "Asks.", [&](EchoArgs) -> Task<std::string> {
        const RunResult answer = co_await child.prompt("hi");
        co_return answer.text();
    });
    EXPECT_EQ(stop.prompt({ask_child}).outcome, RunOutcome::aborted);
    EXPECT_EQ(stop.took.at("c1"), 0s);
    EXPECT_EQ(recorder.words().back(), "agent_end");
    EXPECT_FALSE(child.state().is_streaming);
}

TEST(ToolStop, D24_ToolWithoutContext_IsCancelledAtTimeLimit) {
    Stop stop({echo_call("a")});
    auto sleeping = tool<EchoArgs>("echo", "Sleeps.", [&](EchoArgs) -> Task<std::string> {
                        co_await stop.clock->sleep_for(24h);
                        co_return std::string("late");
                    }).timeout(3s);
    const RunResult result = stop.prompt({sleeping});
    EXPECT_TRUE(result);
    EXPECT_EQ(stop.took.at("c1"), 3s);
}

}  // namespace
}  // namespace cubepi
