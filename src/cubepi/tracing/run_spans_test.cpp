// The spans of runs: their outcomes, what they start, and their questions to the user (D26, D70).

#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/agent/store_test_support.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/hitl/in_memory_channel.hpp>
#include <cubepi/hitl/suspension_test_support.hpp>
#include <cubepi/testing/manual_clock.hpp>
#include <cubepi/tracing/meter.hpp>
#include <cubepi/tracing/traced_test.hpp>

namespace cubepi {
namespace {

using namespace tracing_test;
using hitl_test::Process;
using hitl_test::rm_call;
using Act = std::function<Task<>(std::shared_ptr<InMemoryChannel>, HitlRequest)>;

struct NoArgs {};

/// Returns the value of the only point of a metric, and checks that it has the attributes.
double only_value(const Meter& meter, std::string_view name,
                  const std::vector<std::pair<std::string, std::string>>& attributes) {
    const MetricSnapshot snapshot = meter.snapshot();
    for (const MetricData& metric : snapshot.metrics) {
        if (metric.name != name) continue;
        const auto& points = std::get<CounterData>(metric.data).points;
        EXPECT_EQ(points.size(), 1u);
        if (points.empty()) return 0;
        for (const auto& [key, value] : attributes) {
            const AttributeValue* found = points[0].attributes.find(key);
            EXPECT_TRUE(found && found->if_text() == value) << key;
        }
        return points[0].value;
    }
    return 0;
}

/// Returns "outcome" or "outcome error.type" of the only run that was measured.
std::string measured_outcome(const Meter& meter) {
    const MetricSnapshot snapshot = meter.snapshot();
    std::string found;
    for (const MetricData& metric : snapshot.metrics) {
        if (metric.name != "gen_ai.client.operation.duration") continue;
        for (const HistogramPoint& point : std::get<HistogramData>(metric.data).points) {
            const AttributeValue* outcome = point.attributes.find("cubepi.run.outcome");
            if (!outcome) continue;
            EXPECT_EQ(found, "");
            found = outcome->if_text().value();
            if (const AttributeValue* error = point.attributes.find("error.type"))
                found += " " + std::string(error->if_text().value());
        }
    }
    return found;
}

/// A run with a tracer and a meter, and what they report of it.
struct Observed {
    /// `prompt` must not let an exception out.
    explicit Observed(AgentOptions options, TracerOptions tracing = TracerOptions(),
                      const std::function<void(Agent&)>& prompt = prompt_once)
        : traced(std::move(tracing)), agent(std::move(options)) {
        const TraceAttachment trace = traced.tracer->attach(agent);
        const MeterAttachment measured = meter.attach(agent);
        prompt(agent);
        root = traced.span("invoke_agent");
        outcome = text(*root, "cubepi.run.outcome");
        measured_as = measured_outcome(meter);
    }
    static void prompt_once(Agent& agent) {
        try {
            run(agent.prompt("hi"));
        } catch (const std::exception&) {
            // The recorders report it.
        }
    }

