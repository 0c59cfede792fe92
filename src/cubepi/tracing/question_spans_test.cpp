// Spans of runs that ask the user: answered, refused, suspended and continued (D26).

#include <string>
#include <vector>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace cubepi
