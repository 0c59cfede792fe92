// An agent: its events, changes of its settings, and the threads that use it.

#include <cubepi/agent/agent_test_support.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>

#include <atomic>
#include <barrier>
#include <semaphore>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include <cubepi/agent/agent.hpp>
#include <cubepi/agent/run/event_hub.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/faux.hpp>

namespace cubepi {
namespace {

using namespace agent_test;

std::vector<std::string> types_of(const std::vector<AgentEvent>& events) {
    std::vector<std::string> types;
    for (const AgentEvent& event : events) types.emplace_back(to_string(event.type()));
    return types;
}

TEST(Agent, Prompt_IsAnsweredWithEveryEvent) {
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

TEST(Agent, Listener_ReceivesItsSubscribedTypes) {
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

TEST(Agent, Listeners_ReceiveUpdatesInAnySubscriptionOrder) {
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

TEST(Agent, ToolCalls_RunAndTheAgentContinues) {
    FauxProvider faux;
    faux.set_responses({faux_assistant_message(faux_tool_call("echo", {{"value", "a"}}, "c1")),
                        faux_assistant_message("done")});
    Agent agent({.model = faux.model("m"), .tools = {echo_tool()}});

    const RunResult result = run(agent.prompt("hi"));

    EXPECT_EQ(result.text(), "done");
    ASSERT_EQ(result.new_messages.size(), 4u);
    EXPECT_EQ(result.new_messages[2].text(), "echo: a");
}

TEST(Agent, Events_ArePulledOneAtATime) {
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

TEST(Agent, EmptyMessage_IsRefusedAtOnceEverywhere) {
    FauxProvider faux;
    faux.set_responses({"ok"});
    Agent agent({.model = faux.model()});
    EXPECT_THROW((void)agent.prompt(Message()), Error);
    EXPECT_THROW((void)agent.steer(Message()), Error);
    EXPECT_THROW((void)agent.follow_up(Message()), Error);
    EXPECT_THROW((void)agent.start(Message()), Error);
    EXPECT_TRUE(run(agent.prompt("hi")));
}

TEST(Agent, HookReturningEmptyMessage_FailsOnlyItsRun) {
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

TEST(Agent, MovedFromRun_ThrowsAnError) {
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

TEST(Agent, IncompleteRuntime_IsRefused) {
    FauxProvider faux;
    AgentOptions options;
    options.model = faux.model();
    options.runtime = std::make_shared<const Runtime>(Runtime().with_ids(nullptr));
    EXPECT_THROW(Agent agent(std::move(options)), Error);
}

// Changing the model and the other settings of an existing agent.

Model priced(std::string id) {
    Model model;
    model.id = std::move(id);
    ModelCost cost;
    cost.input = 1.0;
    cost.output = 1.0;
    cost.cache_read = 1.0;
    cost.cache_write = 1.0;
    model.cost = cost;
    return model;
}

std::vector<std::string> answered_by(const Agent& agent) {
    std::vector<std::string> models;
    for (const Message& message : agent.state().messages) {
        if (message.assistant()) models.push_back(message.assistant()->model_id.str());
    }
    return models;
}

TEST(State, SetModelBetweenRuns_ChangesProviderAndModel) {
    FauxProvider first;
    FauxProvider second;
    Requests to_first;
    Requests to_second;
    first.set_responses({to_first.answer("one")});
    second.set_responses({to_second.answer("two")});
    Agent agent({.model = first.model("a")});
    run(agent.prompt("hi"));
    agent.set_model(second.model("b"));
    EXPECT_EQ(agent.state().model->id, "b");
    run(agent.prompt("again"));
    EXPECT_EQ(to_first.seen.size(), 1U);
    ASSERT_EQ(to_second.seen.size(), 1U);
    EXPECT_EQ(to_second.seen[0].model.id, "b");
    EXPECT_EQ(to_second.seen[0].messages.size(), 3U) << "the history goes along";
    EXPECT_EQ(answered_by(agent), (std::vector<std::string>{"a", "b"}));
}

TEST(State, SetModelDuringRun_AppliesFromNextCall) {
    FauxProvider first;
    FauxProvider second;
    Requests to_second;
    first.set_responses({calling({echo_call("x")}), "not asked"});
    second.set_responses({to_second.answer("done")});
    Agent agent({.model = first.model("a"), .tools = {echo_tool()}});
    // In the middle of the first answer.
    agent.subscribe([&](const AgentEvent& event) {
        if (event.stream_event()) agent.set_model(second.model("b"));
    });
    EXPECT_TRUE(run(agent.prompt("hi")));
    EXPECT_EQ(first.call_count(), 1U);
    ASSERT_EQ(to_second.seen.size(), 1U);
    EXPECT_EQ(to_second.seen[0].model.id, "b");
    EXPECT_EQ(answered_by(agent), (std::vector<std::string>{"a", "b"}));
}

TEST(State, SetModelInHook_AppliesToItsCall) {
    FauxProvider first;
    FauxProvider second;
    first.set_responses({calling({echo_call("x")})});
    second.set_responses({"done"});
    Agent* self = nullptr;
    std::vector<std::string> asked;
    Agent agent(
        {.model = first.model("a"),
         .tools = {echo_tool()},
         .around_model_call = [&](ModelRequest request, ModelCallNext next) -> Task<MessageStream> {
             asked.push_back(request.model.id);
             self->set_model(second.model("b"));
             return next(std::move(request));
         }});
    self = &agent;
    EXPECT_TRUE(run(agent.prompt("hi")));
    EXPECT_EQ(asked, (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(answered_by(agent), (std::vector<std::string>{"a", "b"}));
}

TEST(State, ModelWithoutProvider_IsRefused) {
    FauxProvider faux;
    faux.set_responses({"ok"});
    Agent agent({.model = faux.model("a")});
    Model model;
    model.id = "orphan";
    try {
        agent.set_model(BoundModel(model));
        FAIL() << "accepted";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
        EXPECT_NE(std::string(error.what()).find("'orphan' has no provider"), std::string::npos);
    }
    EXPECT_EQ(agent.state().model->id, "a");
    EXPECT_TRUE(run(agent.prompt("hi")));
}

TEST(State, D24_ModelWithoutPrice_FailsASpendLimitClosed) {
    FauxProvider first;
    FauxProvider second;
    first.set_responses({calling({echo_call("x")})});
    second.set_responses({"not asked"});
    AgentLimits limits;
    limits.max_spend = 1000.0;
    Agent agent({.model = first.model(priced("a")), .tools = {echo_tool()}, .limits = limits});
    agent.subscribe([&](const AgentEvent& event) {
        if (event.type() == AgentEventType::tool_execution_end) agent.set_model(second.model("b"));
    });
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_EQ(result.outcome, RunOutcome::limited);
    EXPECT_NE(std::string(result.error().what()).find("'b'"), std::string::npos);
    EXPECT_EQ(second.call_count(), 0U);
    EXPECT_TRUE(is_legal_transcript(agent.state().messages));
}

TEST(State, D56_ChangedModel_IsNotAPrefixBreak) {
    FauxProvider first;
    FauxProvider second;
    first.set_responses({"one"});
    second.set_responses({"two"});
    Agent agent({.model = first.model("a"), .system_prompt = "Be brief."});
    Recorder recorder(agent);
    run(agent.prompt("hi"));
    agent.set_model(second.model("b"));
    run(agent.prompt("again"));
    EXPECT_TRUE(recorder.notices().empty());
}

TEST(State, OtherSetters_ApplyToTheNextRun) {
    FauxProvider faux;
    Requests requests;
    faux.set_responses({requests.answer("ok")});
    Agent agent({.model = faux.model()});
    agent.set_system_prompt("Rhyme.");
    agent.set_tools({echo_tool()});
    agent.set_reasoning(ReasoningControl{.mode = ReasoningMode::on});
    agent.set_extra("customer", 4711);
    MessageList history;
    history.push_back(user_message("earlier"));
    agent.set_messages(std::move(history));
    run(agent.prompt("hi"));
    ASSERT_EQ(requests.seen.size(), 1U);
    const ModelRequest& request = requests.seen[0];
    EXPECT_EQ(request.system_prompt, "Rhyme.");
    ASSERT_NE(request.tools, nullptr);
    EXPECT_EQ(request.tools->size(), 1U);
    ASSERT_TRUE(request.options.reasoning());
    EXPECT_EQ(request.options.reasoning()->mode, ReasoningMode::on);
    EXPECT_EQ(texts(request.messages), (std::vector<std::string>{"earlier", "hi"}));
    EXPECT_EQ(agent.state().extra.at("customer"), Json(4711));
}

TEST(State, HistoryDuringRunOrUnderStore_IsRetained) {
    FauxProvider faux;
    faux.set_responses({"ok"});
    Agent agent({.model = faux.model()});
    ErrorCode code = ErrorCode::unknown;
    agent.subscribe([&](const AgentEvent& event) {
        if (event.type() != AgentEventType::turn_start) return;
        try {
            agent.set_messages({});
        } catch (const Error& error) {
            code = error.code();
        }
    });
    EXPECT_TRUE(run(agent.prompt("hi")));
    EXPECT_EQ(code, ErrorCode::busy);

    Agent stored({.model = faux.model(),
                  .checkpointer = std::make_shared<MemoryCheckpointer>(),
                  .thread_id = "t"});
    EXPECT_THROW(stored.set_messages({}), Error);
}

// An agent on an executor that two threads run.

/// Runs an agent on `executor`, which two threads run; both are in one of its tools at the same time.
void run_agent_on(boost::asio::io_context& context, const Executor& executor, std::size_t tools) {
    std::barrier in_tools(static_cast<std::ptrdiff_t>(tools));
    std::counting_semaphore<> passed(0);
    std::atomic<bool> called = false;
    auto meeting = tool<EchoArgs>("echo", "Meets.", [&in_tools](EchoArgs) -> Task<std::string> {
        co_await yield_now();
        in_tools.arrive_and_wait();
        co_return std::string("met");
    });
    std::vector<ToolCall> calls;
    for (std::size_t i = 0; i < tools; ++i)
        calls.push_back(echo_call("a", "c" + std::to_string(i)));
    FauxProvider faux;
    faux.set_responses({calling(std::move(calls)), "done"});
    Agent agent({.model = faux.model(), .tools = {meeting}});
    agent.subscribe([&](const AgentEvent& event) {
        if (event.type() != AgentEventType::tool_execution_end || called.exchange(true)) return;
        if (tools == 1) return;
        // Keeps this thread inside the agent until the other one, whose handler is already running, has finished with
        // it.
        boost::asio::post(context, [&passed] { passed.release(); });
        passed.acquire();
    });
    std::optional<RunResult> result;
    const auto prompt = [&]() -> Task<void> { result = co_await agent.prompt("hi"); };
    BackgroundScope scope(executor);
    boost::asio::post(executor, [&] { scope.spawn(prompt()); });
    {
        const std::jthread other([&context] { context.run(); });
        context.run();
    }
    ASSERT_TRUE(result);
    EXPECT_TRUE(*result);
}

TEST(Threads, StrandOfTwoThreads_IsSerial) {
    boost::asio::io_context context;
    const Executor strand = boost::asio::make_strand(context);
    run_agent_on(context, strand, 1);
}

#ifndef NDEBUG
TEST(ThreadsDeathTest, DebugBuild_DetectsTwoThreadsInsideAnAgent) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto without_strand = [] {
        boost::asio::io_context context;
        run_agent_on(context, context.get_executor(), 2);
    };
    EXPECT_DEATH(without_strand(), "an agent is used by two threads at once.*strand");
}
#endif

TEST(Threads, SerialCheck_HasSameLayoutInEveryBuild) {
    // An atomic number with and without NDEBUG: see serial_check.hpp.
    static_assert(sizeof(detail::SerialCheck) == sizeof(std::atomic<std::uint32_t>));
    detail::SerialCheck check;
    const detail::SerialSection outer(check);
    const detail::SerialSection nested(check);
    SUCCEED();
}

}  // namespace
}  // namespace cubepi