    Traced traced;
    Meter meter;
    Agent agent;
    std::shared_ptr<const SpanData> root;
    std::string outcome;
    std::string measured_as;
};

AgentTool idle_tool() {
    return tool<NoArgs>("work", "Works.", [](NoArgs) { return std::string("done"); });
}

/// Options of an agent that calls its tool once.
AgentOptions working(FauxProvider& faux) {
    AgentOptions options;
    options.model = faux.model("m");
    options.tools = {idle_tool()};
    return options;
}

TEST(RunOutcome, ThrowingHookAfterTurn_FailsTheRun) {
    FauxProvider faux = answering({calling("work"), "done"});
    AgentOptions options = working(faux);
    options.should_stop_after_turn = [](ShouldStopAfterTurnContext&) -> bool {
        throw std::runtime_error("secret");
    };
    const Observed it(std::move(options));
    EXPECT_EQ(it.outcome, "failed");
    EXPECT_EQ(it.root->status, SpanStatus::error);
    EXPECT_EQ(it.root->status_description, "run error");
    EXPECT_EQ(text(*it.root, "error.type"), "cubepi.error");
    EXPECT_EQ(it.measured_as, "failed cubepi.error");
}

TEST(RunOutcome, UnsampledRunFailingAtEnd_IsExported) {
    FauxProvider faux = answering({"done"});
    AgentOptions options = working(faux);
    options.on_run_end = [](HookContext&) -> MessageList { throw Error(ErrorCode::io, "secret"); };
    TracerOptions tracing;
    tracing.sampling.ratio = 0;
    const Observed it(std::move(options), std::move(tracing));
    EXPECT_EQ(it.outcome, "failed");
    EXPECT_EQ(text(*it.root, "error.type"), "cubepi.io");
    EXPECT_EQ(it.measured_as, "failed cubepi.io");
}

/// Cannot mark a run as complete.
class FullStore final : public agent_test::ForwardingStore {
public:
    Task<void> complete_run(std::string, std::string, std::string) override {
        throw CheckpointerError(ErrorCode::storage_full, "no space left on secret");
    }
};

TEST(RunOutcome, StoreFailureAtEnd_FailsTheRun) {
    FauxProvider faux = answering({"done"});
    AgentOptions options = working(faux);
    options.checkpointer = std::make_shared<FullStore>();
    options.thread_id = "t";
    const Observed it(std::move(options));
    EXPECT_EQ(it.outcome, "failed");
    EXPECT_EQ(text(*it.root, "error.type"), "cubepi.storage_full");
    EXPECT_EQ(it.measured_as, "failed cubepi.storage_full");
}

TEST(RunOutcome, LimitBetweenTurns_IsRecordedAsLimited) {
    FauxProvider faux = answering({calling("work"), "done"});
    AgentOptions options = working(faux);
    options.limits.max_turns = 1;
    const Observed it(std::move(options));
    EXPECT_EQ(it.outcome, "limited");
    EXPECT_EQ(text(*it.root, "cubepi.run.limit"), "max_turns");
    EXPECT_EQ(it.root->status, SpanStatus::unset);
    EXPECT_EQ(it.measured_as, "limited");
}

TEST(RunOutcome, LimitBeforeCall_IsRecordedAsLimited) {
    FauxProvider faux = answering({"done"});
    AgentOptions options = working(faux);
    options.limits.max_spend = 1;
    const Observed it(std::move(options));
    EXPECT_EQ(it.outcome, "limited");
    EXPECT_EQ(text(*it.root, "cubepi.run.limit"), "max_spend");
    EXPECT_EQ(it.measured_as, "limited");
}

TEST(RunOutcome, TimeLimit_IsRecordedAsLimited) {
    auto runtime = std::make_shared<Runtime>(*Runtime::standard());
    const auto clock = std::make_shared<testing::ManualClock>();
    runtime->clock = clock;
    FauxProvider faux = answering({calling("wait")});
    AgentOptions options;
    options.model = faux.model("m");
    options.runtime = runtime;
    options.limits.max_duration = std::chrono::seconds(30);
    options.tools = {tool<NoArgs>("wait", "Waits.", [clock](NoArgs) -> Task<std::string> {
        clock->advance(std::chrono::seconds(30));
        co_await clock->sleep_for(std::chrono::hours(1));
        co_return "done";
    })};
    const Observed it(std::move(options));
    EXPECT_EQ(it.outcome, "limited");
    EXPECT_EQ(text(*it.root, "cubepi.run.limit"), "max_duration");
    EXPECT_EQ(it.measured_as, "limited");
}

TEST(RunOutcome, Abort_IsRecordedAsAborted) {
    FauxProvider faux = answering({calling("stop"), "done"});
    AgentOptions options;
    options.model = faux.model("m");
    Agent* agent = nullptr;
    options.tools = {tool<NoArgs>("stop", "Stops.", [&agent](NoArgs) {
        agent->abort();
        return std::string("stopped");
    })};
    const Observed it(std::move(options), TracerOptions(), [&agent](Agent& made) {
        agent = &made;
        run(made.prompt("hi"));
    });
    EXPECT_EQ(it.outcome, "aborted");
    EXPECT_EQ(text(*it.root, "cubepi.aborted"), "true");
    EXPECT_EQ(it.root->status, SpanStatus::unset);
    EXPECT_EQ(it.measured_as, "aborted cubepi.aborted");
}

Model priced(double usd_per_million) {
    Model model;
    model.id = "m";
    ModelCost& cost = model.cost.emplace();
    cost.input = cost.output = cost.cache_read = cost.cache_write = usd_per_million;
    return model;
}

TEST(RunOutcome, D67_RunCost_IncludesToolCharges) {
    FauxProvider faux = answering({calling("buy"), "done"});
    AgentOptions options;
    options.model = faux.model(priced(0));
    options.tools = {tool<NoArgs>("buy", "Buys.", [](NoArgs, ToolContext& context) {
        context.charge(Usage(), 0.25);
        return std::string("bought");
    })};
    const Observed it(std::move(options));
    EXPECT_EQ(text(*it.root, "cubepi.usage.cost"), std::to_string(0.25));
    EXPECT_DOUBLE_EQ(only_value(it.meter, "cubepi.run.cost", {{"cubepi.run.outcome", "completed"}}),
                     0.25);
}

TEST(RunOutcome, RunCost_ExcludesEarlierSpending) {
    FauxProvider faux = answering({"done"});
    AgentOptions options;
    options.model = faux.model(priced(0));
    const Observed it(std::move(options), TracerOptions(), [](Agent& agent) {
        PriorSpending prior;
        prior.cost = 7.0;
        const RunResult result =
            run(agent.prompt("hi", PromptOptions().prior_spending(std::move(prior))));
        EXPECT_EQ(result.cost, 7.0);
    });
    EXPECT_EQ(text(*it.root, "cubepi.usage.cost"), std::to_string(0.0));
}

TEST(RunOutcome, NestedRunCost_CountsOnce) {
    Meter meter;
    FauxProvider inner = answering({"inner"});
    FauxProvider outer = answering({calling("nest"), "done"});
    AgentOptions options;
    options.model = outer.model(priced(0));
    options.tools = {
        tool<NoArgs>("nest", "Nests.", [&](NoArgs, ToolContext context) -> Task<std::string> {
            Agent agent({.model = inner.model(priced(1e9))});
            const MeterAttachment measured = meter.attach(agent);
            const RunResult result = co_await agent.prompt("hi", PromptOptions().parent(context));
            co_return result.text();
        })};
    Agent agent(std::move(options));
    const MeterAttachment measured = meter.attach(agent);
    const RunResult result = run(agent.prompt("hi"));
    ASSERT_GT(result.cost.value_or(0), 0);
    EXPECT_DOUBLE_EQ(only_value(meter, "cubepi.run.cost", {}), *result.cost);
}

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

TEST(NestedSpans, D70_HookCall_IsASpanOfItsRun) {
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

TEST(NestedSpans, D70_CallInTool_IsBelowTheToolSpan) {
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

TEST(NestedSpans, ConcurrentRunsSharingAProvider_DoNotMix) {
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

TEST(NestedSpans, UnrecordedParent_NestedRunIsNotRecorded) {
    const NotSampled it({calling("ask"), "done"}, "inner", true);
    EXPECT_TRUE(it.names.empty());
}

TEST(NestedSpans, FailedRun_IsRecordedWithItsNestedRuns) {
    const NotSampled it({calling("ask"), refused()}, "inner", true);
    const std::map<std::string, int> expected{{"invoke_agent", 2},
                                              {"cubepi.turn", 3},
                                              {"chat m", 2},
                                              {"chat inner", 1},
                                              {"execute_tool ask", 1}};
    EXPECT_EQ(it.names, expected);
}

TEST(NestedSpans, FailedNestedRun_IsRecordedWithItsParent) {
    const NotSampled it({calling("ask"), "done"}, refused(), true);
    const std::map<std::string, int> expected{{"invoke_agent", 2},
                                              {"cubepi.turn", 3},
                                              {"chat m", 2},
                                              {"chat inner", 1},
                                              {"execute_tool ask", 1}};
    EXPECT_EQ(it.names, expected);
}

TEST(NestedSpans, OptionUnset_FailedRunsAreNotRecorded) {
    const NotSampled it({calling("ask"), refused()}, refused(), false);
    EXPECT_TRUE(it.names.empty());
}

std::vector<FauxStep> removing() { return {hitl_test::calling({rm_call("a", "c1")}), "done"}; }

struct QuestionSpans : ::testing::Test {
    QuestionSpans() { faux = answering(removing()); }

    Traced traced;
    FauxProvider faux;
    std::shared_ptr<MemoryCheckpointer> store = std::make_shared<MemoryCheckpointer>();
    std::vector<std::string> effects;
};

TEST_F(QuestionSpans, D26_AnsweredQuestion_IsASpanOfItsTurn) {
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

TEST_F(QuestionSpans, D26_SuspendedRun_IsLinkedAndNotFailed) {
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

TEST_F(QuestionSpans, AbortDuringQuestion_AbortsTheRun) {
    Process process(store, faux, effects);
    const TraceAttachment attachment = traced.tracer->attach(*process.agent);
    process.prompt([&](const HitlRequest&) { process.agent->abort(); });
    EXPECT_EQ(text(*traced.span("invoke_agent"), "cubepi.aborted"), "true");
    EXPECT_NE(text(*traced.span("hitl.approve"), "hitl.outcome"), "approved");
    EXPECT_TRUE(effects.empty());
}

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

TEST(QuestionOutcomes, D26_UserAnswer_DeterminesTheOutcome) {
    EXPECT_EQ(text(*span_of_question("confirm", answers(true)), "hitl.outcome"), "approved");
    EXPECT_EQ(text(*span_of_question("confirm", answers(false)), "hitl.outcome"), "denied");
    const Json color(JsonObject{{"color", "teal"}});
    EXPECT_EQ(text(*span_of_question("ask", answers(color)), "hitl.outcome"), "answered");
}

TEST(QuestionOutcomes, D26_UnansweredQuestion_NamesTheOutcome) {
    for (const char* kind : {"confirm", "ask"}) {
        const auto late = span_of_question(kind, {});
        EXPECT_EQ(text(*late, "hitl.outcome"), "timed_out") << kind;
        EXPECT_EQ(text(*late, "hitl.duration_seconds"), "30.000000") << kind;
        EXPECT_EQ(text(*span_of_question(kind, cancel_request), "hitl.outcome"), "cancelled");
    }
}

}  // namespace
}  // namespace cubepi
