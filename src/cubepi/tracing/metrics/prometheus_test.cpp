#include <cubepi/tracing/prometheus.hpp>

#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include <cubepi/tracing/metric_registry.hpp>

namespace cubepi {
namespace {

TEST(Prometheus, AHistogramHasCumulativeBuckets) {
    MetricRegistry registry;
    const Histogram duration = registry.histogram("gen_ai.client.operation.duration", "s",
                                                  "Duration of an operation", {0.01, 1});
    Attributes attributes;
    attributes.set("gen_ai.operation.name", "chat");
    attributes.set("error.type", "timeout");
    duration.record(0.005, attributes);
    duration.record(0.5, attributes);
    duration.record(2.25, attributes);
    EXPECT_EQ(prometheus_text(registry.snapshot()),
              "# HELP gen_ai_client_operation_duration_seconds Duration of an operation\n"
              "# TYPE gen_ai_client_operation_duration_seconds histogram\n"
              "gen_ai_client_operation_duration_seconds_bucket{error_type=\"timeout\","
              "gen_ai_operation_name=\"chat\",le=\"0.01\"} 1\n"
              "gen_ai_client_operation_duration_seconds_bucket{error_type=\"timeout\","
              "gen_ai_operation_name=\"chat\",le=\"1\"} 2\n"
              "gen_ai_client_operation_duration_seconds_bucket{error_type=\"timeout\","
              "gen_ai_operation_name=\"chat\",le=\"+Inf\"} 3\n"
              "gen_ai_client_operation_duration_seconds_sum{error_type=\"timeout\","
              "gen_ai_operation_name=\"chat\"} 2.755\n"
              "gen_ai_client_operation_duration_seconds_count{error_type=\"timeout\","
              "gen_ai_operation_name=\"chat\"} 3\n");
}

std::string counter_text(std::string name, std::string unit) {
    MetricRegistry registry;
    registry.counter(std::move(name), std::move(unit), "").add(1, Attributes());
    const std::string text = prometheus_text(registry.snapshot());
    return text.substr(text.find('\n') + 1);
}

TEST(Prometheus, NamesFollowTheRulesOfOpenTelemetry) {
    EXPECT_EQ(counter_text("gen_ai.calls", ""), "gen_ai_calls_total 1\n");
    EXPECT_EQ(counter_text("calls", "{call}"), "calls_total 1\n");
    EXPECT_EQ(counter_text("calls_total", "1"), "calls_total 1\n");
    EXPECT_EQ(counter_text("sent", "By"), "sent_bytes_total 1\n");
    EXPECT_EQ(counter_text("sent_bytes", "By"), "sent_bytes_total 1\n");
    EXPECT_EQ(counter_text("rate", "By/s"), "rate_bytes_per_second_total 1\n");
    EXPECT_EQ(counter_text("rate", "{request}/min"), "rate_per_minute_total 1\n");
    EXPECT_EQ(counter_text("wait", "ms"), "wait_milliseconds_total 1\n");
    EXPECT_EQ(counter_text("cost", "USD"), "cost_USD_total 1\n");
    EXPECT_EQ(counter_text("a..b--c:d", ""), "a_b_c:d_total 1\n");
    EXPECT_EQ(counter_text("2fast", ""), "_2fast_total 1\n");
}

TEST(Prometheus, LabelsAreEscaped) {
    MetricRegistry registry;
    Attributes attributes;
    attributes.set("text", "a\\b\"c\nd\xff ü");
    attributes.set("a.b", "1");
    attributes.set("a_b", "2");
    attributes.set("1st", true);
    attributes.set("list", std::vector<SharedString>{"x", "y\""});
    attributes.set("number", 0.5);
    attributes.set("nan", std::nan(""));
    attributes.set("integer", std::int64_t{-3});
    registry.counter("c", "", "line\nbreak \\ \"").add(1.5, attributes);
    EXPECT_EQ(
        prometheus_text(registry.snapshot()),
        "# HELP c_total line\\nbreak \\\\ \"\n"
        "# TYPE c_total counter\n"
        "c_total{_1st=\"true\",a_b=\"1;2\",integer=\"-3\",list=\"[\\\"x\\\",\\\"y\\\\\\\"\\\"]\","
        "nan=\"NaN\",number=\"0.5\",text=\"a\\\\b\\\"c\\nd\xEF\xBF\xBD ü\"} 1.5\n");
}

TEST(Prometheus, TheResourceIsTargetInfo) {
    Resource resource;
    resource.attributes.set("service.name", "weather");
    MetricRegistry registry;
    registry.counter("unused", "", "");
    EXPECT_EQ(prometheus_text(registry.snapshot(), resource),
              "# HELP target_info Target metadata\n# TYPE target_info gauge\n"
              "target_info{service_name=\"weather\"} 1\n");
}

}  // namespace
}  // namespace cubepi
