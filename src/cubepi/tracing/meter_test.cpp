#include <cubepi/tracing/meter.hpp>

#include <map>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/run.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/tracing/memory_exporters.hpp>

namespace cubepi {
namespace {

struct NoArgs {};

std::string label(const Attributes& attributes) {
    std::map<std::string, std::string> sorted;
    for (const Attribute& one : attributes) {
        const auto text = one.value.if_text();
        sorted[std::string(one.key.text())] = std::string(text.value_or("?"));
    }
    std::string all;
    for (const auto& [key, value] : sorted) {
        const std::size_t dot = key.find_last_of('.');
        const std::string prefix = key.substr(0, dot);
        const std::string name = prefix.substr(prefix.find_last_of('.') + 1) + key.substr(dot);
        all += (all.empty() ? "" : " ") + name + "=" + value;
    }
    return all;
}

/// The number of recorded values by labels.
std::map<std::string, std::uint64_t> counts(const Meter& meter, std::string_view name) {
    std::map<std::string, std::uint64_t> found;
    const MetricSnapshot snapshot = meter.snapshot();
    for (const MetricData& metric : snapshot.metrics) {
        if (metric.name != name) continue;
        if (const auto* histogram = std::get_if<HistogramData>(&metric.data)) {
            for (const HistogramPoint& point : histogram->points)
                found[label(point.attributes)] = point.count;
        } else {
            for (const CounterPoint& point : std::get<CounterData>(metric.data).points)
                found[label(point.attributes)] = static_cast<std::uint64_t>(point.value);
        }
    }
    return found;
}

FauxProvider answering(std::vector<FauxStep> steps) {
    FauxOptions options;
    options.provider_id = "faux";
    FauxProvider faux(options);
    faux.set_responses(std::move(steps));
    return faux;
}

AssistantMessage calling(std::string tool) {
    return faux_assistant_message(faux_tool_call(std::move(tool), JsonObject()),
                                  stop_reason::tool_use);
}

TEST(Meter, MeasuresRunsCallsAndTools) {
    Meter meter;
    FauxProvider faux = answering({calling("fail"), calling("invented"), "done"});
    AgentTool fail = tool<NoArgs>("fail", "Fails.", [](NoArgs) -> std::string {
        throw Error(ErrorCode::io, "the disk is full");
    });
    Agent agent({.model = faux.model("m"), .tools = {fail}});
    const MeterAttachment attachment = meter.attach(agent);
    run(agent.prompt("hi"));
    const std::map<std::string, std::uint64_t> expected{
        {"operation.name=chat provider.name=faux request.model=m response.model=m", 3},
        {"error.type=cubepi.tool.error operation.name=execute_tool provider.name=faux "
         "tool.name=fail",
         1},
        {"error.type=cubepi.tool.error operation.name=execute_tool provider.name=faux "
         "tool.name=(unknown)",
         1},
        {"run.outcome=completed operation.name=invoke_agent provider.name=faux", 1}};
    EXPECT_EQ(counts(meter, "gen_ai.client.operation.duration"), expected);
    EXPECT_EQ(counts(meter, "gen_ai.client.operation.time_to_first_chunk").size(), 1u);
    EXPECT_EQ(counts(meter, "gen_ai.client.token.usage").size(), 2u);
}

TEST(Meter, NamesTheErrorOfARun) {
    Meter meter;
    ErrorInfo info;
    info.code = ErrorCode::rate_limited;
    info.type = "RateLimited";
    FauxProvider faux = answering({faux_failure("slow down", info)});
    Agent agent({.model = faux.model("m")});
    const MeterAttachment attachment = meter.attach(agent);
    run(agent.prompt("hi"));
    const auto durations = counts(meter, "gen_ai.client.operation.duration");
    EXPECT_EQ(durations.count("error.type=cubepi.errors.RateLimited operation.name=chat "
                              "provider.name=faux request.model=m"),
              1u);
    EXPECT_EQ(durations.count("run.outcome=failed error.type=cubepi.errors.RateLimited "
                              "operation.name=invoke_agent provider.name=faux"),
              1u);
}

TEST(Meter, CountsACallOfASharedProviderOnce) {
    Meter meter;
    FauxProvider faux = answering({"one", "two", "three"});
    Agent a({.model = faux.model("m")});
    Agent b({.model = faux.model("m")});
    Agent other({.model = faux.model("m")});
    const MeterAttachment first = meter.attach(a);
    const MeterAttachment second = meter.attach(b);
    run(a.prompt("hi"));
    run(b.prompt("hi"));
    run(other.prompt("hi"));
    EXPECT_EQ(counts(meter, "gen_ai.client.operation.duration")
                  ["operation.name=chat provider.name=faux request.model=m response.model=m"],
              2u);
}

TEST(Meter, MeasuresRunsOfSeveralThreadsOnce) {
    constexpr int threads = 4;
    constexpr int runs = 50;
    Meter meter;
    FauxProvider faux = answering({});
    faux.set_responses(std::vector<FauxStep>(threads * runs, FauxStep("one")));
    std::vector<std::thread> all;
    all.reserve(threads);
    for (int i = 0; i < threads; ++i) {
        all.emplace_back([&] {
            for (int j = 0; j < runs; ++j) {
                Agent agent({.model = faux.model("m")});
                const MeterAttachment attachment = meter.attach(agent);
                run(agent.prompt("hi"));
            }
        });
    }
    for (std::thread& one : all) one.join();
    const auto durations = counts(meter, "gen_ai.client.operation.duration");
    EXPECT_EQ(durations.size(), 2u);
    for (const auto& [labels, count] : durations)
        EXPECT_EQ(count, static_cast<std::uint64_t>(threads * runs)) << labels;
}

TEST(Meter, DistinguishesValuesThatItRemembers) {
    Meter meter;
    FauxProvider faux = answering({"one", faux_failure("down"), "three", "four"});
    for (const char* model : {"a", "a", "a", "b"}) {
        Agent agent({.model = faux.model(model)});
        const MeterAttachment attachment = meter.attach(agent);
        run(agent.prompt("hi"));
    }
    auto durations = counts(meter, "gen_ai.client.operation.duration");
    const std::string chat = "operation.name=chat provider.name=faux request.model=";
    EXPECT_EQ(durations[chat + "a response.model=a"], 2u);
    EXPECT_EQ(durations[chat + "b response.model=b"], 1u);
}

TEST(Meter, CountsTheCostOfCallsWithAPrice) {
    Meter meter;
    FauxProvider faux = answering({"one"});
    Model model;
    model.id = "m";
    ModelCost& cost = model.cost.emplace();
    cost.input = cost.output = cost.cache_read = cost.cache_write = 1e9;
    Agent agent({.model = faux.model(model)});
    const MeterAttachment attachment = meter.attach(agent);
    const RunResult result = run(agent.prompt("hi"));
    const auto counted = counts(meter, "cubepi.client.cost");
    ASSERT_EQ(counted.size(), 1u);
    EXPECT_EQ(counted.begin()->second, static_cast<std::uint64_t>(result.cost.value_or(0)));
}

TEST(Meter, ExportsPeriodicallyAndAsPrometheusText) {
    auto exporter = std::make_shared<InMemoryMetricExporter>();
    MeterOptions options;
    options.service_name = "bot";
    options.exporters = {exporter};
    Meter meter(std::move(options));
    FauxProvider faux = answering({"one"});
    Agent agent({.model = faux.model("m")});
    MeterAttachment attachment = meter.attach(agent);
    run(agent.prompt("hi"));
    EXPECT_TRUE(meter.force_flush());
    ASSERT_TRUE(exporter->metrics());
    EXPECT_EQ(exporter->metrics()->metrics.size(), 6u);
    const std::string text = meter.prometheus_text();
    EXPECT_NE(text.find("gen_ai_client_operation_duration_seconds_bucket"), std::string::npos);
    EXPECT_NE(text.find("service_name=\"bot\""), std::string::npos);
    attachment.detach();
    attachment.detach();
    EXPECT_TRUE(meter.shutdown());
}

}  // namespace
}  // namespace cubepi
