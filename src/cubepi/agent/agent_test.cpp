#include <cubepi/agent/agent.hpp>

#include <utility>

#include <gtest/gtest.h>

#include <cubepi/core/run.hpp>
#include <cubepi/provider/faux.hpp>

namespace cubepi {
namespace {

struct EchoArgs {
    std::string value;
};

AgentTool echo_tool() {
    return tool<EchoArgs>("echo", "Says it again.",
                          [](EchoArgs args) { return "echo: " + args.value; });
}

std::vector<std::string> types_of(const std::vector<AgentEvent>& events) {
    std::vector<std::string> types;
    for (const AgentEvent& event : events) types.emplace_back(to_string(event.type()));
    return types;
}

TEST(Agent, AnswersAPromptWithEveryEvent) {
    FauxProvider faux;
    faux.set_responses({faux_assistant_message("hello")});
    Agent agent({.model = faux.model("m")});
    std::vector<AgentEvent> events;
    agent.subscribe([&](const AgentEvent& event) { events.push_back(event); });

    const RunResult result = run(agent.prompt("hi"));

    EXPECT_TRUE(result);
    EXPECT_EQ(result.text(), "hello");
    EXPECT_EQ(result.new_messages.size(), 2u);
    EXPECT_EQ(types_of(events).front(), "agent_start");
    EXPECT_EQ(types_of(events).back(), "agent_end");
    EXPECT_FALSE(agent.state().is_streaming);
}

TEST(Agent, AListenerReceivesTheTypesOfItsSubscription) {
    FauxProvider faux;
    faux.set_responses({faux_assistant_message("hello")});
    Agent agent({.model = faux.model("m")});
    std::vector<AgentEvent> all;
    std::vector<AgentEvent> some;
    std::vector<AgentEvent> awaited;
    const EventTypes types =
        EventTypes::all_but({AgentEventType::message_update, AgentEventType::message_end});
    agent.subscribe([&](const AgentEvent& event) -> Task<> {
        all.push_back(event);
        co_return;
    });
    agent.subscribe([&](const AgentEvent& event) { some.push_back(event); }, types);
    Subscription ended = agent.subscribe(
        [&](const AgentEvent& event) -> Task<> {
            awaited.push_back(event);
            co_return;
        },
        types);

    run(agent.prompt("hi"));

    std::vector<std::string> expected = types_of(all);
    std::erase(expected, "message_update");
    std::erase(expected, "message_end");
    EXPECT_LT(expected.size(), all.size());
    EXPECT_EQ(types_of(some), expected);
    EXPECT_EQ(types_of(awaited), expected);
    ended.cancel();
    faux.set_responses({faux_assistant_message("again")});
    run(agent.prompt("hi"));
    EXPECT_EQ(awaited.size(), expected.size());
}

TEST(Agent, ListenersReceiveUpdatesWhateverTheOrderOfTheirSubscriptions) {
    FauxProvider faux;
    faux.set_responses({faux_assistant_message("one"), faux_assistant_message("two")});
    Agent agent({.model = faux.model("m")});
    std::vector<AgentEvent> first;
    std::vector<AgentEvent> last;
    const EventTypes without_updates = EventTypes::all_but({AgentEventType::message_update});
    Subscription ended = agent.subscribe([&](const AgentEvent& event) { first.push_back(event); });
    agent.subscribe([](const AgentEvent&) {}, without_updates);
    agent.subscribe([&](const AgentEvent& event) { last.push_back(event); });
    agent.subscribe([](const AgentEvent&) {}, without_updates);

    run(agent.prompt("hi"));
    EXPECT_EQ(types_of(last), types_of(first));
    ended.cancel();
    last.clear();
    run(agent.prompt("hi"));

    EXPECT_EQ(types_of(last), types_of(first));
}

TEST(Agent, RunsToolsAndContinues) {
    FauxProvider faux;
    faux.set_responses({faux_assistant_message(faux_tool_call("echo", {{"value", "a"}}, "c1")),
                        faux_assistant_message("done")});
    Agent agent({.model = faux.model("m"), .tools = {echo_tool()}});

    const RunResult result = run(agent.prompt("hi"));

    EXPECT_EQ(result.text(), "done");
    ASSERT_EQ(result.new_messages.size(), 4u);
    EXPECT_EQ(result.new_messages[2].text(), "echo: a");
}

TEST(Agent, ReturnsItsEventsOnePulledAtATime) {
    FauxProvider faux;
    faux.set_responses({faux_assistant_message("hello")});
    Agent agent({.model = faux.model("m")});
    std::vector<AgentEvent> events;
    RunResult result;
    const auto pull = [&]() -> Task<void> {
        AgentRun pulled = agent.start("hi");
        while (std::optional<AgentEvent> event = co_await pulled.next()) events.push_back(*event);
        result = co_await pulled.result();
    };

    run(pull());

    EXPECT_EQ(types_of(events).back(), "agent_end");
    EXPECT_TRUE(result);
}

TEST(Agent, AnEmptyMessageIsRefusedAtOnceWhereverItIsGiven) {
    FauxProvider faux;
    faux.set_responses({"ok"});
    Agent agent({.model = faux.model()});
    EXPECT_THROW((void)agent.prompt(Message()), Error);
    EXPECT_THROW((void)agent.steer(Message()), Error);
    EXPECT_THROW((void)agent.follow_up(Message()), Error);
    EXPECT_THROW((void)agent.start(Message()), Error);
    EXPECT_TRUE(run(agent.prompt("hi")));
}

TEST(Agent, AHookThatReturnsAnEmptyMessageFailsOnlyItsRun) {
    FauxProvider faux;
    faux.set_responses({"ok", "again"});
    bool empty = true;
    auto more = [&](HookContext&) {
        MessageList messages;
        if (std::exchange(empty, false)) messages.push_back(Message());
        return messages;
    };
    Agent agent({.model = faux.model(), .on_run_end = more});
    EXPECT_EQ(run(agent.prompt("hi")).outcome, RunOutcome::failed);
    EXPECT_TRUE(run(agent.prompt("hi")));
}

TEST(Agent, ARunThatWasMovedFromSaysSo) {
    FauxProvider faux;
    faux.set_responses({"ok"});
    Agent agent({.model = faux.model()});
    AgentRun first = agent.start("hi");
    AgentRun second = std::move(first);
    // The moved-from object is the subject of this test. NOLINTBEGIN(bugprone-use-after-move)
    EXPECT_THROW(run(first.next()), Error);
    EXPECT_THROW(run(first.result()), Error);
    EXPECT_THROW(first.abort(), Error);
    // NOLINTEND(bugprone-use-after-move)
    EXPECT_TRUE(run(second.result()));
}

TEST(Agent, ARuntimeWithoutAPartIsRefused) {
    FauxProvider faux;
    AgentOptions options;
    options.model = faux.model();
    options.runtime = std::make_shared<const Runtime>(Runtime().with_ids(nullptr));
    EXPECT_THROW(Agent agent(std::move(options)), Error);
}

}  // namespace
}  // namespace cubepi
