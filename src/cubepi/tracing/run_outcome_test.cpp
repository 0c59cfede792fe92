// Spans and metrics report each outcome of a run, also of one that ends while no turn is open.

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/agent/store_test_support.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/testing/manual_clock.hpp>
#include <cubepi/tracing/meter.hpp>
#include <cubepi/tracing/traced_test.hpp>

namespace cubepi {
namespace {

using namespace tracing_test;

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

TEST(RunOutcome, AHookThatThrowsAfterATurnFailsTheRun) {
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

TEST(RunOutcome, AFailureAtTheEndOfARunIsExportedAlsoIfTheRunIsNotSampled) {
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

TEST(RunOutcome, AStoreThatFailsAtTheEndFailsTheRun) {
    FauxProvider faux = answering({"done"});
    AgentOptions options = working(faux);
    options.checkpointer = std::make_shared<FullStore>();
    options.thread_id = "t";
    const Observed it(std::move(options));
    EXPECT_EQ(it.outcome, "failed");
    EXPECT_EQ(text(*it.root, "error.type"), "cubepi.storage_full");
    EXPECT_EQ(it.measured_as, "failed cubepi.storage_full");
}

TEST(RunOutcome, ALimitBetweenTurnsIsALimit) {
    FauxProvider faux = answering({calling("work"), "done"});
    AgentOptions options = working(faux);
    options.limits.max_turns = 1;
    const Observed it(std::move(options));
    EXPECT_EQ(it.outcome, "limited");
    EXPECT_EQ(text(*it.root, "cubepi.run.limit"), "max_turns");
    EXPECT_EQ(it.root->status, SpanStatus::unset);
    EXPECT_EQ(it.measured_as, "limited");
}

TEST(RunOutcome, ALimitBeforeACallIsALimit) {
    FauxProvider faux = answering({"done"});
    AgentOptions options = working(faux);
    options.limits.max_spend = 1;
    const Observed it(std::move(options));
    EXPECT_EQ(it.outcome, "limited");
    EXPECT_EQ(text(*it.root, "cubepi.run.limit"), "max_spend");
    EXPECT_EQ(it.measured_as, "limited");
}

TEST(RunOutcome, ATimeLimitIsALimit) {
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

TEST(RunOutcome, AnAbortIsAnAbort) {
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

TEST(RunOutcome, D67_TheCostOfARunIncludesWhatAToolCharges) {
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

TEST(RunOutcome, TheCostOfARunExcludesWhatWasSpentBeforeIt) {
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

TEST(RunOutcome, TheCostOfANestedRunCountsOnce) {
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
            context.charge(result.usage, result.cost);
            co_return result.text();
        })};
    Agent agent(std::move(options));
    const MeterAttachment measured = meter.attach(agent);
    const RunResult result = run(agent.prompt("hi"));
    ASSERT_GT(result.cost.value_or(0), 0);
    EXPECT_DOUBLE_EQ(only_value(meter, "cubepi.run.cost", {}), *result.cost);
}

}  // namespace
}  // namespace cubepi
