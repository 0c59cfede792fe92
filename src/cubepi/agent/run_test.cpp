// Runs as seen by callers: events, listeners, outcomes, aborts. D6, D8, D9, D10, D24, D30, D31, D38, D39, D40, D45,
// D51.

#include <cubepi/agent/agent_test_support.hpp>

#include <thread>

#include <cubepi/agent/loop.hpp>
#include <cubepi/agent/run_account.hpp>
#include <cubepi/provider/observers.hpp>

namespace cubepi {
namespace {

using namespace agent_test;

TEST(Run, SimultaneousEvents_ShareOneTimestamp) {
    auto clock = std::make_shared<testing::ManualClock>();
    auto runtime = std::make_shared<const Runtime>(Runtime().with_clock(clock));
    FauxProvider faux;
    faux.set_responses({calling({echo_call("a")}), "done"});
    const AgentTool slow = tool<EchoArgs>("echo", "Takes its time.", [&](EchoArgs args) {
        clock->advance(std::chrono::seconds(3));
        return args.value;
    });
    Agent agent({.model = faux.model(), .tools = {slow}, .runtime = runtime});
    Recorder recorder(agent);
    run(agent.prompt("hi"));
    const auto began = recorder.events.front().timestamp;
    bool ended = false;
    for (const AgentEvent& event : recorder.events) {
        ended = ended || event.type() == AgentEventType::tool_execution_end;
        EXPECT_EQ(event.timestamp - began, std::chrono::seconds(ended ? 3 : 0)) << event.seq;
    }
    EXPECT_TRUE(ended);
}

TEST(Run, AwaitedListener_DelaysLaterEvents) {
    auto clock = std::make_shared<testing::ManualClock>();
    auto runtime = std::make_shared<const Runtime>(Runtime().with_clock(clock));
    FauxProvider faux;
    faux.set_responses({"done"});
    Agent agent({.model = faux.model(), .runtime = runtime});
    Recorder recorder(agent);
    agent.subscribe([&](const AgentEvent&) -> Task<void> {
        clock->advance(std::chrono::seconds(1));
        co_return;
    });
    run(agent.prompt("hi"));
    for (std::size_t i = 1; i < recorder.events.size(); ++i) {
        EXPECT_EQ(recorder.events[i].timestamp - recorder.events[i - 1].timestamp,
                  std::chrono::seconds(1))
            << i;
    }
}

TEST(Run, D6_ThrowingListener_ClosesRunAndOthersGetEvents) {
    // At each event of a tool turn.
    for (int at = 1;; ++at) {
        FauxProvider faux;
        faux.set_responses({calling({echo_call("a")}), "done", "after"});
        Agent agent({.model = faux.model(), .tools = {echo_tool()}});
        int seen = 0;
        bool threw = false;
        agent.subscribe([&](const AgentEvent&) {
            if (++seen == at) {
                threw = true;
                throw std::runtime_error("boom");
            }
        });
        Recorder recorder(agent);
        if (at > 100) FAIL() << "a run has no end of events";
        try {
            run(agent.prompt("hi"));
            EXPECT_FALSE(threw) << at;
        } catch (const std::runtime_error& error) {
            EXPECT_STREQ(error.what(), "boom");
            // A run whose end was announced has an outcome.
            const bool at_end = recorder.events.back().type() == AgentEventType::agent_end &&
                                static_cast<int>(recorder.events.size()) == at;
            const LastOutcome outcome = at_end ? LastOutcome::complete : LastOutcome::abandoned;
            EXPECT_EQ(agent.state().last_outcome, outcome) << at;
        }
        EXPECT_EQ(recorder.count(AgentEventType::agent_end), 1u) << at;
        EXPECT_EQ(static_cast<int>(recorder.events.size()), seen) << at;
        EXPECT_EQ(recorder.count(AgentEventType::turn_start),
                  recorder.count(AgentEventType::turn_end))
            << at;
        EXPECT_TRUE(is_legal_transcript(agent.state().messages)) << at;
        if (!threw) break;
        faux.set_responses({"fine"});
        EXPECT_TRUE(run(agent.prompt("again"))) << at;
    }
}

TEST(Run, D8_Events_CarryRunThreadTurnAndGaplessSeq) {
    auto store = std::make_shared<MemoryCheckpointer>();
    FauxProvider faux;
    faux.set_responses({calling({echo_call("a")}), "done"});
    Agent agent(
        {.model = faux.model(), .tools = {echo_tool()}, .checkpointer = store, .thread_id = "t"});
    Recorder recorder(agent);
    const RunResult result = run(agent.prompt("hi"));
    std::uint64_t seq = 0;
    auto time = recorder.events.front().timestamp;
    for (const AgentEvent& event : recorder.events) {
        EXPECT_EQ(event.seq, ++seq);
        EXPECT_EQ(event.run_id(), result.run_id);
        EXPECT_EQ(event.thread_id(), "t");
        EXPECT_GE(event.timestamp, time);
        time = event.timestamp;
    }
    EXPECT_EQ(recorder.events.back().turn, 2u);
}

TEST(Run, D9_FailedAnswer_KeepsStreamedContentAndTypedError) {
    FauxProvider faux;
    AssistantMessage failed =
        faux_assistant_message("half an ans", stop_reason::error, "slow down");
    ErrorInfo info;
    info.code = ErrorCode::rate_limited;
    info.type = "RateLimited";
    info.status_code = 429;
    info.retry_after = 2.5;
    failed.error = SharedValue<ErrorInfo>(info);
    faux.set_responses({failed});
    Agent agent({.model = faux.model()});
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_EQ(result.outcome, RunOutcome::failed);
    EXPECT_EQ(result.text(), "half an ans");
    EXPECT_EQ(result.error().code(), ErrorCode::rate_limited);
    const auto* typed = dynamic_cast<const RateLimited*>(&result.error());
    ASSERT_TRUE(typed);
    EXPECT_EQ(typed->info().retry_after, 2.5);
    EXPECT_EQ(agent.state().error_message, "slow down");
}

TEST(Run, D10_Partial_NeverChangesAfterItsEvent) {
    FauxOptions small;
    small.token_size_min = small.token_size_max = 1;
    FauxProvider faux(small);
    faux.set_responses({faux_assistant_message("one two three four five six")});
    Agent agent({.model = faux.model()});
    std::vector<PartialMessage> retained;
    std::vector<std::string> as_seen;
    agent.subscribe([&](const AgentEvent& event) {
        if (const StreamEvent* stream = event.stream_event()) {
            retained.push_back(stream->partial);
            as_seen.push_back(stream->partial.text());
        }
    });
    run(agent.prompt("hi"));
    ASSERT_GT(retained.size(), 4u);
    for (std::size_t i = 0; i < retained.size(); ++i) {
        EXPECT_EQ(retained[i].text(), as_seen[i]);
    }
    EXPECT_EQ(as_seen.back(), "one two three four five six");
}

TEST(Run, D45_Updates_WrapBlockEventsUntilFinalMessage) {
    FauxProvider faux;
    faux.set_responses({faux_assistant_message("hello")});
    Agent agent({.model = faux.model()});
    Recorder recorder(agent);
    run(agent.prompt("hi"));
    EXPECT_EQ(
        recorder.words(),
        (std::vector<std::string>{
            "agent_start", "turn_start", "message_start:user", "message_end:user",
            "message_start:assistant", "message_update:text_start", "message_update:text_delta",
            "message_update:text_end", "message_end:assistant", "turn_end", "agent_end"}));
}

TEST(Run, D30_AgentEnd_ListsNewMessagesOfFailedRuns) {
    FauxProvider faux;
    faux.set_responses({calling({echo_call("a")})});
    Agent agent({.model = faux.model(), .tools = {echo_tool()}});
    Recorder recorder(agent);
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_FALSE(result);
    const auto* end = recorder.events.back().get_if<AgentEndEvent>();
    ASSERT_TRUE(end);
    EXPECT_EQ(end->messages.size(), 4u);
    EXPECT_TRUE(end->messages == result.new_messages);
}

TEST(Run, D31_FailureBetweenTurns_IsAnnouncedWithoutATurn) {
    FauxProvider faux;
    faux.set_responses({"ok"});
    Agent agent({.model = faux.model(), .on_run_end = [](HookContext&) -> MessageList {
                     throw std::runtime_error("boom");
                 }});
    Recorder recorder(agent);
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_EQ(result.outcome, RunOutcome::failed);
    EXPECT_EQ(recorder.count(AgentEventType::turn_start), 1u);
    EXPECT_EQ(recorder.count(AgentEventType::turn_end), 1u);
    EXPECT_EQ(recorder.words().back(), "agent_end");
    EXPECT_STREQ(result.error().what(), "hook on_run_end failed: boom");
}

TEST(Run, D38_CancellingTheAwaitingCoroutine_ClosesTheRun) {
    auto clock = std::make_shared<testing::ManualClock>();
    FauxOptions slow;
    slow.tokens_per_second = 1.0;
    FauxProvider faux(slow);
    faux.set_responses({faux_assistant_message("a long answer that takes its time to come")});
    auto runtime = std::make_shared<const Runtime>(Runtime().with_clock(clock));
    Agent agent({.model = faux.model(), .runtime = runtime});
    Recorder recorder(agent);
    bool cancelled = false;
    const auto parent = [&]() -> Task<void> {
        TaskScope scope(co_await this_executor, ScopePolicy::collect);
        agent.subscribe([&](const AgentEvent& event) {
            if (event.text_delta()) scope.cancel();
        });
        const auto prompting = [&]() -> Task<void> {
            try {
                co_await agent.prompt("hi");
            } catch (...) {
                cancelled = is_cancellation(std::current_exception());
                throw;
            }
        };
        scope.spawn(prompting());
        co_await scope.join();
    };
    testing::run_advancing(*clock, parent());
    EXPECT_TRUE(cancelled);
    EXPECT_EQ(recorder.words().back(), "agent_end");
    EXPECT_EQ(agent.state().messages.back().assistant()->stop_reason, "aborted");
    EXPECT_FALSE(agent.state().is_streaming);
}

TEST(Run, D40_Result_TellsHowTheRunEnded) {
    FauxProvider faux;
    faux.set_responses({"ok", faux_failure("down")});
    Agent agent({.model = faux.model()});
    const RunResult good = run(agent.prompt("hi", PromptOptions().run_id("mine")));
    EXPECT_TRUE(good);
    EXPECT_EQ(good.run_id, "mine");
    EXPECT_FALSE(good.attempt_id.empty());
    EXPECT_THROW(good.error(), Error);
    EXPECT_TRUE(good.usage.output_tokens.has_value());
    const RunResult bad = run(agent.prompt("again"));
    EXPECT_FALSE(bad);
    EXPECT_EQ(bad.outcome, RunOutcome::failed);
    EXPECT_NE(bad.run_id, good.run_id);
    EXPECT_EQ(agent.state().last_outcome, LastOutcome::abandoned);
}

TEST(Run, D24_TurnLimitReached_IsANamedOutcome) {
    FauxProvider faux;
    std::vector<FauxStep> steps;
    for (int i = 0; i < 5; ++i)
        steps.emplace_back(calling({echo_call("a", "c" + std::to_string(i))}));
    faux.set_responses(std::move(steps));
    AgentLimits limits;
    limits.max_turns = 3;
    Agent agent({.model = faux.model(), .tools = {echo_tool()}, .limits = limits});
    Recorder recorder(agent);
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_EQ(result.outcome, RunOutcome::limited);
    const auto* reached = dynamic_cast<const LimitReachedError*>(&result.error());
    ASSERT_TRUE(reached);
    EXPECT_EQ(reached->limit(), "max_turns");
    EXPECT_NE(std::string(reached->what()).find("max_turns (3)"), std::string::npos);
    EXPECT_EQ(faux.call_count(), 3u);
    EXPECT_TRUE(is_legal_transcript(agent.state().messages));
    EXPECT_EQ(agent.state().last_outcome, LastOutcome::complete);
    EXPECT_EQ(recorder.count(AgentEventType::turn_end), 3u);
}

TEST(Run, D87_PausedAnswer_IsContinuedWithinTheLimits) {
    FauxProvider faux;
    std::vector<FauxStep> steps;
    steps.emplace_back(faux_assistant_message("I search.", "pause_turn"));
    steps.emplace_back([](const ModelRequest& request) {
        EXPECT_EQ(request.messages.back().text(), "I search.");
        return faux_assistant_message("It rains.");
    });
    steps.emplace_back(faux_assistant_message("I search.", "pause_turn"));
    steps.emplace_back(faux_assistant_message("I search.", "pause_turn"));
    faux.set_responses(std::move(steps));
    AgentLimits limits;
    limits.max_turns = 2;
    Agent agent({.model = faux.model(), .limits = limits});
    const RunResult first = run(agent.prompt("hi"));
    EXPECT_EQ(first.outcome, RunOutcome::completed);
    EXPECT_EQ(first.text(), "It rains.");
    EXPECT_EQ(run(agent.prompt("again")).outcome, RunOutcome::limited);
    EXPECT_EQ(faux.call_count(), 4u);
    faux.append_responses({"It snows."});
    EXPECT_EQ(run(agent.resume()).text(), "It snows.");
    EXPECT_TRUE(is_legal_transcript(agent.state().messages));
}

TEST(Run, D24_MaxDurationReached_IsANamedOutcome) {
    auto clock = std::make_shared<testing::ManualClock>();
    FauxOptions slow;
    slow.tokens_per_second = 1.0;
    FauxProvider faux(slow);
    faux.set_responses({faux_assistant_message(std::string(4000, 'x'))});
    AgentLimits limits;
    limits.max_duration = std::chrono::seconds(30);
    auto runtime = std::make_shared<const Runtime>(Runtime().with_clock(clock));
    Agent agent({.model = faux.model(), .limits = limits, .runtime = runtime});
    const RunResult result = testing::run_advancing(*clock, agent.prompt("hi"));
    EXPECT_EQ(result.outcome, RunOutcome::limited);
    EXPECT_NE(std::string(result.error().what()).find("max_duration"), std::string::npos);
    const auto* reached = dynamic_cast<const LimitReachedError*>(&result.error());
    ASSERT_TRUE(reached);
    EXPECT_EQ(reached->limit(), "max_duration");
    EXPECT_FALSE(result.text().empty());
}

TEST(Run, D51_AbortAfterEnd_HasNoEffect) {
    FauxProvider faux;
    faux.set_responses({"ok", "next"});
    Agent agent({.model = faux.model()});
    agent.subscribe([&](const AgentEvent& event) {
        if (event.type() == AgentEventType::agent_end) agent.abort();
    });
    EXPECT_TRUE(run(agent.prompt("hi")));
    agent.abort();
    EXPECT_TRUE(run(agent.prompt("again")));
}

TEST(Run, D51_WaitForIdle_IncludesTheLastListener) {
    FauxProvider faux;
    faux.set_responses({"ok"});
    Agent agent({.model = faux.model()});
    bool listener_done = false;
    bool done_when_idle = false;
    agent.subscribe([&](const AgentEvent& event) -> Task<void> {
        if (event.type() != AgentEventType::agent_end) co_return;
        co_await yield_now();
        co_await yield_now();
        listener_done = true;
    });
    const auto parent = [&]() -> Task<void> {
        TaskScope scope(co_await this_executor);
        scope.spawn(agent.prompt("hi"));
        const auto waiter = [&]() -> Task<void> {
            co_await agent.wait_for_idle();
            done_when_idle = listener_done;
        };
        scope.spawn(waiter());
        co_await scope.join();
    };
    run(parent());
    EXPECT_TRUE(done_when_idle);
}

TEST(Run, AbortFromAnotherThread_EndsStalledModel) {
    FauxProvider faux;
    AsyncEvent never;
    faux.set_responses({FauxStep([&](ModelRequest) -> Task<AssistantMessage> {
        co_await never.wait();
        co_return faux_assistant_message("never");
    })});
    Agent agent({.model = faux.model()});
    std::thread aborter;
    agent.subscribe([&](const AgentEvent& event) {
        const auto* end = event.get_if<MessageEndEvent>();
        if (end && end->message.role() == Role::user) {
            aborter = std::thread([&] { agent.abort(); });
        }
    });
    const RunResult result = run(agent.prompt("hi"));
    aborter.join();
    EXPECT_EQ(result.outcome, RunOutcome::aborted);
    EXPECT_EQ(agent.state().messages.back().assistant()->error_message, "Request was aborted");
}

TEST(Run, Abort_EndsWaitingHook) {
    FauxProvider faux;
    faux.set_responses({calling({echo_call("a")}), "never"});
    AsyncEvent never;
    Agent* self = nullptr;
    Agent agent({.model = faux.model(),
                 .tools = {echo_tool()},
                 .before_tool_call =
                     [&](BeforeToolCallContext&) -> Task<std::optional<BeforeToolCallResult>> {
                     self->abort();
                     co_await never.wait();
                     co_return std::nullopt;
                 }});
    self = &agent;
    Recorder recorder(agent);
    const RunResult result = run(agent.prompt("hi"));
    EXPECT_EQ(result.outcome, RunOutcome::aborted);
    EXPECT_EQ(recorder.count(AgentEventType::agent_end), 1u);
    EXPECT_TRUE(is_legal_transcript(agent.state().messages));
}

TEST(Run, DestroyingAgentDuringRun_AbortsTheRun) {
    FauxOptions yielding;
    yielding.yield_every_chunk = true;
    FauxProvider faux(yielding);
    faux.set_responses(
        {faux_assistant_message("a long answer that comes in several pieces, one by one")});
    auto agent = std::make_unique<Agent>(AgentOptions{.model = faux.model()});
    int events_after = 0;
    bool destroyed = false;
    agent->subscribe([&](const AgentEvent&) { events_after += destroyed ? 1 : 0; });
    RunResult result;
    const auto parent = [&]() -> Task<void> {
        TaskScope scope(co_await this_executor);
        const auto prompting = [&]() -> Task<void> { result = co_await agent->prompt("hi"); };
        scope.spawn(prompting());
        co_await yield_now();
        co_await yield_now();
        agent.reset();
        destroyed = true;
        co_await scope.join();
    };
    run(parent());
    EXPECT_EQ(result.outcome, RunOutcome::aborted);
    EXPECT_EQ(events_after, 0);
}

TEST(Run, Listener_MayDestroyAgentSubscribeOrCancelItself) {
    FauxProvider faux;
    faux.set_responses({"ok"});
    auto agent = std::make_unique<Agent>(AgentOptions{.model = faux.model()});
    int own = 0;
    int added = 0;
    Subscription self;
    self = agent->subscribe([&](const AgentEvent&) {
        ++own;
        agent->subscribe([&](const AgentEvent&) { ++added; });
        self.cancel();
    });
    agent->subscribe([&](const AgentEvent& event) {
        if (event.type() == AgentEventType::message_start) agent.reset();
    });
    const RunResult result = run(agent->prompt("hi"));
    EXPECT_EQ(own, 1);
    EXPECT_EQ(added, 1);
    EXPECT_EQ(result.outcome, RunOutcome::aborted);
}

TEST(Run, ListenerPromptsItsAgent_GetsBusy) {
    FauxProvider faux;
    faux.set_responses({"ok"});
    Agent agent({.model = faux.model()});
    ErrorCode code = ErrorCode::unknown;
    agent.subscribe([&](const AgentEvent& event) -> Task<void> {
        if (event.type() != AgentEventType::turn_start) co_return;
        try {
            co_await agent.prompt("again");
        } catch (const Error& error) {
            code = error.code();
        }
    });
    EXPECT_TRUE(run(agent.prompt("hi")));
    EXPECT_EQ(code, ErrorCode::busy);
}

TEST(Run, DroppedSubscription_EndsOnlyIfScoped) {
    FauxProvider faux;
    faux.set_responses({"ok", "ok"});
    Agent agent({.model = faux.model()});
    int retained = 0;
    int scoped = 0;
    {
        agent.subscribe([&](const AgentEvent&) { ++retained; });
        const ScopedSubscription held = agent.subscribe([&](const AgentEvent&) { ++scoped; });
        run(agent.prompt("hi"));
    }
    const int before = scoped;
    run(agent.prompt("hi"));
    EXPECT_EQ(scoped, before);
    EXPECT_EQ(retained, 2 * before);
}

TEST(Run, CallOfSubscription_Unsubscribes) {
    FauxProvider faux;
    faux.set_responses({"ok", "ok"});
    Agent agent({.model = faux.model()});
    int seen = 0;
    auto unsubscribe = agent.subscribe([&](const AgentEvent&) { ++seen; });
    ScopedSubscription scoped = agent.subscribe([&](const AgentEvent&) { ++seen; });
    run(agent.prompt("hi"));
    const int before = seen;
    EXPECT_GT(before, 0);
    unsubscribe();
    unsubscribe();
    scoped();
    run(agent.prompt("hi"));
    EXPECT_EQ(seen, before);
}

TEST(Run, DroppingPulledRun_AbortsIt) {
    FauxProvider faux;
    faux.set_responses({faux_assistant_message("hello"), "next"});
    Agent agent({.model = faux.model()});
    const auto parent = [&]() -> Task<void> {
        {
            AgentRun pulled = agent.start("hi");
            (void)co_await pulled.next();
        }
        co_await agent.wait_for_idle();
        (void)co_await agent.prompt("again");
    };
    run(parent());
    EXPECT_EQ(agent.state().last_outcome, LastOutcome::complete);
    EXPECT_TRUE(is_legal_transcript(agent.state().messages));
}

TEST(Run, LoopWithoutAgent_Runs) {
    FauxProvider faux;
    faux.set_responses({calling({echo_call("a")}), "done", "more"});
    AgentContext context;
    context.tools = {echo_tool()};
    LoopOptions options;
    options.model = faux.model();
    int events = 0;
    const AgentListener count = [&](const AgentEvent&) { ++events; };
    const RunResult result = run(run_agent_loop({user_message("hi")}, context, options, count));
    EXPECT_EQ(result.text(), "done");
    EXPECT_EQ(context.messages.size(), 4u);
    EXPECT_GT(events, 10);
    context.messages.push_back(user_message("continue"));
    EXPECT_EQ(run(run_agent_loop_continue(context, options, count)).text(), "more");
    AgentContext empty;
    EXPECT_THROW(run(run_agent_loop_continue(empty, options, count)), Error);
}

// The part of a run that its tools and hooks may use: its identity, and the account for model calls that they make (D67, D70).

struct NoArgs {};

Usage tokens(std::int64_t output) {
    Usage usage;
    usage.output_tokens = output;
    return usage;
}

/// A free model that calls the tool "work" once and then answers.
FauxProvider working_model() {
    FauxProvider faux;
    faux.set_responses(
        {faux_assistant_message(faux_tool_call("work", JsonObject()), stop_reason::tool_use),
         "done"});
    return faux;
}

Model free_of_charge() {
    Model model;
    model.id = "free";
    ModelCost& cost = model.cost.emplace();
    cost.input = cost.output = cost.cache_read = cost.cache_write = 0.0;
    return model;
}

AgentOptions options_with(const FauxProvider& faux, AgentTool tool) {
    AgentOptions options;
    options.model = faux.model(free_of_charge());
    options.tools = {std::move(tool)};
    return options;
}

TEST(RunAccount, D67_ToolCharge_IsPartOfTheResult) {
    FauxProvider faux = working_model();
    AgentTool work = tool<NoArgs>("work", "Works.", [](NoArgs, ToolContext& context) {
        context.charge(tokens(1000), 0.25);
        return std::string("worked");
    });
    Agent agent(options_with(faux, std::move(work)));
    const RunResult result = run(agent.prompt("go"));
    EXPECT_EQ(result.outcome, RunOutcome::completed);
    EXPECT_GT(result.usage.output_tokens.value_or(0), 1000);
    EXPECT_DOUBLE_EQ(result.cost.value_or(-1), 0.25);
}

TEST(RunAccount, D67_UnknownPrice_MakesTheRunCostUnknown) {
    FauxProvider faux = working_model();
    AgentTool work = tool<NoArgs>("work", "Works.", [](NoArgs, ToolContext& context) {
        context.charge(tokens(5), std::nullopt);
        context.charge(tokens(5), 1.0);
        return std::string("worked");
    });
    Agent agent(options_with(faux, std::move(work)));
    const RunResult result = run(agent.prompt("go"));
    EXPECT_FALSE(result.cost);
}

TEST(RunAccount, D67_ToolCharge_CountsTowardTheSpendLimit) {
    FauxProvider faux = working_model();
    AgentTool work = tool<NoArgs>("work", "Works.", [](NoArgs, ToolContext& context) {
        context.charge(tokens(5), 2.0);
        return std::string("worked");
    });
    AgentOptions options = options_with(faux, std::move(work));
    options.limits.max_spend = 1.0;
    Agent agent(std::move(options));
    const RunResult result = run(agent.prompt("go"));
    EXPECT_EQ(result.outcome, RunOutcome::limited);
    EXPECT_EQ(faux.call_count(), 1u);
}

/// Calls a model of its own when a run ends, for example to judge the answer.
struct Judge {
    BoundModel model;
    std::vector<BoundModel> models = {model};
    int calls = 0;

