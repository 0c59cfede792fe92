// SpanSink::blank_span(): which spans are used again.

#include <cubepi/tracing/span_sink.hpp>

#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include <cubepi/tracing/export/export_test_support.hpp>
#include <cubepi/tracing/memory_exporters.hpp>

namespace cubepi {
namespace {

/// An exporter that keeps no span.
std::shared_ptr<SpanExporter> discarding() {
    return std::make_shared<ScriptedExporter>([](SpanBatch) { return accept_all(); });
}

/// Fills a blank span, adds it, and returns its address.
const SpanData* add_blank(SpanSink& sink) {
    std::shared_ptr<SpanData> span = sink.blank_span();
    span->name = "span";
    span->context.trace_id = TraceId::random();
    span->context.span_id = span->parent = SpanId::random();
    span->kind = SpanKind::client;
    span->start = span->end = std::chrono::system_clock::now();
    span->status = SpanStatus::error;
    span->status_description = "why";
    span->attributes.add("key", SharedString("value"));
    span->events.emplace_back();
    span->links.emplace_back();
    const SpanData* address = span.get();
    sink.add(std::move(span));
    return address;
}

TEST(SpanReuse, ABlankSpanIsAnExportedOneWithoutItsValues) {
    SpanSink sink({output_of(discarding())}, nullptr, nullptr);
    const SpanData* first = add_blank(sink);
    EXPECT_TRUE(sink.force_flush(plenty));
    const std::shared_ptr<SpanData> span = sink.blank_span();
    EXPECT_EQ(span.get(), first);
    EXPECT_TRUE(span->name.empty());
    EXPECT_FALSE(span->context.valid() || span->parent.valid());
    EXPECT_EQ(span->kind, SpanKind::internal);
    EXPECT_EQ(span->start, std::chrono::system_clock::time_point());
    EXPECT_EQ(span->end, span->start);
    EXPECT_EQ(span->status, SpanStatus::unset);
    EXPECT_TRUE(span->status_description.empty());
    EXPECT_TRUE(span->attributes.empty());
    EXPECT_TRUE(span->events.empty() && span->links.empty());
    EXPECT_NE(sink.blank_span(), span) << "it is in use";
}

TEST(SpanReuse, ABlankSpanIsNotOneThatTheExporterKeeps) {
    const auto exporter = std::make_shared<InMemorySpanExporter>();
    SpanSink sink({output_of(discarding()), output_of(exporter)}, nullptr, nullptr);
    const SpanData* first = add_blank(sink);
    EXPECT_TRUE(sink.force_flush(plenty));
    EXPECT_NE(sink.blank_span().get(), first);
    EXPECT_EQ(exporter->spans().front()->status_description, "why");
}

TEST(SpanReuse, ABlankSpanIsNotOneThatIsUsedElsewhere) {
    SpanSink sink({output_of(discarding())}, nullptr, nullptr);
    const std::shared_ptr<SpanData> used = sink.blank_span();
    used->name = "used";
    sink.add(used);
    EXPECT_TRUE(sink.force_flush(plenty));
    EXPECT_NE(sink.blank_span(), used);
    EXPECT_EQ(used->name, "used");
}

TEST(SpanReuse, ABlankSpanIsNotOneThatTheCallerHasMade) {
    SpanSink sink({output_of(discarding())}, nullptr, nullptr);
    bool destroyed = false;
    const auto destroy = [&destroyed](const SpanData* span) {
        destroyed = true;
        delete span;
    };
    sink.add(std::shared_ptr<const SpanData>(new SpanData, destroy));
    EXPECT_TRUE(sink.force_flush(plenty));
    EXPECT_FALSE(destroyed) << "by the thread that adds spans, not by the export thread";
    const auto blank = sink.blank_span();
    EXPECT_TRUE(destroyed);
}

TEST(SpanReuse, ADroppedSpanIsReused) {
    SpanSink::Output output = output_of(discarding());
    output.limits.queue_bytes = 0;
    SpanSink sink({output}, nullptr, nullptr);
    const SpanData* first = add_blank(sink);
    EXPECT_EQ(sink.counts()[0].dropped, 1u);
    EXPECT_EQ(sink.blank_span().get(), first);
}

}  // namespace
}  // namespace cubepi
