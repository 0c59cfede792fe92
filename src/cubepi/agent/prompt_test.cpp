// A prompt: when it starts, and the settings that hold for it alone.

#include <cubepi/agent/agent_test_support.hpp>

#include <chrono>
#include <stop_token>

#include <gtest/gtest.h>

#include <cubepi/agent/prompt_options.hpp>

namespace cubepi {
namespace {

using namespace agent_test;
using namespace std::chrono_literals;

/// An agent whose first run is in a tool that needs a second to end after an abort.
class Scene {
public:
    explicit Scene(std::vector<FauxStep> then = {"second", "third"}) {
        faux.set_responses({calling({echo_call("a")})});
        faux.append_responses(std::move(then));
        auto lingering = tool<EchoArgs>("echo", "Lingers.", [this](EchoArgs, ToolContext& context) {
            return linger(context.stop_token());
        });
        auto runtime = std::make_shared<const Runtime>(Runtime().with_clock(clock));
        agent = std::make_unique<Agent>(
            AgentOptions{.model = faux.model(), .tools = {lingering}, .runtime = runtime});
        recorder = std::make_unique<Recorder>(*agent);
    }

    /// Runs `script(scope)` concurrently with the first run, from the time at which that run is in its tool.
    template <class F>
    void play(F script) {
        const auto body = [this, &script](TaskScope& scope) -> Task<void> {
            scope.spawn(first());
            co_await in_tool.wait();
            begin = clock->now();
            co_await script(scope);
        };
        const auto parent = [&body]() -> Task<void> { co_await with_task_scope(body); };
        testing::run_advancing(*clock, parent());
        EXPECT_EQ(first_result.outcome, RunOutcome::aborted);
    }

    Task<void> first() { first_result = co_await agent->prompt("first"); }
    Task<void> prompt(std::string text, RunResult& result) {
        result = co_await agent->prompt(std::move(text));
    }
    /// Stores the code and the text of a prompt's exception.
    Task<void> failing_prompt(std::string text, ErrorCode& code, std::string& message) {
        try {
            co_await agent->prompt(std::move(text));
        } catch (const Error& error) {
            code = error.code();
            message = error.what();
        }
    }
    Task<std::string> linger(std::stop_token token) {
        in_tool.set();
        while (!token.stop_requested()) co_await clock->sleep_for(1ms);
        co_await clock->sleep_for(1s);
        co_return std::string("over");
    }
    std::size_t runs() const { return recorder->count(AgentEventType::agent_start); }

