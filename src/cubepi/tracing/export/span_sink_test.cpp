#include <cubepi/tracing/span_sink.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cubepi/testing/manual_clock.hpp>
#include <cubepi/tracing/export/export_test_support.hpp>
#include <cubepi/tracing/memory_exporters.hpp>

namespace cubepi {
namespace {

using namespace detail;
using namespace std::chrono_literals;
using ::testing::ElementsAre;

std::shared_ptr<const Resource> test_resource() {
    Resource resource;
    resource.attributes.set("service.name", "test");
    return std::make_shared<const Resource>(std::move(resource));
}

TEST(SpanSink, Spans_ReachAllExportersInOrder) {
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

TEST(SpanSink, SinkWithoutExporters_DoesNothing) {
    SpanSink sink({}, nullptr, nullptr);
    sink.add(make_span());
    EXPECT_TRUE(sink.force_flush(0ms));
    EXPECT_TRUE(sink.shutdown(0ms));
    EXPECT_TRUE(sink.counts().empty());
}

TEST(SpanSink, Shutdown_ExportsTheRemainingSpans) {
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

TEST(SpanSink, ExporterWithoutSpans_IsShutDown) {
    const auto exporter = std::make_shared<InMemorySpanExporter>();
    {
        SpanSink sink({output_of(exporter)}, nullptr, nullptr);
        EXPECT_TRUE(sink.force_flush(plenty));
    }
    EXPECT_TRUE(exporter->is_shut_down());
}

TEST(SpanSink, CompleteBatch_IsExportedAtOnce) {
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

TEST(SpanSink, LargeSpans_AreExportedBeforeTheQueueFills) {
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

TEST(SpanSink, QuarterOfQueueBytes_EndsTheBatch) {
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

TEST(SpanSink, IncompleteBatch_IsExportedAfterTheDelay) {
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

TEST(SpanSink, EmptyQueues_NeedNoTimer) {
    const auto exporter = std::make_shared<InMemorySpanExporter>();
    const auto clock = std::make_shared<testing::ManualClock>();
    SpanSink sink({output_of(exporter)}, nullptr, nullptr, clock);
    sink.add(make_span());
    EXPECT_TRUE(sink.force_flush(plenty));
    EXPECT_TRUE(sink.force_flush(plenty));
    EXPECT_EQ(clock->pending_sleepers(), 0u);
}

TEST(SpanSink, SpansOfSeveralThreads_AreCountedOnce) {
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

TEST(SpanSink, Flush_ExportsSpansOfTheSameThread) {
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

Task<ExportResult> reject(std::size_t spans, std::string error) {
    ExportResult result;
    result.rejected = spans;
    result.error = std::move(error);
    co_return result;
}

Task<ExportResult> throw_later() {
    co_await yield_now();
    throw std::runtime_error("broken later");
}

TEST(SpanSinkFaults, D26_ThrowingExporter_DoesNotAffectOthers) {
    const auto throws_now = std::make_shared<ScriptedExporter>(
        [](const SpanBatch&) -> Task<ExportResult> { throw std::runtime_error("broken now"); });
    const auto throws_later =
        std::make_shared<ScriptedExporter>([](const SpanBatch&) { return throw_later(); });
    const auto good = std::make_shared<InMemorySpanExporter>();
    Notices notices;
    SpanSink sink({output_of(throws_now), output_of(throws_later), output_of(good)}, nullptr,
                  notices.receiver());
    sink.add(make_span());
    EXPECT_TRUE(sink.force_flush(plenty));
    EXPECT_EQ(good->spans().size(), 1u);
    ASSERT_EQ(notices.all().size(), 2u);
    EXPECT_EQ(notices.all()[0].text, "the exporter scripted cannot deliver spans: broken now");
    EXPECT_EQ(notices.all()[1].details.at("error"), "broken later");
    EXPECT_TRUE(sink.shutdown(plenty));
    EXPECT_EQ(sink.counts()[0].failed, 1u);
    EXPECT_EQ(sink.counts()[1].failed, 1u);
    EXPECT_EQ(sink.counts()[2].exported, 1u);
}

TEST(SpanSinkFaults, D26_FailureAndRecovery_AreReportedOnce) {
    std::atomic<bool> works = false;
    const auto exporter = std::make_shared<ScriptedExporter>([&](const SpanBatch& batch) {
        return works ? accept_all() : reject(batch.size(), "down");
    });
    Notices notices;
    SpanSink sink({output_of(exporter)}, nullptr, notices.receiver());
    const auto send = [&] {
        sink.add(make_span());
        EXPECT_TRUE(sink.force_flush(plenty));
    };
    for (int i = 0; i < 5; ++i) send();
    EXPECT_THAT(notices.codes(), ElementsAre("export_failing"));
    works = true;
    for (int i = 0; i < 5; ++i) send();
    EXPECT_THAT(notices.codes(), ElementsAre("export_failing", "export_recovered"));
    works = false;
    send();
    EXPECT_TRUE(sink.shutdown(plenty));
    EXPECT_THAT(notices.codes(), ElementsAre("export_failing", "export_recovered", "export_failing",
                                             "export_ended"));
    const Notice last = notices.all().back();
    EXPECT_EQ(last.text, "the exporter scripted delivered 5 spans, 6 were not accepted");
    EXPECT_EQ(last.details.at("exported"), 5u);
    EXPECT_EQ(last.details.at("failed"), 6u);
}

TEST(SpanSinkFaults, ShutdownDuringRetry_ReportsTheReason) {
    Latch exporting;
    const auto exporter = std::make_shared<ScriptedExporter>([&](const SpanBatch&) {
        exporting.open();
        return hang();
    });
    exporter->reason = "c answered with HTTP 503";
    Notices notices;
    ExportLimits limits;
    limits.delay = std::chrono::milliseconds(1);
    SpanSink sink({output_of(exporter, limits)}, nullptr, notices.receiver());
    sink.add(make_span());
    exporting.wait();
    EXPECT_FALSE(sink.shutdown(std::chrono::milliseconds(20)));
    const Notice last = notices.all().back();
    EXPECT_EQ(last.text,
              "the exporter scripted delivered 0 spans, 1 were not accepted: c answered with HTTP "
              "503");
    EXPECT_EQ(last.details.at("error"), "c answered with HTTP 503");
}

TEST(SpanSinkFaults, PartialRejection_IsCounted) {
    const auto exporter =
        std::make_shared<ScriptedExporter>([](const SpanBatch&) { return reject(1, ""); });
    Notices notices;
    SpanSink sink({output_of(exporter)}, nullptr, notices.receiver());
    for (int i = 0; i < 3; ++i) sink.add(make_span());
    EXPECT_TRUE(sink.shutdown(plenty));
    EXPECT_EQ(sink.counts()[0].exported, 2u);
    EXPECT_EQ(sink.counts()[0].failed, 1u);
    EXPECT_EQ(notices.all()[0].details.at("error"), "1 spans were rejected");
}

TEST(SpanSinkFaults, D26_FullQueue_DropsAndReportsOnce) {
    Latch begun;
    Latch released;
    const auto slow = std::make_shared<ScriptedExporter>([&](const SpanBatch&) {
        begun.open();
        released.wait();
        return accept_all();
    });
    Notices notices;
    ExportLimits limits;
    limits.queue_spans = 4;
    limits.batch_spans = 1;
    SpanSink sink({output_of(slow, limits)}, nullptr, notices.receiver());
    sink.add(make_span());
    begun.wait();
    for (int i = 0; i < 100; ++i) sink.add(make_span());
    EXPECT_EQ(sink.counts()[0].dropped, 96u);
    released.open();
    EXPECT_TRUE(sink.force_flush(plenty));
    EXPECT_THAT(notices.codes(), ElementsAre("export_dropping", "export_recovered"));
    EXPECT_TRUE(sink.shutdown(plenty));
    EXPECT_EQ(sink.counts()[0].exported, 5u);
    EXPECT_EQ(notices.all().back().text,
              "the exporter scripted delivered 5 spans, 96 were dropped");
}

TEST(SpanSinkFaults, D26_DeadExporter_QueuesLimitedBytes) {
    Latch begun;
    const auto dead = std::make_shared<ScriptedExporter>([&](const SpanBatch&) {
        begun.open();
        return hang();
    });
    ExportLimits limits;
    limits.queue_bytes = 10000;
    limits.batch_spans = 1;
    SpanSink sink({output_of(dead, limits)}, nullptr, nullptr);
    const auto big = make_span();
    big->attributes.set("content", std::string(4000, 'x'));
    std::weak_ptr<const SpanData> alive;
    sink.add(big);
    begun.wait();
    for (int i = 0; i < 1000; ++i) {
        const auto copy = std::make_shared<SpanData>(*big);
        sink.add(copy);
        if (i == 500) alive = copy;
    }
    // One is being exported and one waits.
    EXPECT_EQ(sink.counts()[0].dropped, 999u);
    EXPECT_TRUE(alive.expired());
    EXPECT_FALSE(sink.shutdown(0ms));
    EXPECT_EQ(sink.counts()[0].failed, 1u);
    EXPECT_EQ(sink.counts()[0].dropped, 1000u);
}

TEST(SpanSinkFaults, D26_TimeLimit_EndsAnExport) {
    Latch begun;
    std::atomic<int> calls = 0;
    const auto exporter = std::make_shared<ScriptedExporter>([&](const SpanBatch&) {
        begun.open();
        return calls++ == 0 ? hang() : accept_all();
    });
    const auto clock = std::make_shared<testing::ManualClock>();
    Notices notices;
    ExportLimits limits;
    limits.batch_spans = 1;
    limits.export_timeout = 30s;
    SpanSink sink({output_of(exporter, limits)}, nullptr, notices.receiver(), clock);
    sink.add(make_span());
    begun.wait();
    clock->wait_for_sleepers(1);
    clock->advance(30s);
    sink.add(make_span());
    EXPECT_TRUE(sink.shutdown(plenty));
    EXPECT_THAT(notices.codes(), ElementsAre("export_failing", "export_recovered", "export_ended"));
    EXPECT_EQ(notices.all()[0].details.at("error"), "timed out after 30 s (export)");
    EXPECT_EQ(sink.counts()[0].failed, 1u);
    EXPECT_EQ(sink.counts()[0].exported, 1u);
}

TEST(SpanSinkFaults, D26_HangingExporter_IsAbandoned) {
    const auto dead = std::make_shared<ScriptedExporter>([](const SpanBatch&) { return hang(); });
    const auto good = std::make_shared<InMemorySpanExporter>();
    Notices notices;
    SpanSink sink({output_of(dead), output_of(good)}, nullptr, notices.receiver());
    for (int i = 0; i < 600; ++i) sink.add(make_span());
    EXPECT_FALSE(sink.force_flush(10ms));
    EXPECT_FALSE(sink.shutdown(10ms));
    EXPECT_EQ(sink.counts()[0].failed, 512u);
    EXPECT_EQ(sink.counts()[0].dropped, 88u);
    EXPECT_EQ(sink.counts()[1].exported, 600u);
    EXPECT_TRUE(good->is_shut_down());
    EXPECT_EQ(notices.all().size(), 2u);
}

TEST(SpanSinkFaults, D26_ExporterIgnoringCancellation_IsAbandoned) {
    Latch begun;
    const auto dead = std::make_shared<ScriptedExporter>([&begun](const SpanBatch&) {
        begun.open();
        return hang_uncancellable();
    });
    Notices notices;
    {
        SpanSink sink({output_of(dead)}, nullptr, notices.receiver());
        sink.add(make_span());
        EXPECT_FALSE(sink.force_flush(10ms));
        begun.wait();
        EXPECT_FALSE(sink.shutdown(0ms));
        EXPECT_EQ(sink.counts()[0].failed, 1u);
    }
    EXPECT_THAT(notices.codes(), ElementsAre("export_ended"));
}

TEST(SpanSinkFaults, D26_ExporterBlockingItsThread_IsAbandoned) {
    // Outlives the sink: the exporter is left to its thread.
    struct Gate {
        Latch begun;
        Latch released;
    };
    const auto gate = std::make_shared<Gate>();
    const auto blocked = std::make_shared<ScriptedExporter>([gate](const SpanBatch&) {
        gate->begun.open();
        gate->released.wait();
        return accept_all();
    });
    Notices notices;
    {
        SpanSink sink({output_of(blocked)}, nullptr, notices.receiver());
        sink.add(make_span());
        EXPECT_FALSE(sink.force_flush(1ms));
        gate->begun.wait();
        EXPECT_FALSE(sink.shutdown(0ms));
        EXPECT_EQ(sink.counts()[0].failed, 1u);
        EXPECT_EQ(sink.counts()[0].exported, 0u);
    }
    gate->released.open();
    EXPECT_THAT(notices.codes(), ElementsAre("export_ended"));
}

TEST(SpanSinkFaults, D26_ExporterHangingAtShutdown_IsAbandoned) {
    const auto exporter =
        std::make_shared<ScriptedExporter>([](const SpanBatch&) { return accept_all(); },
                                           []() -> Task<void> { (void)co_await hang(); });
    SpanSink sink({output_of(exporter)}, nullptr, nullptr);
    sink.add(make_span());
    EXPECT_TRUE(sink.force_flush(plenty));
    EXPECT_FALSE(sink.shutdown(10ms));
    EXPECT_EQ(sink.counts()[0].exported, 1u);
    EXPECT_EQ(sink.counts()[0].failed, 0u);
}

TEST(SpanSinkFaults, ExporterThrowingAtShutdown_IsTolerated) {
    const auto exporter = std::make_shared<ScriptedExporter>(
        [](const SpanBatch&) { return accept_all(); },
        []() -> Task<void> { throw std::runtime_error("no end"); });
    SpanSink sink({output_of(exporter)}, nullptr, nullptr);
    sink.add(make_span());
    EXPECT_TRUE(sink.shutdown(plenty));
    EXPECT_EQ(sink.counts()[0].exported, 1u);
}

TEST(SpanSinkFaults, ThrowingNoticeReceiver_IsTolerated) {
    const auto exporter =
        std::make_shared<ScriptedExporter>([](const SpanBatch&) { return reject(1, "no"); });
    SpanSink sink({output_of(exporter)}, nullptr,
                  [](const Notice&) { throw std::runtime_error("listener"); });
    sink.add(make_span());
    EXPECT_TRUE(sink.shutdown(plenty));
    EXPECT_EQ(sink.counts()[0].failed, 1u);
}

TEST(SpanSinkFaults, ExporterWaitingForItself_IsRefused) {
    SpanSink* self = nullptr;
    std::atomic<int> refused = 0;
    const auto exporter = std::make_shared<ScriptedExporter>([&](const SpanBatch&) {
        if (!self->force_flush(plenty)) ++refused;
        return accept_all();
    });
    SpanSink sink({output_of(exporter)}, nullptr, nullptr);
    self = &sink;
    sink.add(make_span());
    EXPECT_TRUE(sink.force_flush(plenty));
    EXPECT_EQ(refused, 1);
}

TEST(SpanSinkFaults, D26_ForkedChild_DropsWithoutWaiting) {
    const auto exporter = std::make_shared<InMemorySpanExporter>();
    SpanSink sink({output_of(exporter)}, nullptr, nullptr);
    sink.add(make_span());
    EXPECT_TRUE(sink.force_flush(plenty));
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        int wrong = 0;
        sink.add(make_span());
        wrong += sink.force_flush(plenty) ? 2 : 0;
        wrong += sink.shutdown(plenty) ? 4 : 0;
        wrong += sink.counts()[0].dropped == 1 ? 0 : 8;
        sink.~SpanSink();
        _exit(wrong);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
    sink.add(make_span());
    EXPECT_TRUE(sink.shutdown(plenty));
    EXPECT_EQ(sink.counts()[0].exported, 2u);
    EXPECT_EQ(sink.counts()[0].dropped, 0u);
}

}  // namespace
}  // namespace cubepi
