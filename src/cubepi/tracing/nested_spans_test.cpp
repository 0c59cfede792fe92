// Spans of what a run starts: nested runs and model calls of tools and hooks, also of several runs at once (D26, D70).

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/tracing/traced_test.hpp>

namespace cubepi {
namespace {

using namespace tracing_test;

struct NoArgs {};

/// Calls a model of its own when a run ends.
struct Judge {
    BoundModel model;
    std::vector<BoundModel> models = {model};

    Task<MessageList> on_run_end(HookContext& context) {
        StreamOptions options = context.call_options("judge");
        MessageList question{user_message("good?")};
        Task<AssistantMessage> asking =
            model.generate(std::move(question), {}, {}, std::move(options));
        (void)co_await std::move(asking);
        co_return MessageList();
    }
};

FauxStep refused() {
    ErrorInfo info;
    info.code = ErrorCode::auth;
    return faux_failure("no", info);
}

TEST(NestedSpans, D70_ACallOfAHookIsASpanOfItsRun) {
    Traced it;
    FauxProvider faux = answering({"answer"});
    FauxProvider helper = answering({"yes"});
    Agent agent({.model = faux.model("m"), .middleware = {Judge{helper.model("helper")}}});
    const TraceAttachment attachment = it.tracer->attach(agent);
    run(agent.prompt("hi"));
    const auto chat = it.span("chat helper");
    const auto root = it.span("invoke_agent");
    EXPECT_EQ(chat->context.trace_id, root->context.trace_id);
    EXPECT_EQ(chat->parent, root->context.span_id);  // its turn has ended
    EXPECT_EQ(text(*chat, "cubepi.llm.purpose"), "judge");
}

TEST(NestedSpans, D70_ACallOfAToolIsBelowItsSpan) {
    Traced it;
    FauxProvider faux = answering({calling("summarize"), "short", "done"});
    const BoundModel model = faux.model("m");
    AgentTool summarize = tool<NoArgs>(
        "summarize", "Summarizes.", [model](NoArgs, ToolContext& context) -> Task<std::string> {
            StreamOptions options = context.call_options("summary");
            MessageList question{user_message("long")};
            Task<AssistantMessage> asking =
                model.generate(std::move(question), {}, {}, std::move(options));
            const AssistantMessage answer = co_await std::move(asking);
            co_return answer.text();
        });
    Agent agent({.model = model, .tools = {summarize}});
    const TraceAttachment attachment = it.tracer->attach(agent);
    run(agent.prompt("hi"));
    const SpanBatch chats = it.spans("chat m");
    ASSERT_EQ(chats.size(), 3u);
    EXPECT_EQ(chats[1]->parent, it.span("execute_tool summarize")->context.span_id);
    EXPECT_EQ(text(*chats[1], "cubepi.llm.purpose"), "summary");
}

/// Runs agents of one type at the same time, with one provider; every agent is in its tool before any of them continues.
Task<> run_at_once(Tracer& tracer, BoundModel model, std::size_t count) {
    auto inside = std::make_shared<std::size_t>(0);
    const AgentTool meet =
        tool<NoArgs>("meet", "Waits for all.", [inside, count](NoArgs) -> Task<std::string> {
            ++*inside;
            while (*inside < count) co_await yield_now();
            co_return std::string("met");
        });
    std::vector<std::unique_ptr<Agent>> agents;
    std::vector<TraceAttachment> attachments;
    TaskScope scope(co_await this_executor);
    for (std::size_t i = 0; i < count; ++i) {
        agents.push_back(std::make_unique<Agent>(AgentOptions{.model = model, .tools = {meet}}));
        attachments.push_back(tracer.attach(*agents.back()));
    }
    const auto prompt = [](Agent& agent) -> Task<> { (void)co_await agent.prompt("hi"); };
    for (const auto& agent : agents) scope.spawn(prompt(*agent));
    co_await scope.join();
}

TEST(NestedSpans, RunsAtOnceThatShareAProviderDoNotMix) {
    constexpr std::size_t count = 6;
    Traced it;
    std::vector<FauxStep> steps;
    for (std::size_t i = 0; i < count; ++i) steps.emplace_back(calling("meet"));
    for (std::size_t i = 0; i < count; ++i) steps.emplace_back("done");
    FauxProvider faux = answering(std::move(steps));
    run(run_at_once(*it.tracer, faux.model("m"), count));
    std::map<TraceId, std::map<std::string, int>> traces;
    std::map<TraceId, std::string> run_ids;
    for (const auto& span : it.spans()) {
        const std::string name = span->name.str();
        ++traces[span->context.trace_id][name];
        const std::string run_id = text(*span, "cubepi.run_id");
        const auto [known, first] = run_ids.emplace(span->context.trace_id, run_id);
        EXPECT_EQ(known->second, run_id) << name;
    }
    ASSERT_EQ(traces.size(), count);
    const std::map<std::string, int> expected{
        {"invoke_agent", 1}, {"cubepi.turn", 2}, {"chat m", 2}, {"execute_tool meet", 1}};
    for (const auto& [id, names] : traces) EXPECT_EQ(names, expected) << id.hex();
}

/// An agent whose tool runs another one, with a tracer that samples no root.
struct NotSampled {
    NotSampled(std::vector<FauxStep> outer, FauxStep inner, bool failed_runs) {
        TracerOptions options;
        options.sampling.ratio = 0;
        options.sampling.failed_runs = failed_runs;
        Traced it(std::move(options));
        FauxProvider faux = answering(std::move(outer));
        FauxProvider inner_faux = answering({std::move(inner)});
        AgentTool ask =
            tool<NoArgs>("ask", "Asks.", [&](NoArgs, ToolContext& context) -> Task<std::string> {
                Agent nested({.model = inner_faux.model("inner")});
                const TraceAttachment attachment = it.tracer->attach(nested);
                PromptOptions prompt = PromptOptions().parent(context);
                Task<RunResult> running = nested.prompt("sub", std::move(prompt));
                const RunResult result = co_await std::move(running);
                co_return result.text();
            });
        Agent agent({.model = faux.model("m"), .tools = {ask}});
        const TraceAttachment attachment = it.tracer->attach(agent);
        run(agent.prompt("go"));
        for (const auto& span : it.spans()) ++names[span->name.str()];
    }

