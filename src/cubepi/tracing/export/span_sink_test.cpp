#include <cubepi/tracing/span_sink.hpp>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/testing/manual_clock.hpp>
#include <cubepi/tracing/export/export_test_support.hpp>
#include <cubepi/tracing/memory_exporters.hpp>

namespace cubepi {
namespace {

using namespace std::chrono_literals;

std::shared_ptr<const Resource> test_resource() {
    Resource resource;
    resource.attributes.set("service.name", "test");
    return std::make_shared<const Resource>(std::move(resource));
}

TEST(SpanSink, ExportsToAllExportersInOrder) {
    const auto one = std::make_shared<InMemorySpanExporter>();
    const auto two = std::make_shared<InMemorySpanExporter>();
    const auto resource = test_resource();
    SpanSink sink({output_of(one), output_of(two)}, resource, nullptr);
    const auto a = make_span("a");
    const auto b = make_span("b");
    sink.add(a);
    sink.add(b);
    EXPECT_TRUE(sink.force_flush(plenty));
    for (const auto& exporter : {one, two}) {
        ASSERT_EQ(exporter->spans().size(), 2u);
        EXPECT_EQ(exporter->spans()[0], a);
        EXPECT_EQ(exporter->find("b"), b);
        EXPECT_EQ(exporter->find("c"), nullptr);
        EXPECT_EQ(exporter->resource(), resource);
        EXPECT_FALSE(exporter->is_shut_down());
    }
    EXPECT_TRUE(sink.shutdown(plenty));
    EXPECT_TRUE(one->is_shut_down());
    for (const ExportCounts& counts : sink.counts()) {
        EXPECT_EQ(counts.exported, 2u);
        EXPECT_EQ(counts.dropped, 0u);
        EXPECT_EQ(counts.failed, 0u);
    }
}

TEST(SpanSink, WithoutExportersDoesNothing) {
    SpanSink sink({}, nullptr, nullptr);
    sink.add(make_span());
    EXPECT_TRUE(sink.force_flush(0ms));
    EXPECT_TRUE(sink.shutdown(0ms));
    EXPECT_TRUE(sink.counts().empty());
}

TEST(SpanSink, ExportsWhatIsLeftAtShutdown) {
    const auto exporter = std::make_shared<InMemorySpanExporter>();
    SpanSink sink({output_of(exporter)}, nullptr, nullptr);
    for (int i = 0; i < 2000; ++i) sink.add(make_span());
    EXPECT_TRUE(sink.shutdown(plenty));
    EXPECT_TRUE(sink.shutdown(0ms));
    EXPECT_EQ(exporter->spans().size(), 2000u);
    sink.add(make_span());
    EXPECT_EQ(exporter->spans().size(), 2000u);
    EXPECT_EQ(sink.counts()[0].dropped, 1u);
}

TEST(SpanSink, EndsAnExporterThatGotNoSpan) {
    const auto exporter = std::make_shared<InMemorySpanExporter>();
    {
        SpanSink sink({output_of(exporter)}, nullptr, nullptr);
        EXPECT_TRUE(sink.force_flush(plenty));
    }
    EXPECT_TRUE(exporter->is_shut_down());
}

TEST(SpanSink, ExportsACompleteBatchAtOnce) {
    Latch exported;
    const auto exporter = std::make_shared<ScriptedExporter>([&exported](SpanBatch batch) {
        EXPECT_EQ(batch.size(), 3u);
        exported.open();
        return accept_all();
    });
    const auto clock = std::make_shared<testing::ManualClock>();
    ExportLimits limits;
    limits.batch_spans = 3;
    SpanSink sink({output_of(exporter, limits)}, nullptr, nullptr, clock);
    for (int i = 0; i < 3; ++i) sink.add(make_span());
    exported.wait();
}

std::shared_ptr<const SpanData> large_span(std::size_t bytes) {
    const auto span = make_span();
    span->attributes.set("content", SharedString(std::string(bytes, 'x')));
    return span;
}

TEST(SpanSink, ExportsLargeSpansBeforeTheyFillTheQueue) {
    Latch exported;
    std::atomic<std::size_t> spans = 0;
    const auto exporter = std::make_shared<ScriptedExporter>([&](SpanBatch batch) {
        if ((spans += batch.size()) == 3) exported.open();
        return accept_all();
    });
    ExportLimits limits;
    limits.queue_bytes = std::size_t{1} << 20U;
    // The clock stands still: the delay does not end.
    SpanSink sink({output_of(exporter, limits)}, nullptr, nullptr,
                  std::make_shared<testing::ManualClock>());
    for (int i = 0; i < 3; ++i) sink.add(large_span(std::size_t{100} << 10U));
    exported.wait();
    EXPECT_TRUE(sink.shutdown(plenty));
    EXPECT_EQ(sink.counts()[0].dropped, 0u);
}

TEST(SpanSink, ABatchEndsWithAQuarterOfTheBytesOfTheQueue) {
    std::vector<std::size_t> batches;
    const auto exporter = std::make_shared<ScriptedExporter>([&](SpanBatch batch) {
        batches.push_back(batch.size());
        return accept_all();
    });
    ExportLimits limits;
    limits.queue_bytes = std::size_t{1} << 20U;
    SpanSink sink({output_of(exporter, limits)}, nullptr, nullptr,
                  std::make_shared<testing::ManualClock>());
    for (int i = 0; i < 2; ++i) sink.add(large_span(std::size_t{300} << 10U));
    EXPECT_TRUE(sink.shutdown(plenty));
    EXPECT_EQ(batches, (std::vector<std::size_t>{1, 1}));
}

TEST(SpanSink, ExportsAnIncompleteBatchAfterTheDelay) {
    Latch exported;
    std::atomic<std::size_t> spans = 0;
    const auto exporter = std::make_shared<ScriptedExporter>([&](SpanBatch batch) {
        spans = batch.size();
        exported.open();
        return accept_all();
    });
    const auto clock = std::make_shared<testing::ManualClock>();
    ExportLimits limits;
    limits.delay = 200ms;
    SpanSink sink({output_of(exporter, limits)}, nullptr, nullptr, clock);
    sink.add(make_span());
    clock->wait_for_sleepers(1);
    sink.add(make_span());
    clock->advance(199ms);
    EXPECT_EQ(spans, 0u);
    clock->advance(1ms);
    exported.wait();
    EXPECT_EQ(spans, 2u);
}

TEST(SpanSink, HasNoTimerWhileItsQueuesAreEmpty) {
    const auto exporter = std::make_shared<InMemorySpanExporter>();
    const auto clock = std::make_shared<testing::ManualClock>();
    SpanSink sink({output_of(exporter)}, nullptr, nullptr, clock);
    sink.add(make_span());
    EXPECT_TRUE(sink.force_flush(plenty));
    EXPECT_TRUE(sink.force_flush(plenty));
    EXPECT_EQ(clock->pending_sleepers(), 0u);
}

TEST(SpanSink, CountsEverySpanOfSeveralThreadsOnce) {
    constexpr int producers = 4;
    constexpr int each = 5000;
    const auto exporter = std::make_shared<InMemorySpanExporter>();
    ExportLimits limits;
    limits.queue_spans = 256;
    limits.batch_spans = 64;
    SpanSink sink({output_of(exporter, limits), output_of(exporter)}, nullptr, nullptr);
    std::atomic<int> ready = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < producers; ++i) {
        threads.emplace_back([&] {
            for (int n = 0; n < each; ++n) {
                sink.add(make_span());
                if (n == each / 2) ++ready;
            }
        });
    }
    while (ready < producers) (void)sink.force_flush(plenty);
    sink.shutdown(plenty);
    for (std::thread& thread : threads) thread.join();
    std::uint64_t exported = 0;
    for (const ExportCounts& counts : sink.counts()) {
        EXPECT_EQ(counts.exported + counts.dropped, std::uint64_t{producers} * each);
        EXPECT_EQ(counts.failed, 0u);
        exported += counts.exported;
    }
    EXPECT_EQ(exporter->spans().size(), exported);
}

TEST(SpanSink, FlushesWhatWasAddedBeforeByTheSameThread) {
    const auto exporter = std::make_shared<InMemorySpanExporter>();
    SpanSink sink({output_of(exporter)}, nullptr, nullptr);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&, i] {
            for (int n = 0; n < 50; ++n) {
                const std::string name = std::to_string(i) + "-" + std::to_string(n);
                sink.add(make_span(name));
                EXPECT_TRUE(sink.force_flush(plenty));
                EXPECT_NE(exporter->find(name), nullptr);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace cubepi
