// Spans of runs that ask the user: answered, refused, suspended and continued (D26).

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/hitl/in_memory_channel.hpp>
#include <cubepi/hitl/suspension_test_support.hpp>
#include <cubepi/tracing/traced_test.hpp>

namespace cubepi {
namespace {

using namespace tracing_test;
using hitl_test::Process;
using hitl_test::rm_call;

std::vector<FauxStep> removing() { return {hitl_test::calling({rm_call("a", "c1")}), "done"}; }

struct QuestionSpans : ::testing::Test {
    QuestionSpans() { faux = answering(removing()); }

    Traced traced;
    FauxProvider faux;
    std::shared_ptr<MemoryCheckpointer> store = std::make_shared<MemoryCheckpointer>();
    std::vector<std::string> effects;
};

TEST_F(QuestionSpans, D26_AnAnsweredQuestionIsASpanOfItsTurn) {
    Process process(store, faux, effects);
    const TraceAttachment attachment = traced.tracer->attach(*process.agent);
    process.prompt([&](const HitlRequest& request) {
        process.answer(request.question_id, hitl_test::approve());
    });
    const auto question = traced.span("hitl.approve");
    EXPECT_EQ(text(*question, "hitl.outcome"), "approved");
    EXPECT_EQ(text(*question, "hitl.tool_name"), "rm");
    EXPECT_EQ(question->status, SpanStatus::unset);
    EXPECT_EQ(question->parent, traced.spans("cubepi.turn").front()->context.span_id);
    EXPECT_EQ(traced.span("invoke_agent")->status, SpanStatus::unset);
}

TEST_F(QuestionSpans, D26_ASuspendedRunHasNotFailedAndItsContinuationLinksToIt) {
    {
        Process process(store, faux, effects);
        const TraceAttachment attachment = traced.tracer->attach(*process.agent);
        EXPECT_EQ(process.prompt_and_detach().outcome, RunOutcome::suspended);
    }
    const auto suspended = traced.span("invoke_agent");
    EXPECT_EQ(suspended->status, SpanStatus::unset);
    EXPECT_EQ(text(*suspended, "cubepi.run.outcome"), "suspended");
    EXPECT_EQ(text(*suspended, "cubepi.aborted"), "(absent)");
    EXPECT_EQ(text(*traced.span("hitl.approve"), "hitl.detached"), "true");
    EXPECT_TRUE(traced.spans("execute_tool rm").empty());

    // Another process, with a tracer of its own.
    Traced later;
    Process process(store, faux, effects);
    const TraceAttachment attachment = later.tracer->attach(*process.agent);
    const RunResult result = process.respond("c1", hitl_test::approve());
    EXPECT_EQ(result.outcome, RunOutcome::completed);
    EXPECT_EQ(effects, std::vector<std::string>{"a"});
    const auto continued = later.span("invoke_agent");
    EXPECT_NE(continued->context.trace_id, suspended->context.trace_id);
    ASSERT_EQ(continued->links.size(), 1u);
    EXPECT_EQ(continued->links[0].context.span_id, suspended->context.span_id);
    EXPECT_EQ(continued->links[0].context.trace_id, suspended->context.trace_id);
    EXPECT_EQ(text(*continued, "cubepi.run_id"), text(*suspended, "cubepi.run_id"));
    EXPECT_EQ(later.spans("execute_tool rm").size(), 1u);
    EXPECT_EQ(later.spans("chat faux").size() + later.spans("chat faux-1").size(), 1u);
    // The note that it was suspended is gone.
    const std::optional<CheckpointData> data = run(store->load("t"));
    ASSERT_TRUE(data);
    const Json* note = data->extra.if_contains("cubepi.trace");
    EXPECT_TRUE(!note || note->is_null());
}

TEST_F(QuestionSpans, ARunThatIsAbortedWhileItAsksIsAborted) {
    Process process(store, faux, effects);
    const TraceAttachment attachment = traced.tracer->attach(*process.agent);
    process.prompt([&](const HitlRequest&) { process.agent->abort(); });
    EXPECT_EQ(text(*traced.span("invoke_agent"), "cubepi.aborted"), "true");
    EXPECT_NE(text(*traced.span("hitl.approve"), "hitl.outcome"), "approved");
    EXPECT_TRUE(effects.empty());
}

using Act = std::function<Task<>(std::shared_ptr<InMemoryChannel>, HitlRequest)>;

Task<> act_on_request(std::shared_ptr<InMemoryChannel> channel, HitlRequestStream stream, Act act) {
    std::optional<HitlRequest> request = co_await stream.next();
    Task<> acting = act(std::move(channel), std::move(*request));
    co_await std::move(acting);
}

Task<RunResult> prompt_and_act(Agent& agent, std::shared_ptr<InMemoryChannel> channel, Act act) {
    BackgroundScope host(co_await this_executor);
    if (act) host.spawn(act_on_request(channel, channel->subscribe(), std::move(act)));
    Outcome<RunResult> result = co_await outcome_of(agent.prompt("hi"));
    co_await host.close();
    co_return std::move(result).value();
}

Act answers(Json answer) {
    return [answer](std::shared_ptr<InMemoryChannel> channel, HitlRequest request) {
        return channel->answer(request.question_id, answer);
    };
}

Task<> cancel_request(std::shared_ptr<InMemoryChannel> channel, HitlRequest request) {
    return channel->cancel(request.question_id, "no time");
}

struct NoArgs {};

/// Returns the span of a question of a tool ("confirm" or "ask"), which is answered, cancelled or (without `act`) times out.
std::shared_ptr<const SpanData> span_of_question(const std::string& kind, Act act) {
    Traced traced;
    auto clock = std::make_shared<testing::ManualClock>();
    InMemoryChannelOptions channel_options;
    channel_options.clock = clock;
    channel_options.default_timeout = std::chrono::seconds(30);
    auto channel = std::make_shared<InMemoryChannel>(channel_options);
    AgentTool confirm = tool<NoArgs>("confirm", "Asks.", [channel](NoArgs) -> Task<std::string> {
        Task<bool> asking = channel->confirm("Sure?");
        const bool sure = co_await std::move(asking);
        co_return std::string(sure ? "yes" : "no");
    });
    const JsonArray questions{JsonObject{{"key", "color"}, {"prompt", "Which?"}}};
    ToolCall call = kind == "ask" ? faux_tool_call("ask_user", {{"questions", questions}}, "c1")
                                  : faux_tool_call("confirm", JsonObject(), "c1");
    FauxProvider faux = answering({hitl_test::calling({std::move(call)}), "done"});
    Agent agent({.model = faux.model(),
                 .tools = {confirm, ask_user_tool(channel)},
                 .channel = channel,
                 .runtime = std::make_shared<const Runtime>(Runtime().with_clock(clock))});
    const TraceAttachment attachment = traced.tracer->attach(agent);
    const RunResult result =
        testing::run_advancing(*clock, prompt_and_act(agent, channel, std::move(act)));
    EXPECT_EQ(result.outcome, RunOutcome::completed);
    EXPECT_EQ(traced.span("invoke_agent")->status, SpanStatus::unset);
    return traced.span("hitl." + kind);
}

TEST(QuestionOutcomes, D26_AreThoseOfTheUser) {
    EXPECT_EQ(text(*span_of_question("confirm", answers(true)), "hitl.outcome"), "approved");
    EXPECT_EQ(text(*span_of_question("confirm", answers(false)), "hitl.outcome"), "denied");
    const Json color(JsonObject{{"color", "teal"}});
    EXPECT_EQ(text(*span_of_question("ask", answers(color)), "hitl.outcome"), "answered");
}

TEST(QuestionOutcomes, D26_NameAQuestionThatHasNoAnswer) {
    for (const char* kind : {"confirm", "ask"}) {
        const auto late = span_of_question(kind, {});
        EXPECT_EQ(text(*late, "hitl.outcome"), "timed_out") << kind;
        EXPECT_EQ(text(*late, "hitl.duration_seconds"), "30.000000") << kind;
        EXPECT_EQ(text(*span_of_question(kind, cancel_request), "hitl.outcome"), "cancelled");
    }
}

}  // namespace
}  // namespace cubepi
