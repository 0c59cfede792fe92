#include <cubepi/tracing/metric_registry.hpp>

#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/testing/manual_clock.hpp>
#include <cubepi/tracing/metric_data.hpp>

namespace cubepi {
namespace {

Attributes one(AttributeKey key, AttributeValue value) {
    Attributes attributes;
    attributes.set(std::move(key), std::move(value));
    return attributes;
}

const std::vector<HistogramPoint>& histogram_points(const MetricSnapshot& snapshot,
                                                    std::size_t index = 0) {
    return std::get<HistogramData>(snapshot.metrics.at(index).data).points;
}

const std::vector<CounterPoint>& counter_points(const MetricSnapshot& snapshot,
                                                std::size_t index = 0) {
    return std::get<CounterData>(snapshot.metrics.at(index).data).points;
}

TEST(MetricRegistry, Buckets_HaveInclusiveUpperBounds) {
    MetricRegistry registry;
    const Histogram histogram = registry.histogram("h", "s", "about", {1, 2});
    const Attributes attributes = one("a", "b");
    for (const double value : {0.5, 1.0, 1.5, 2.0, 3.0}) histogram.record(value, attributes);
    for (const double value : {HUGE_VAL, -HUGE_VAL, std::nan("")})
        histogram.record(value, attributes);
    const MetricSnapshot snapshot = registry.snapshot();
    EXPECT_EQ(snapshot.metrics[0].name, "h");
    EXPECT_EQ(snapshot.metrics[0].unit, "s");
    EXPECT_EQ(snapshot.metrics[0].description, "about");
    const HistogramPoint& point = histogram_points(snapshot).at(0);
    EXPECT_EQ(point.buckets, (std::vector<std::uint64_t>{2, 2, 1}));
    EXPECT_EQ(point.count, 5u);
    EXPECT_EQ(point.sum, 8.0);
    EXPECT_EQ(point.min, 0.5);
    EXPECT_EQ(point.max, 3.0);
    EXPECT_EQ(*point.attributes.find("a"), AttributeValue("b"));
}

TEST(MetricRegistry, Counter_OnlyIncreases) {
    MetricRegistry registry;
    const Counter counter = registry.counter("c", "{call}", "");
    for (const double value : {1.0, 2.5, -1.0, std::nan(""), 1.0})
        counter.add(value, one("a", true));
    counter.add(1, one("a", false));
    const MetricSnapshot snapshot = registry.snapshot();
    ASSERT_EQ(counter_points(snapshot).size(), 2u);
    EXPECT_EQ(counter_points(snapshot)[0].value, 4.5);
    EXPECT_EQ(counter_points(snapshot)[1].value, 1);
}

TEST(MetricRegistry, AttributeOrder_DoesNotMatter) {
    MetricRegistry registry;
    const Counter counter = registry.counter("c", "", "");
    Attributes ab = one("a", std::int64_t{1});
    ab.set("b", 2.0);
    Attributes ba = one("b", 2.0);
    ba.set("a", std::int64_t{1});
    counter.add(1, ab);
    counter.add(1, ba);
    counter.add(1, one("a", std::int64_t{1}));
    // The same text as another type, or in another place, is another set.
    counter.add(1, one("a", "1"));
    counter.add(1, one("l", std::vector<SharedString>{"x", "y"}));
    counter.add(1, one("l", std::vector<SharedString>{"y", "x"}));
    counter.add(1, Attributes());
    const MetricSnapshot snapshot = registry.snapshot();
    ASSERT_EQ(counter_points(snapshot).size(), 6u);
    EXPECT_EQ(counter_points(snapshot)[0].value, 2);
}

TEST(MetricRegistry, AttributeSets_AreLimited) {
    MetricRegistry registry;
    const Counter counter = registry.counter("c", "", "");
    for (int i = 0; i < 3000; ++i) counter.add(1, one("i", std::int64_t{i}));
    counter.add(1, one("i", std::int64_t{0}));
    counter.add(1, one("i", std::int64_t{2999}));
    const MetricSnapshot snapshot = registry.snapshot();
    const auto& points = counter_points(snapshot);
    ASSERT_EQ(points.size(), MetricRegistry::max_points);
    EXPECT_EQ(points[0].value, 2);
    EXPECT_EQ(*points.back().attributes.find("otel.metric.overflow"), AttributeValue(true));
    EXPECT_EQ(points.back().value, 1002);
}

TEST(MetricRegistry, ConflictingDefinitions_AreRefused) {
    MetricRegistry registry;
    const Histogram first = registry.histogram("h", "s", "", {1});
    const Histogram again = registry.histogram("h", "s", "", {1});
    first.record(1, Attributes());
    again.record(1, Attributes());
    EXPECT_EQ(histogram_points(registry.snapshot())[0].count, 2u);
    EXPECT_THROW(registry.histogram("h", "ms", "", {1}), Error);
    EXPECT_THROW(registry.histogram("h", "s", "", {2}), Error);
    EXPECT_THROW(registry.counter("h", "s", ""), Error);
    for (const std::vector<double>& bounds :
         {std::vector<double>{2, 1}, {1, 1}, {INFINITY}, {std::nan("")}}) {
        EXPECT_THROW(registry.histogram("other", "s", "", bounds), Error);
    }
    EXPECT_EQ(registry.snapshot().metrics.size(), 1u);
}

TEST(MetricRegistry, Snapshot_HasStartAndCurrentTime) {
    const auto clock = std::make_shared<testing::ManualClock>();
    const MetricRegistry registry(clock);
    const auto start = clock->wall();
    clock->advance(std::chrono::minutes(1));
    const MetricSnapshot snapshot = registry.snapshot();
    EXPECT_EQ(snapshot.start, start);
    EXPECT_EQ(snapshot.time, start + std::chrono::minutes(1));
}

TEST(MetricRegistry, Instruments_OutliveTheRegistry) {
    std::vector<Histogram> histograms;
    {
        MetricRegistry registry;
        histograms.push_back(registry.histogram("h", "", ""));
    }
    histograms[0].record(1, Attributes());
}

TEST(MetricRegistry, ValuesOfSeveralThreads_AreAllCounted) {
    constexpr int threads = 4;
    constexpr int each = 20000;
    MetricRegistry registry;
    const Histogram histogram = registry.histogram("h", "", "", {10});
    std::vector<std::thread> running;
    for (int i = 0; i < threads; ++i) {
        running.emplace_back([&registry, &histogram] {
            for (int n = 0; n < each; ++n) {
                histogram.record(1, Attributes());
                histogram.record(20, one("n", std::int64_t{n % 50}));
                if (n % 1000 == 0) (void)registry.snapshot();
            }
        });
    }
    for (std::thread& thread : running) thread.join();
    const MetricSnapshot snapshot = registry.snapshot();
    const auto& points = histogram_points(snapshot);
    ASSERT_EQ(points.size(), 51u);
    std::uint64_t count = 0;
    double sum = 0;
    for (const HistogramPoint& point : points) {
        count += point.count;
        sum += point.sum;
    }
    EXPECT_EQ(count, 2u * threads * each);
    EXPECT_EQ(sum, 21.0 * threads * each);
}

TEST(Prometheus, Histogram_HasCumulativeBuckets) {
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

TEST(Prometheus, Names_FollowTheOpenTelemetryRules) {
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

TEST(Prometheus, Labels_AreEscaped) {
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

TEST(Prometheus, Resource_BecomesTargetInfo) {
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
