#include <cubepi/tracing/metric_registry.hpp>

#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/testing/manual_clock.hpp>

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

TEST(MetricRegistry, CountsValuesInBucketsWithInclusiveUpperBounds) {
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

TEST(MetricRegistry, ACounterOnlyIncreases) {
    MetricRegistry registry;
    const Counter counter = registry.counter("c", "{call}", "");
    const CounterRecorder recorder = counter.at(one("a", true));
    recorder.add();
    recorder.add(2.5);
    recorder.add(-1);
    recorder.add(std::nan(""));
    counter.add(1, one("a", true));
    counter.add(1, one("a", false));
    const MetricSnapshot snapshot = registry.snapshot();
    ASSERT_EQ(counter_points(snapshot).size(), 2u);
    EXPECT_EQ(counter_points(snapshot)[0].value, 4.5);
    EXPECT_EQ(counter_points(snapshot)[1].value, 1);
}

TEST(MetricRegistry, TheOrderOfAttributesDoesNotMatter) {
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

TEST(MetricRegistry, LimitsTheSetsOfAttributes) {
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

TEST(MetricRegistry, AnInstrumentHasOneDefinition) {
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

TEST(MetricRegistry, ASnapshotHasItsTimes) {
    const auto clock = std::make_shared<testing::ManualClock>();
    const MetricRegistry registry(clock);
    const auto start = clock->wall();
    clock->advance(std::chrono::minutes(1));
    const MetricSnapshot snapshot = registry.snapshot();
    EXPECT_EQ(snapshot.start, start);
    EXPECT_EQ(snapshot.time, start + std::chrono::minutes(1));
}

TEST(MetricRegistry, RecordersOutliveTheRegistry) {
    std::vector<HistogramRecorder> recorders;
    {
        MetricRegistry registry;
        recorders.push_back(registry.histogram("h", "", "").at(Attributes()));
    }
    recorders[0].record(1);
}

TEST(MetricRegistry, CountsEveryValueOfSeveralThreads) {
    constexpr int threads = 4;
    constexpr int each = 20000;
    MetricRegistry registry;
    const Histogram histogram = registry.histogram("h", "", "", {10});
    std::vector<std::thread> running;
    for (int i = 0; i < threads; ++i) {
        running.emplace_back([&registry, &histogram] {
            const HistogramRecorder shared = histogram.at(Attributes());
            for (int n = 0; n < each; ++n) {
                shared.record(1);
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

}  // namespace
}  // namespace cubepi
