#pragma once

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <cubepi/tracing/exporter.hpp>

// Spans and metrics with every kind of field, for the tests of OTLP.

namespace cubepi::otlp_test {

inline Resource sample_resource() {
    Resource resource;
    resource.attributes.set("service.name", "weather");
    resource.attributes.set("service.instance.id", "1");
    return resource;
}

inline std::chrono::system_clock::time_point sample_time() {
    return std::chrono::system_clock::time_point(std::chrono::nanoseconds(1795303700150049123));
}

inline SpanContext sample_context() {
    return *SpanContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
}

inline std::shared_ptr<SpanData> sample_span() {
    auto span = std::make_shared<SpanData>();
    span->name = "chat ü";
    span->context = sample_context();
    span->parent.bytes = {1, 2, 3, 4, 5, 6, 7, 8};
    span->kind = SpanKind::client;
    span->start = sample_time();
    span->end = sample_time() + std::chrono::nanoseconds(1000000007);
    span->status = SpanStatus::error;
    span->status_description = "model error";
    span->attributes.set("text", std::string(300, 'x'));
    span->attributes.set("yes", true);
    span->attributes.set("no", false);
    span->attributes.set("count", std::int64_t{-38});
    span->attributes.set("big", std::numeric_limits<std::int64_t>::max());
    span->attributes.set("time", 0.25);
    span->attributes.set("list", std::vector<SharedString>{"a", ""});
    span->attributes.set("empty", "");
    span->attributes.set("none", std::vector<SharedString>{});
    SpanEvent event;
    event.name = "gen_ai.client.operation.exception";
    event.time = span->end;
    event.attributes.set("exception.type", "RateLimited");
    span->events = {event, SpanEvent()};
    SpanLink link;
    link.context = sample_context();
    link.context.sampled = false;
    link.attributes.set("reason", "suspended");
    span->links = {link};
    return span;
}

/// A root without anything that may be absent.
inline std::shared_ptr<SpanData> plain_span() {
    auto span = std::make_shared<SpanData>();
    span->name = "invoke_agent";
    span->context = sample_context();
    span->start = sample_time();
    span->end = sample_time();
    return span;
}

inline MetricSnapshot sample_metrics() {
    MetricSnapshot metrics;
    metrics.start = sample_time();
    metrics.time = sample_time() + std::chrono::minutes(1);
    HistogramPoint point;
    point.attributes.set("gen_ai.operation.name", "chat");
    point.count = 3;
    point.sum = 4.5;
    point.min = 0.5;
    point.max = 3;
    point.buckets = {1, 0, 2};
    HistogramData histogram;
    histogram.bounds = {0.5, 1};
    histogram.points = {point};
    MetricData duration;
    duration.name = "gen_ai.client.operation.duration";
    duration.description = "Duration of an operation";
    duration.unit = "s";
    duration.data = histogram;
    CounterPoint count;
    count.attributes.set("otel.metric.overflow", true);
    count.value = 7;
    CounterData counter;
    counter.points = {count};
    MetricData calls;
    calls.name = "cubepi.calls";
    calls.unit = "{call}";
    calls.data = counter;
    metrics.metrics = {duration, calls};
    return metrics;
}

}  // namespace cubepi::otlp_test
