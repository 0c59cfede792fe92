#include <chrono>

#include "agent_test_support.hpp"

// A prompt that follows an aborted run, which may take some time to end.

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

TEST(NextPrompt, D7_APromptAfterAnAbortWaitsForTheEndOfTheRun) {
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

TEST(NextPrompt, ARunThatWasNotAbortedIsBusy) {
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

TEST(NextPrompt, OfTwoThatWaitTheFirstRunsAndTheOtherIsBusy) {
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

TEST(NextPrompt, D38_CancellingAPromptThatWaitsEndsItAlone) {
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

TEST(NextPrompt, ASecondAbortEndsAPromptThatWaits) {
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

TEST(NextPrompt, APromptThatWaitsEndsWithItsAgent) {
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

TEST(NextPrompt, TheWaitIsBoundedByTheGraceAndFiveSeconds) {
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

TEST(NextPrompt, ResumeWaitsToo) {
    Scene scene;
    const auto script = [&](TaskScope&) -> Task<void> {
        scene.agent->abort();
        scene.agent->steer("continue");
        const RunResult resumed = co_await scene.agent->resume();
        EXPECT_EQ(resumed.text(), "second");
    };
    scene.play(script);
}

TEST(NextPrompt, ARunThatIsDroppedWhileItWaitsDoesNotBegin) {
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

TEST(NextPrompt, ARunThatIsAbortedWhileItWaitsHasThatOutcome) {
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

TEST(NextPrompt, WithBlockingRunAPromptFollowsADroppedRun) {
    FauxProvider faux = piecemeal();
    Agent agent({.model = faux.model()});
    {
        AgentRun dropped = agent.start("first");
        EXPECT_TRUE(run(dropped.next()));
    }
    EXPECT_TRUE(agent.state().is_streaming);
    EXPECT_EQ(run(agent.prompt("again")).text(), "second");
    EXPECT_TRUE(is_legal_transcript(agent.state().messages));
}

TEST(NextPrompt, WithBlockingRunAPromptFollowsAnAbortedRun) {
    FauxProvider faux = piecemeal();
    Agent agent({.model = faux.model()});
    AgentRun aborted = agent.start("first");
    // Enough events are queued that the run waits for space.
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(run(aborted.next()));
    agent.abort();
    EXPECT_EQ(run(agent.prompt("again")).text(), "second");
    EXPECT_EQ(run(aborted.result()).outcome, RunOutcome::aborted);
}

TEST(NextPrompt, AnAbortedRunEndsWhenItsEventsAreNotTaken) {
    FauxProvider faux = piecemeal();
    Agent agent({.model = faux.model()});
    AgentRun aborted = agent.start("first");
    EXPECT_TRUE(run(aborted.next()));
    const auto fill = []() -> Task<void> {
        for (int i = 0; i < 500; ++i) co_await yield_now();
    };
    run(fill());
    EXPECT_TRUE(agent.state().is_streaming) << "it waits for free space in the queue";
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

}  // namespace
}  // namespace cubepi