    std::map<std::string, int> names;
};

TEST(NestedSpans, ANestedRunIsNotRecordedIfItsParentIsNot) {
    const NotSampled it({calling("ask"), "done"}, "inner", true);
    EXPECT_TRUE(it.names.empty());
}

TEST(NestedSpans, ARunThatFailsIsRecordedWithItsNestedRuns) {
    const NotSampled it({calling("ask"), refused()}, "inner", true);
    const std::map<std::string, int> expected{{"invoke_agent", 2},
                                              {"cubepi.turn", 3},
                                              {"chat m", 2},
                                              {"chat inner", 1},
                                              {"execute_tool ask", 1}};
    EXPECT_EQ(it.names, expected);
}

TEST(NestedSpans, ANestedRunThatFailsIsRecordedWithItsParent) {
    const NotSampled it({calling("ask"), "done"}, refused(), true);
    const std::map<std::string, int> expected{{"invoke_agent", 2},
                                              {"cubepi.turn", 3},
                                              {"chat m", 2},
                                              {"chat inner", 1},
                                              {"execute_tool ask", 1}};
    EXPECT_EQ(it.names, expected);
}

TEST(NestedSpans, RunsThatFailAreNotRecordedWithoutTheOption) {
    const NotSampled it({calling("ask"), refused()}, refused(), false);
    EXPECT_TRUE(it.names.empty());
}

}  // namespace
}  // namespace cubepi
