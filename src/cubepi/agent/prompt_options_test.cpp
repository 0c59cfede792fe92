#include <cubepi/agent/prompt_options.hpp>

#include <chrono>
#include <stop_token>

#include <gtest/gtest.h>

#include <cubepi/agent/agent_test_support.hpp>

namespace cubepi {
namespace {

using namespace agent_test;
using namespace std::chrono_literals;

TEST(PromptOptionsOfARun, ReplaceTheSettingsOfTheAgent) {
    Requests requests;
    FauxProvider faux;
    FauxProvider other;
    other.set_responses({requests.answer("one")});
    faux.set_responses({requests.answer("two")});
    Agent agent({.model = faux.model("own"),
                 .system_prompt = "Own.",
                 .tools = {echo_tool()},
                 .reasoning = ReasoningControl{.mode = ReasoningMode::on}});
    std::string during;
    agent.subscribe([&](const AgentEvent&) { during = agent.state().model->id; });
    PromptOptions options = PromptOptions()
                                .model(other.model("other"))
                                .temperature(0.25)
                                .system_prompt("Other.")
                                .tools(ToolList())
                                .reasoning(ReasoningControl());
    EXPECT_EQ(run(agent.prompt("Hi", std::move(options))).text(), "one");
    EXPECT_EQ(during, "other");
    EXPECT_EQ(agent.state().model->id, "own");
    EXPECT_EQ(run(agent.prompt("Hi")).text(), "two");
    const ModelRequest& first = requests.seen.at(0);
    EXPECT_EQ(first.model.id, "other");
    EXPECT_EQ(first.model.temperature, 0.25);
    EXPECT_EQ(first.system_prompt, "Other.");
    EXPECT_FALSE(first.tools);
    EXPECT_EQ(first.options.reasoning()->mode, ReasoningMode::off);
    const ModelRequest& second = requests.seen.at(1);
    EXPECT_EQ(second.model.id, "own");
    EXPECT_FALSE(second.model.temperature);
    EXPECT_EQ(second.system_prompt, "Own.");
    EXPECT_EQ(second.tools->size(), 1u);
    EXPECT_EQ(second.options.reasoning()->mode, ReasoningMode::on);
    EXPECT_EQ(second.messages.size(), 3u);
}

TEST(PromptOptionsOfARun, AnotherModelThatIsSetDuringTheRunStays) {
    FauxProvider faux;
    faux.set_responses({calling({echo_call("x")}), "done"});
    Agent agent({.model = faux.model("own"), .tools = {echo_tool()}});
    agent.subscribe([&](const AgentEvent& event) {
        if (event.type() == AgentEventType::tool_execution_end) agent.set_model(faux.model("new"));
    });
    EXPECT_TRUE(run(agent.prompt("Hi", PromptOptions().model(faux.model("other")))));
    EXPECT_EQ(agent.state().model->id, "new");
}

TEST(PromptOptionsOfARun, AChoiceThatForcesACallAppliesOnce) {
    Requests requests;
    FauxProvider faux;
    faux.set_responses({requests.answer(calling({echo_call("x")})), requests.answer("done")});
    Agent agent({.model = faux.model(), .tools = {echo_tool()}});
    ToolChoice choice;
    choice.mode = ToolChoice::Mode::named;
    choice.name = "echo";
    EXPECT_TRUE(run(agent.prompt("Hi", PromptOptions().tool_choice(choice))));
    EXPECT_EQ(requests.seen.at(0).options.tool_choice()->name, "echo");
    EXPECT_FALSE(requests.seen.at(1).options.tool_choice());
}

TEST(PromptOptionsOfARun, AStopTokenAborts) {
    FauxProvider faux;
    faux.set_responses({"never", calling({echo_call("x")}), "fine"});
    Agent agent({.model = faux.model(), .tools = {echo_tool()}});
    std::stop_source stopped;
    stopped.request_stop();
    EXPECT_EQ(run(agent.prompt("Hi", PromptOptions().stop_token(stopped.get_token()))).outcome,
              RunOutcome::aborted);
    std::stop_source stop;
    agent.subscribe([&](const AgentEvent& event) {
        if (event.type() == AgentEventType::tool_execution_end) stop.request_stop();
    });
    faux.set_responses({calling({echo_call("x")}), "fine"});
    EXPECT_EQ(run(agent.prompt("Hi", PromptOptions().stop_token(stop.get_token()))).outcome,
              RunOutcome::aborted);
    // The token belongs to its run.
    EXPECT_EQ(run(agent.prompt("Hi")).text(), "fine");
}

AgentTool slow_tool() {
    return tool<EchoArgs>("echo", "", [](EchoArgs, ToolContext& context) -> Task<std::string> {
        co_await context.runtime().clock->sleep_for(std::chrono::hours(1));
        co_return std::string("late");
    });
}

TEST(PromptOptionsOfARun, LimitsOfTime) {
    for (const bool by_deadline : {false, true}) {
        auto clock = std::make_shared<testing::ManualClock>();
        FauxProvider faux;
        faux.set_responses({calling({echo_call("x")}), "fine"});
        Agent agent({.model = faux.model(),
                     .tools = {slow_tool()},
                     .limits = {.tool_timeout = 2h},
                     .runtime = std::make_shared<const Runtime>(Runtime().with_clock(clock))});
        PromptOptions options = by_deadline ? PromptOptions().deadline(clock->now() + 1min)
                                            : PromptOptions().max_duration(1min);
        const RunResult result =
            testing::run_advancing(*clock, agent.prompt("Hi", std::move(options)));
        EXPECT_EQ(result.outcome, RunOutcome::limited);
        EXPECT_EQ(testing::run_advancing(*clock, agent.prompt("Hi")).text(), "fine");
    }
}

TEST(PromptOptionsOfARun, ADeadlineThatHasPassed) {
    auto clock = std::make_shared<testing::ManualClock>();
    FauxProvider faux;
    faux.set_responses({calling({echo_call("x")}), "fine"});
    Agent agent({.model = faux.model(),
                 .tools = {slow_tool()},
                 .runtime = std::make_shared<const Runtime>(Runtime().with_clock(clock))});
    PromptOptions options = PromptOptions().deadline(clock->now() - 1min);
    const RunResult result = testing::run_advancing(*clock, agent.prompt("Hi", std::move(options)));
    EXPECT_EQ(result.outcome, RunOutcome::limited);
}

TEST(PromptOptionsOfARun, CopiesAreIndependent) {
    FauxProvider faux;
    const PromptOptions first = PromptOptions().temperature(0.1);
    const PromptOptions second = PromptOptions(first).temperature(0.9);
    Requests requests;
    faux.set_responses({requests.answer("a"), requests.answer("b")});
    Agent agent({.model = faux.model()});
    EXPECT_TRUE(run(agent.prompt("Hi", first)));
    EXPECT_TRUE(run(agent.prompt("Hi", second)));
    EXPECT_EQ(requests.seen.at(0).model.temperature, 0.1);
    EXPECT_EQ(requests.seen.at(1).model.temperature, 0.9);
}

TEST(PromptOptionsOfARun, AModelWithoutAProviderIsRefused) {
    EXPECT_THROW((void)PromptOptions().model(BoundModel(Model{.id = "m"})), Error);
}

}  // namespace
}  // namespace cubepi
