#include <cubepi/tracing/console_exporter.hpp>

#include <sstream>

#include <gtest/gtest.h>

#include <cubepi/core/run.hpp>
#include <cubepi/tracing/export/export_test_support.hpp>
#include <cubepi/tracing/metric_registry.hpp>

namespace cubepi {
namespace {

TEST(ConsoleSpanExporter, WritesOneLineForEachSpan) {
    const auto span = make_span("chat m");
    span->context = *SpanContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    span->parent = span->context.span_id;
    span->attributes.set("n", std::int64_t{3});
    span->attributes.set("ok", true);
    span->attributes.set("ratio", 0.5);
    span->attributes.set("tags", std::vector<SharedString>{"a", "b"});
    const auto failed = make_span("tool");
    failed->context = span->context;
    failed->status = SpanStatus::error;
    failed->status_description = "no such file";
    std::ostringstream out;
    ConsoleSpanExporter exporter(out);
    EXPECT_TRUE(run(exporter.export_spans({span, failed}, nullptr)).ok());
    EXPECT_EQ(out.str(),
              "01:00:00.000  chat m  1.5 s  ok  n=3  ok=true  ratio=0.5  tags=a,b  "
              "trace=4bf92f3577b34da6a3ce929d0e0e4736 span=00f067aa0ba902b7 "
              "parent=00f067aa0ba902b7\n"
              "01:00:00.000  tool  1.5 s  error: no such file  "
              "trace=4bf92f3577b34da6a3ce929d0e0e4736 span=00f067aa0ba902b7\n");
}

TEST(ConsoleSpanExporter, PassesNoControlCharacterOn) {
    const auto span = make_span(
        "a\x1b[31m\n\xc2\x9b"
        "b\x7f\xff");
    span->attributes.set("long", std::string(59, 'x') + "\xc3\xbc" + std::string(100, 'y'));
    std::ostringstream out;
    ConsoleSpanExporter exporter(out);
    EXPECT_TRUE(run(exporter.export_spans({span}, nullptr)).ok());
    const std::string line = out.str();
    EXPECT_NE(line.find("  a [31m   b \xEF\xBF\xBD  "), std::string::npos) << line;
    EXPECT_NE(line.find("long=" + std::string(59, 'x') + "…  trace="), std::string::npos) << line;
}

TEST(ConsoleSpanExporter, ReportsAStreamThatFails) {
    std::ostringstream out;
    out.setstate(std::ios::badbit);
    ConsoleSpanExporter exporter(out);
    const ExportResult result = run(exporter.export_spans({make_span()}, nullptr));
    EXPECT_EQ(result.rejected, 1u);
    EXPECT_EQ(result.error, "cannot write to the stream");
    EXPECT_TRUE(run(exporter.export_spans({make_span()}, nullptr)).ok());
}

TEST(ConsoleMetricExporter, WritesTheTextOfPrometheus) {
    MetricRegistry registry;
    registry.counter("calls", "{call}", "Calls.").add(2, Attributes());
    Resource resource;
    resource.attributes.set("service.name", "bot");
    std::ostringstream out;
    ConsoleMetricExporter exporter(out);
    const auto snapshot = std::make_shared<const MetricSnapshot>(registry.snapshot());
    EXPECT_TRUE(run(exporter.export_metrics(snapshot, std::make_shared<Resource>(resource))).ok());
    EXPECT_NE(out.str().find("calls_total 2\n"), std::string::npos) << out.str();
    EXPECT_NE(out.str().find("service_name=\"bot\""), std::string::npos);
    out.setstate(std::ios::badbit);
    const ExportResult failed =
        run(exporter.export_metrics(snapshot, std::make_shared<Resource>(resource)));
    EXPECT_EQ(failed.rejected, 1u);
}

}  // namespace
}  // namespace cubepi
