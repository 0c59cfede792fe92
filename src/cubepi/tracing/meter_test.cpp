#include <cubepi/tracing/meter.hpp>

#include <atomic>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cubepi/core/run.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/testing/manual_clock.hpp>
#include <cubepi/tracing/export/export_test_support.hpp>
#include <cubepi/tracing/memory_exporters.hpp>
#include <cubepi/tracing/metric_reader.hpp>

namespace cubepi {
namespace {

using namespace detail;
using namespace std::chrono_literals;
using ::testing::ElementsAre;

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

TEST(Meter, RunsCallsAndTools_AreMeasured) {
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

TEST(Meter, FailedRun_NamesItsError) {
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

TEST(Meter, CallOfSharedProvider_IsCountedOnce) {
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

TEST(Meter, D103_SecondAttachment_MeasuresNothingTwice) {
    Meter meter;
    FauxProvider faux = answering({calling("fail"), "two", "three"});
    Agent agent({.model = faux.model("m")});
    MeterAttachment first = meter.attach(agent);
    const MeterAttachment second = meter.attach(agent);
    run(agent.prompt("hi"));
    first.detach();
    run(agent.prompt("hi"));
    const auto found = counts(meter, "gen_ai.client.operation.duration");
    EXPECT_EQ(found.size(), 3u) << "calls, tools and runs, each of one provider";
    EXPECT_EQ(found.at("run.outcome=completed operation.name=invoke_agent provider.name=faux"), 2u);
    EXPECT_EQ(found.at("error.type=cubepi.tool.error operation.name=execute_tool "
                       "provider.name=faux tool.name=(unknown)"),
              1u);
}

TEST(Meter, RunsOfSeveralThreads_AreMeasuredOnce) {
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

TEST(Meter, RememberedValues_AreDistinguished) {
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

TEST(Meter, CallsWithAPrice_CountTheirCost) {
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

TEST(Meter, Export_IsPeriodicAndAvailableAsPrometheusText) {
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

class ScriptedMetricExporter final : public MetricExporter {
public:
    explicit ScriptedMetricExporter(std::function<Task<ExportResult>()> call)
        : call_(std::move(call)) {}
    Task<ExportResult> export_metrics(std::shared_ptr<const MetricSnapshot>,
                                      std::shared_ptr<const Resource>) override {
        return call_();
    }
    std::string name() const override { return "scripted"; }

private:
    std::function<Task<ExportResult>()> call_;
};

struct Program {
    std::shared_ptr<testing::ManualClock> clock = std::make_shared<testing::ManualClock>();
    std::shared_ptr<MetricRegistry> registry = std::make_shared<MetricRegistry>(clock);
    Counter counter = registry->counter("c", "", "");
    Notices notices;
};

double value_of(const InMemoryMetricExporter& exporter) {
    return std::get<CounterData>(exporter.metrics()->metrics.at(0).data).points.at(0).value;
}

TEST(MetricReader, Request_ExportsTheCurrentValues) {
    Program program;
    const auto exporter = std::make_shared<InMemoryMetricExporter>();
    MetricReader reader(program.registry, {exporter}, nullptr, {}, nullptr, program.clock);
    EXPECT_TRUE(reader.force_flush(plenty));
    EXPECT_EQ(exporter->exports(), 0u);
    program.counter.add(1, Attributes());
    EXPECT_TRUE(reader.force_flush(plenty));
    EXPECT_EQ(value_of(*exporter), 1);
    program.counter.add(1, Attributes());
    EXPECT_TRUE(reader.shutdown(plenty));
    EXPECT_EQ(value_of(*exporter), 2);
    EXPECT_EQ(exporter->exports(), 2u);
    EXPECT_TRUE(exporter->is_shut_down());
    EXPECT_NE(exporter->resource(), nullptr);
    EXPECT_EQ(reader.counts()[0].exported, 2u);
    EXPECT_TRUE(reader.shutdown(0ms));
}

TEST(MetricReader, Interval_RepeatsTheExport) {
    Program program;
    const auto exporter = std::make_shared<InMemoryMetricExporter>();
    MetricReader reader(program.registry, {exporter}, nullptr, {}, nullptr, program.clock);
    program.counter.add(1, Attributes());
    for (int i = 1; i <= 3; ++i) {
        program.clock->wait_for_sleepers(1);
        program.clock->advance(59s);
        program.clock->wait_for_sleepers(1);
        program.clock->advance(1s);
        while (exporter->exports() < static_cast<std::size_t>(i)) std::this_thread::yield();
    }
    EXPECT_EQ(exporter->exports(), 3u);
}

TEST(MetricReader, D26_ThrowingOrHangingExporter_DoesNotAffectOthers) {
    Program program;
    const auto good = std::make_shared<InMemoryMetricExporter>();
    const auto throws = std::make_shared<ScriptedMetricExporter>(
        []() -> Task<ExportResult> { throw std::runtime_error("broken"); });
    const auto hangs = std::make_shared<ScriptedMetricExporter>([] { return hang(); });
    MetricReader reader(program.registry, {throws, hangs, good}, nullptr, {},
                        program.notices.receiver());
    program.counter.add(1, Attributes());
    EXPECT_FALSE(reader.force_flush(10ms));
    EXPECT_FALSE(reader.shutdown(10ms));
    EXPECT_EQ(value_of(*good), 1);
    EXPECT_TRUE(good->is_shut_down());
    EXPECT_GE(reader.counts()[0].failed, 1u);
    EXPECT_EQ(reader.counts()[1].failed, 1u);
    EXPECT_EQ(program.notices.all()[0].text,
              "the exporter scripted cannot deliver data points: broken");
}

TEST(MetricReader, D26_Failure_IsReportedOnce) {
    Program program;
    const auto exporter = std::make_shared<ScriptedMetricExporter>(
        []() -> Task<ExportResult> { throw std::runtime_error("down"); });
    MetricReader reader(program.registry, {exporter}, nullptr, {}, program.notices.receiver(),
                        program.clock);
    program.counter.add(1, Attributes());
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(reader.force_flush(plenty));
    EXPECT_TRUE(reader.shutdown(plenty));
    EXPECT_THAT(program.notices.codes(), ElementsAre("export_failing", "export_ended"));
    EXPECT_EQ(reader.counts()[0].failed, 6u);
}

}  // namespace
}  // namespace cubepi