    Task<MessageList> on_run_end(HookContext& context) {
        if (calls++ != 0) co_return MessageList();
        StreamOptions options = context.call_options("judge");
        MessageList question{user_message("good?")};
        Task<AssistantMessage> asking =
            model.generate(std::move(question), {}, {}, std::move(options));
        const AssistantMessage answer = co_await std::move(asking);
        context.charge(answer.usage.value_or(Usage()), 0.5);
        co_return MessageList();
    }
};

TEST(RunAccount, D70_Hook_NamesItsModelsAndCalls) {
    FauxProvider faux;
    faux.set_responses({"answer"});
    FauxProvider helper;
    helper.set_responses({"yes"});
    AgentOptions options;
    options.model = faux.model(free_of_charge());
    options.middleware = {Judge{helper.model("helper")}};
    Agent agent(std::move(options));
    ASSERT_EQ(agent.models().size(), 2u);
    EXPECT_EQ(agent.models()[1].spec().id, "helper");
    std::string seen;
    helper.subscribe_request([&](const RequestPayload&, const ProviderCall& call) {
        seen = call.run_id().str() + " " + call.purpose().str();
    });
    const RunResult result = run(agent.prompt("hi", PromptOptions().run_id("r1")));
    EXPECT_EQ(seen, "r1 judge");
    EXPECT_DOUBLE_EQ(result.cost.value_or(-1), 0.5);
}

TEST(RunAccount, D70_NestedRun_NamesItsParent) {
    FauxProvider faux = working_model();
    FauxProvider inner_faux;
    inner_faux.set_responses({"inner"});
    JsonObject inner_start;
    std::string call_of_tool;
    AgentTool work =
        tool<NoArgs>("work", "Works.", [&](NoArgs, ToolContext& context) -> Task<std::string> {
            EXPECT_EQ(context.run().run_id, "outer");
            call_of_tool = context.tool_call_id().str();
            AgentOptions options;
            options.model = inner_faux.model("inner");
            Agent inner(std::move(options));
            inner.subscribe([&](const AgentEvent& event) {
                if (event.get_if<AgentStartEvent>()) inner_start = to_json(event);
            });
            PromptOptions prompt = PromptOptions().parent(context);
            Task<RunResult> running = inner.prompt("sub", std::move(prompt));
            const RunResult result = co_await std::move(running);
            co_return result.text();
        });
    Agent agent(options_with(faux, std::move(work)));
    const RunResult result = run(agent.prompt("go", PromptOptions().run_id("outer")));
    EXPECT_EQ(result.outcome, RunOutcome::completed);
    EXPECT_EQ(inner_start.at("parent_run_id").as_string(), "outer");
    EXPECT_EQ(inner_start.at("parent_tool_call_id").as_string(), call_of_tool);
    // The inner model has no price.
    EXPECT_FALSE(result.cost);
}

TEST(RunAccount, TraceContextOfPrompt_ReachesItsEvents) {
    FauxProvider faux;
    faux.set_responses({"answer"});
    AgentOptions options;
    options.model = faux.model("m");
    Agent agent(std::move(options));
    std::shared_ptr<const RunInfo> info;
    agent.subscribe([&](const AgentEvent& event) { info = event.run; });
    run(agent.prompt("hi", PromptOptions().traceparent("00-x").tags({"a"}).metadata({{"k", 1}})));
    ASSERT_TRUE(info && info->origin.trace);
    EXPECT_EQ(info->origin.trace->traceparent, "00-x");
    EXPECT_EQ(info->origin.trace->tags, std::vector<std::string>{"a"});
    EXPECT_EQ(info->origin.trace->metadata.at("k").as_int64(), 1);
}

TEST(RunAccount, D124_NestedRun_InheritsTheTraceContext) {
    FauxProvider faux = working_model();
    std::shared_ptr<const TraceContext> inner_trace;
    AgentTool work =
        tool<NoArgs>("work", "Works.", [&](NoArgs, ToolContext& context) -> Task<std::string> {
            FauxProvider inner_faux;
            inner_faux.set_responses({"inner"});
            Agent inner(inner_faux.model("inner"));
            inner.subscribe(
                [&](const AgentEvent& event) { inner_trace = event.run->origin.trace; });
            PromptOptions prompt =
                PromptOptions().tags({"b", "c"}).metadata({{"k", 2}}).parent(context);
            Task<RunResult> running = inner.prompt("sub", std::move(prompt));
            (void)co_await std::move(running);
            co_return "worked";
        });
    Agent agent(options_with(faux, std::move(work)));
    TraceContext host;
    host.tags = {"a"};
    host.metadata = {{"k", 0}, {"host", true}};
    TraceContext request;
    request.traceparent = "00-x";
    request.tags = {"b"};
    request.metadata = {{"k", 1}};
    EXPECT_TRUE(run(agent.prompt("go", PromptOptions().tracing_context(host.nested(request)))));
    ASSERT_TRUE(inner_trace);
    EXPECT_EQ(inner_trace->traceparent, "00-x");
    EXPECT_EQ(inner_trace->tags, (std::vector<std::string>{"a", "b", "c"}));
    EXPECT_EQ(inner_trace->metadata, (JsonObject{{"k", 2}, {"host", true}}));
}

TEST(RunAccount, ToolOutsideRun_HasNoIdentity) {
    ToolContext context("c", "t", std::stop_token(), Runtime::standard(),
                        [](Json) -> Task<> { co_return; });
    EXPECT_EQ(context.run().run_id, "");
    context.charge(tokens(1), 1.0);
    EXPECT_EQ(context.call_options("x").purpose(), "x");
}

}  // namespace
}  // namespace cubepi