    std::shared_ptr<testing::ManualClock> clock = std::make_shared<testing::ManualClock>();
    FauxProvider faux;
    AsyncEvent in_tool;
    std::unique_ptr<Agent> agent;
    std::unique_ptr<Recorder> recorder;
    std::chrono::steady_clock::time_point begin;
    RunResult first_result;
};

TEST(NextPrompt, D7_PromptAfterAbort_WaitsForEndOfRun) {
    Scene scene;
    const auto script = [&](TaskScope&) -> Task<void> {
        scene.agent->abort();
        RunResult second;
        co_await scene.prompt("second", second);
        EXPECT_TRUE(second);
        EXPECT_EQ(second.text(), "second");
        EXPECT_GE(scene.clock->now() - scene.begin, 1s);
    };
    scene.play(script);
    EXPECT_TRUE(is_legal_transcript(scene.agent->state().messages));
    EXPECT_EQ(scene.runs(), 2U);
}

TEST(NextPrompt, RunWithoutAbort_IsBusy) {
    Scene scene;
    const auto script = [&](TaskScope&) -> Task<void> {
        ErrorCode code = ErrorCode::unknown;
        std::string message;
        co_await scene.failing_prompt("second", code, message);
        EXPECT_EQ(code, ErrorCode::busy);
        EXPECT_NE(message.find("wait_for_idle()"), std::string::npos) << message;
        EXPECT_NE(message.find("abort()"), std::string::npos) << message;
        EXPECT_NE(message.find(scene.agent->state().active_run_id.str()), std::string::npos);
        scene.agent->abort();
    };
    scene.play(script);
    EXPECT_EQ(scene.runs(), 1U);
}

TEST(NextPrompt, TwoWaitingPrompts_RunFirstAndRefuseSecond) {
    Scene scene;
    scene.faux.set_responses({calling({echo_call("a")}),
                              FauxStep([&](ModelRequest) -> Task<AssistantMessage> {
                                  co_await scene.clock->sleep_for(1s);
                                  co_return faux_assistant_message("second");
                              }),
                              "third"});
    RunResult second;
    ErrorCode code = ErrorCode::unknown;
    std::string message;
    const auto script = [&](TaskScope& scope) -> Task<void> {
        scene.agent->abort();
        scope.spawn(scene.prompt("second", second));
        scope.spawn(scene.failing_prompt("third", code, message));
        co_return;
    };
    scene.play(script);
    EXPECT_EQ(second.text(), "second");
    EXPECT_EQ(code, ErrorCode::busy);
    EXPECT_EQ(scene.runs(), 2U);
    EXPECT_EQ(scene.faux.pending_response_count(), 1U);
}

TEST(NextPrompt, D38_CancellingWaitingPrompt_EndsOnlyThatPrompt) {
    Scene scene;
    const auto script = [&](TaskScope&) -> Task<void> {
        scene.agent->abort();
        std::stop_source cancel;
        std::exception_ptr failure;
        std::chrono::nanoseconds waited{};
        const auto cancelled = [&](TaskScope& scope) -> Task<void> {
            const auto prompting = [&]() -> Task<void> {
                try {
                    co_await cancel_on(cancel.get_token(), scene.agent->prompt("second"));
                } catch (...) {
                    failure = std::current_exception();
                }
                waited = scene.clock->now() - scene.begin;
            };
            scope.spawn(prompting());
            cancel.request_stop();
            co_await scope.join();
        };
        co_await with_task_scope(cancelled);
        EXPECT_TRUE(is_cancellation(failure));
        EXPECT_LT(waited, 1s);
        EXPECT_TRUE(scene.agent->state().is_streaming) << "the aborted run is still ending";
        RunResult third;
        co_await scene.prompt("third", third);
        EXPECT_TRUE(third);
    };
    scene.play(script);
    EXPECT_EQ(scene.runs(), 2U);
}

TEST(NextPrompt, SecondAbort_EndsWaitingPrompt) {
    Scene scene;
    RunResult second;
    const auto script = [&](TaskScope& scope) -> Task<void> {
        scene.agent->abort();
        scope.spawn(scene.prompt("second", second));
        scene.agent->abort();
        co_return;
    };
    scene.play(script);
    EXPECT_EQ(second.outcome, RunOutcome::aborted);
    EXPECT_TRUE(second.new_messages.empty());
    EXPECT_EQ(scene.runs(), 1U);
}

TEST(NextPrompt, DestroyedAgent_EndsWaitingPrompt) {
    Scene scene;
    RunResult second;
    const auto script = [&](TaskScope& scope) -> Task<void> {
        scene.agent->abort();
        scope.spawn(scene.prompt("second", second));
        scene.agent.reset();
        co_return;
    };
    scene.play(script);
    EXPECT_EQ(second.outcome, RunOutcome::aborted);
    EXPECT_EQ(scene.faux.pending_response_count(), 2U);
}

TEST(NextPrompt, Wait_IsBoundedByGracePlusFiveSeconds) {
    Scene scene;
    AsyncEvent release;
    scene.agent->subscribe([&](const AgentEvent& event) -> Task<void> {
        if (event.type() == AgentEventType::agent_end) co_await release.wait();
    });
    const auto script = [&](TaskScope&) -> Task<void> {
        scene.agent->abort();
        ErrorCode code = ErrorCode::unknown;
        std::string message;
        co_await scene.failing_prompt("second", code, message);
        EXPECT_EQ(code, ErrorCode::busy);
        EXPECT_NE(message.find("wait_for_idle()"), std::string::npos) << message;
        EXPECT_EQ(scene.clock->now() - scene.begin, 7s);
        release.set();
    };
    scene.play(script);
    EXPECT_EQ(scene.runs(), 1U);
}

TEST(NextPrompt, ResumeAfterAbort_Waits) {
    Scene scene;
    const auto script = [&](TaskScope&) -> Task<void> {
        scene.agent->abort();
        scene.agent->steer("continue");
        const RunResult resumed = co_await scene.agent->resume();
        EXPECT_EQ(resumed.text(), "second");
    };
    scene.play(script);
}

TEST(NextPrompt, DroppedWaitingRun_DoesNotBegin) {
    Scene scene;
    const auto script = [&](TaskScope& scope) -> Task<void> {
        scene.agent->abort();
        auto waiting = std::make_unique<AgentRun>(scene.agent->start("second"));
        RunResult third;
        const auto pull = [&]() -> Task<void> {
            const std::optional<AgentEvent> event = co_await waiting->next();
            EXPECT_FALSE(event);
        };
        scope.spawn(pull());
        co_await scene.clock->sleep_for(100ms);
        waiting.reset();
        co_await scene.prompt("third", third);
        EXPECT_EQ(third.text(), "second") << "the first answer of the script that is left";
    };
    scene.play(script);
    EXPECT_EQ(scene.runs(), 2U);
}

TEST(NextPrompt, AbortedWaitingRun_HasOutcomeAborted) {
    Scene scene;
    RunResult second;
    const auto script = [&](TaskScope& scope) -> Task<void> {
        scene.agent->abort();
        AgentRun waiting = scene.agent->start("second");
        const auto pull = [&]() -> Task<void> { second = co_await waiting.result(); };
        const auto children = [&](TaskScope& inner) -> Task<void> {
            inner.spawn(pull());
            co_await scene.clock->sleep_for(100ms);
            waiting.abort();
            co_await inner.join();
        };
        co_await with_task_scope(children);
        EXPECT_LT(scene.clock->now() - scene.begin, 1s);
        (void)scope;
    };
    scene.play(script);
    EXPECT_EQ(second.outcome, RunOutcome::aborted);
    EXPECT_EQ(scene.runs(), 1U);
}

// The same with the blocking run(): nothing runs between its calls.

/// Events are delivered one at a time, so a run is in progress after its first event was taken.
FauxProvider piecemeal() {
    FauxOptions options;
    options.yield_every_chunk = true;
    FauxProvider faux(options);
    faux.set_responses({faux_assistant_message(std::string(4000, 'x')), "second"});
    return faux;
}

/// Reads until the answer of the model has begun.
void read_into_answer(AgentRun& agent_run) {
    for (;;) {
        const std::optional<AgentEvent> event = run(agent_run.next());
        ASSERT_TRUE(event);
        if (event->text_delta()) return;
    }
}

TEST(NextPrompt, PromptAfterDroppedRun_SucceedsWithBlockingRun) {
    FauxProvider faux = piecemeal();
    Agent agent({.model = faux.model()});
    {
        AgentRun dropped = agent.start("first");
        read_into_answer(dropped);
    }
    EXPECT_TRUE(agent.state().is_streaming);
    EXPECT_EQ(run(agent.prompt("again")).text(), "second");
    EXPECT_TRUE(is_legal_transcript(agent.state().messages));
}

TEST(NextPrompt, PromptAfterAbortedRun_SucceedsWithBlockingRun) {
    FauxProvider faux = piecemeal();
    Agent agent({.model = faux.model()});
    AgentRun aborted = agent.start("first");
    read_into_answer(aborted);
    agent.abort();
    EXPECT_EQ(run(agent.prompt("again")).text(), "second");
    EXPECT_EQ(run(aborted.result()).outcome, RunOutcome::aborted);
}

TEST(NextPrompt, AbortedRunWithUnreadEvents_Ends) {
    FauxProvider faux = piecemeal();
    Agent agent({.model = faux.model()});
    AgentRun aborted = agent.start("first");
    read_into_answer(aborted);
    const auto fill = []() -> Task<void> {
        for (int i = 0; i < 500; ++i) co_await yield_now();
    };
    run(fill());
    EXPECT_TRUE(agent.state().is_streaming) << "it waits for the next request";
    agent.abort();
    EXPECT_EQ(run(agent.prompt("again")).text(), "second");
    std::size_t ends = 0;
    for (;;) {
        const std::optional<AgentEvent> event = run(aborted.next());
        if (!event) break;
        if (event->type() == AgentEventType::agent_end) ++ends;
    }
    EXPECT_EQ(ends, 1U);
}

TEST(PromptOptionsOfARun, Options_ReplaceSettingsOfTheAgent) {
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

TEST(PromptOptionsOfARun, ModelSetDuringRun_IsRetained) {
    FauxProvider faux;
    faux.set_responses({calling({echo_call("x")}), "done"});
    Agent agent({.model = faux.model("own"), .tools = {echo_tool()}});
    agent.subscribe([&](const AgentEvent& event) {
        if (event.type() == AgentEventType::tool_execution_end) agent.set_model(faux.model("new"));
    });
    EXPECT_TRUE(run(agent.prompt("Hi", PromptOptions().model(faux.model("other")))));
    EXPECT_EQ(agent.state().model->id, "new");
}

TEST(PromptOptionsOfARun, ForcedToolChoice_AppliesOnce) {
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

TEST(PromptOptionsOfARun, StopToken_AbortsTheRun) {
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

TEST(PromptOptionsOfARun, TimeLimits_EndTheRun) {
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

TEST(PromptOptionsOfARun, PassedDeadline_EndsTheRun) {
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

TEST(PromptOptionsOfARun, NegativeDuration_EndsTheRun) {
    const auto result_with = [](AgentLimits limits, PromptOptions options) {
        auto clock = std::make_shared<testing::ManualClock>();
        FauxProvider faux;
        faux.set_responses({calling({echo_call("x")}), "fine"});
        Agent agent({.model = faux.model(),
                     .tools = {slow_tool()},
                     .limits = limits,
                     .runtime = std::make_shared<const Runtime>(Runtime().with_clock(clock))});
        return testing::run_advancing(*clock, agent.prompt("Hi", std::move(options)));
    };
    AgentLimits exceeded;
    exceeded.tool_timeout = 2h;
    EXPECT_EQ(result_with(exceeded, PromptOptions()).outcome, RunOutcome::completed);
    EXPECT_EQ(result_with(exceeded, PromptOptions().max_duration(-1s)).outcome,
              RunOutcome::limited);
    exceeded.max_duration = -1s;
    EXPECT_EQ(result_with(exceeded, PromptOptions()).outcome, RunOutcome::limited);
}

TEST(PromptOptionsOfARun, Copies_AreIndependent) {
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

TEST(PromptOptionsOfARun, ModelWithoutProvider_IsRefused) {
    EXPECT_THROW((void)PromptOptions().model(BoundModel(Model{.id = "m"})), Error);
}

}  // namespace
}  // namespace cubepi
