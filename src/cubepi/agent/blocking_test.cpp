// Runs in programs without an event loop.

#include <cubepi/agent/agent_test_support.hpp>

#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include <cubepi/agent/agent.hpp>
#include <cubepi/agent/blocking.hpp>
#include <cubepi/agent/print_text.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/faux.hpp>

namespace cubepi {
namespace {

using namespace agent_test;

static_assert(std::input_iterator<BlockingEvents<AgentRun>::Iterator>);

struct Answer {
    int number;
};

AssistantMessage long_answer() { return faux_assistant_message(std::string(4000, '.')); }

TEST(Blocking, Loop_YieldsTheEventsAndTheResult) {
    FauxProvider faux;
    faux.set_responses({calling({echo_call("x")}), "Hello there."});
    Agent agent({.model = faux.model(), .tools = {echo_tool()}});
    std::string text;
    std::uint64_t count = 0;
    auto events = blocking(agent.start("Hi"));
    for (const AgentEvent& event : events) {
        EXPECT_EQ(event.seq, ++count);
        if (const auto* delta = event.text_delta()) text += *delta;
    }
    const RunResult result = events.result();
    EXPECT_TRUE(result);
    EXPECT_EQ(text, "Hello there.");
    EXPECT_EQ(result.text(), text);
}

TEST(Blocking, LeavingTheLoop_AbortsTheRun) {
    FauxProvider faux;
    faux.set_responses({long_answer(), "Still here."});
    Agent agent({.model = faux.model()});
    auto events = blocking(agent.start("Count"));
    for (const AgentEvent& event : events) {
        if (event.text_delta()) break;
    }
    EXPECT_FALSE(agent.state().is_streaming);
    EXPECT_EQ(events.result().outcome, RunOutcome::aborted);
    EXPECT_TRUE(is_legal_transcript(agent.state().messages));
    // As a temporary too.
    faux.set_responses({long_answer(), "Still here."});
    for (const AgentEvent& event : blocking(agent.start("Count"))) {
        if (event.text_delta()) break;
    }
    EXPECT_FALSE(agent.state().is_streaming);
    EXPECT_EQ(run(agent.prompt("Hello?")).text(), "Still here.");
}

TEST(Blocking, BreakAtToolStart_ToolDoesNotRun) {
    int ran = 0;
    const AgentTool counts("count", "", JsonSchema(Json(JsonObject{{"type", "object"}})),
                           [&](JsonObject, ToolContext&) {
                               ++ran;
                               return AgentToolResult("ok");
                           });
    FauxProvider faux;
    faux.set_responses({calling({faux_tool_call("count", {}, "c1")})});
    Agent agent({.model = faux.model(), .tools = {counts}});
    for (const AgentEvent& event : blocking(agent.start("Count"))) {
        if (event.type() == AgentEventType::tool_execution_start) break;
    }
    EXPECT_EQ(ran, 0);
    EXPECT_TRUE(is_legal_transcript(agent.state().messages));
}

/// Reads an event until none arrives for some time.
Task<> try_read(AgentRun& pulled) {
    const std::stop_source given_up;
    const auto give_up = [&given_up]() -> Task<> {
        for (int i = 0; i < 10; ++i) co_await yield_now();
        given_up.request_stop();
    };
    const auto both = [&](TaskScope& scope) -> Task<> {
        scope.spawn(give_up());
        Task<std::optional<AgentEvent>> reading = pulled.next();
        const Outcome<std::optional<AgentEvent>> event =
            co_await outcome_of(cancel_on(given_up.get_token(), std::move(reading)));
        EXPECT_FALSE(event.ok());
        co_await scope.join();
    };
    co_await with_task_scope(both);
}

TEST(PulledRun, CancelledReads_RunDoesNotGoAhead) {
    AsyncEvent finish;
    const auto waits = tool<EchoArgs>("echo", "Waits.", [&](EchoArgs) -> Task<std::string> {
        co_await finish.wait();
        co_return "ok";
    });
    std::size_t emitted = 0;
    FauxProvider faux;
    faux.set_responses({calling({echo_call("x")}), "Hello there."});
    Agent agent({.model = faux.model(), .tools = {waits}});
    agent.subscribe([&](const AgentEvent&) { ++emitted; });
    const auto work = [&]() -> Task<> {
        AgentRun pulled = agent.start("Hi");
        for (;;) {
            const std::optional<AgentEvent> event = co_await pulled.next();
            if (event->type() == AgentEventType::tool_execution_start) break;
        }
        for (int i = 0; i < 10; ++i) co_await try_read(pulled);
        const std::size_t before = emitted;
        finish.set();
        for (int i = 0; i < 50; ++i) co_await yield_now();
        EXPECT_EQ(emitted, before + 1);
        (void)co_await pulled.result();
    };
    run(work());
}

TEST(Blocking, LoopHandlesEvent_RunWaits) {
    std::size_t asked = 0;
    FauxProvider faux;
    faux.set_responses({calling({echo_call("x")}), "Hello there."});
    Agent agent({.model = faux.model(), .tools = {echo_tool()}});
    agent.subscribe([&](const AgentEvent&) { ++asked; });
    std::size_t handled = 0;
    for (const AgentEvent& event : blocking(agent.start("Hi"))) {
        ++handled;
        EXPECT_EQ(asked, handled) << static_cast<int>(event.type());
    }
    EXPECT_EQ(asked, handled);
}

TEST(Blocking, ExceptionInTheLoop_AbortsTheRun) {
    FauxProvider faux;
    faux.set_responses({long_answer()});
    Agent agent({.model = faux.model()});
    const auto work = [&] {
        for (const AgentEvent& event : blocking(agent.start("Count"))) {
            if (event.text_delta()) throw std::runtime_error("enough");
        }
    };
    EXPECT_THROW(work(), std::runtime_error);
    EXPECT_FALSE(agent.state().is_streaming);
}

TEST(Blocking, D82_FailedRun_ThrowsAtItsEnd) {
    FauxProvider faux;
    faux.set_responses({faux_assistant_message("half an ans", stop_reason::error, "slow down")});
    Agent agent({.model = faux.model()});
    auto events = blocking(agent.start("Hi"));
    std::string text;
    try {
        for (const AgentEvent& event : events) text += event.text();
        ADD_FAILURE() << "nothing was thrown";
    } catch (const RunFailedError& error) {
        EXPECT_EQ(error.code(), ErrorCode::provider);
        EXPECT_STREQ(error.what(), "slow down");
        EXPECT_EQ(error.result().outcome, RunOutcome::failed);
    }
    EXPECT_EQ(text, "half an ans");
    EXPECT_EQ(events.result().outcome, RunOutcome::failed);
    // As a temporary, of which nothing but the exception is left.
    faux.set_responses({faux_assistant_message("", stop_reason::error, "slow down")});
    const auto read = [&] {
        for (const AgentEvent& event : blocking(agent.start("Hi"))) text += event.text();
    };
    EXPECT_THROW(read(), RunFailedError);
}

TEST(Blocking, D82_AbortInLoop_ThrowsAtItsEnd) {
    FauxProvider faux;
    faux.set_responses({long_answer()});
    Agent agent({.model = faux.model()});
    auto events = blocking(agent.start("Count"));
    const auto read = [&] {
        for (const AgentEvent& event : events) {
            if (event.text_delta()) agent.abort();
        }
    };
    EXPECT_THROW(read(), RunFailedError);
    EXPECT_EQ(events.result().outcome, RunOutcome::aborted);
}

TEST(Blocking, Result_IsAvailableWithoutALoop) {
    FauxProvider faux;
    faux.set_responses({"Hello"});
    Agent agent({.model = faux.model()});
    EXPECT_EQ(blocking(agent.start("Hi")).result().text(), "Hello");
}

TEST(Blocking, TypedAnswer_IsReturned) {
    FauxProvider faux;
    faux.set_responses({calling({faux_tool_call("structured_output", {{"number", 7}})})});
    Agent agent({.model = faux.model()});
    auto events = blocking(agent.start<Answer>("A number"));
    PartialAnswer<Answer> partial;
    int number = 0;
    for (const AgentEvent& event : events) {
        if (const Answer* so_far = partial.update(event)) number = so_far->number;
    }
    EXPECT_EQ(number, 7);
    EXPECT_EQ(events.result()->number, 7);
}

TEST(Blocking, FailureOfListener_IsThrown) {
    FauxProvider faux;
    faux.set_responses({"Hello"});
    Agent agent({.model = faux.model()});
    agent.subscribe([](const AgentEvent& event) {
        if (event.type() == AgentEventType::turn_end) throw std::runtime_error("listener");
    });
    auto events = blocking(agent.start("Hi"));
    const auto read = [&] {
        std::size_t count = 0;
        for (const AgentEvent& event : events) count += event.seq != 0 ? 1 : 0;
        return count;
    };
    EXPECT_THROW((void)read(), std::runtime_error);
    EXPECT_THROW((void)events.result(), std::runtime_error);
}

Task<bool> inside() {
    FauxProvider faux;
    faux.set_responses({"Hello"});
    Agent agent({.model = faux.model()});
    try {
        (void)blocking(agent.start("Hi")).result();
    } catch (const Error& error) {
        co_return error.code() == ErrorCode::invalid_state;
    }
    co_return false;
}

TEST(Blocking, CallInsideRun_IsRefused) { EXPECT_TRUE(run(inside())); }

TEST(PrintText, EachAnswer_IsPrintedOnItsOwnLine) {
    FauxProvider faux;
    AssistantMessage call = faux_assistant_message(faux_tool_call("wait"));
    call.content.insert(call.content.begin(), TextContent{.text = "Wait a moment."});
    faux.set_responses({call, faux_assistant_message(faux_tool_call("wait")), "Done.\nReally."});
    Agent agent({
        .model = faux.model(),
        .tools = {AgentTool("wait", "Waits.", AgentTool::no_parameters(),
                            [](JsonObject, ToolContext&) -> MaybeTask<AgentToolResult> {
                                return AgentToolResult("ok");
                            })},
    });
    std::ostringstream out;
    agent.subscribe(print_text(out));
    EXPECT_TRUE(run(agent.prompt("Hello")));
    EXPECT_EQ(out.str(), "Wait a moment.\nDone.\nReally.\n");
}

TEST(PrintText, CutOffAnswer_EndsItsLine) {
    FauxProvider faux;
    faux.set_responses({"One. Two. Three."});
    Agent agent({.model = faux.model()});
    std::ostringstream out;
    agent.subscribe(print_text(out));
    agent.subscribe([&](const AgentEvent& event) {
        if (event.text_delta()) agent.abort();
    });
    EXPECT_EQ(run(agent.prompt("Hello")).outcome, RunOutcome::aborted);
    ASSERT_FALSE(out.str().empty());
    EXPECT_EQ(out.str().back(), '\n');
}

}  // namespace
}  // namespace cubepi
