#include <cubepi/tracing/metric_reader.hpp>

#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cubepi/testing/manual_clock.hpp>
#include <cubepi/tracing/export/export_test_support.hpp>
#include <cubepi/tracing/memory_exporters.hpp>

namespace cubepi {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

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

TEST(MetricReader, ExportsTheCurrentValuesOnRequest) {
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

TEST(MetricReader, ExportsPeriodically) {
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

TEST(MetricReader, D26_AnExporterThatThrowsOrHangsDoesNotAffectTheOthers) {
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

TEST(MetricReader, D26_ReportsAFailureOnce) {
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
