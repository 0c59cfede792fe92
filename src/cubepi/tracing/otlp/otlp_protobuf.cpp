#include <cubepi/tracing/otlp/otlp_messages.hpp>

#include <algorithm>
#include <variant>

#include <cubepi/tracing/otlp/protobuf_writer.hpp>

namespace cubepi::detail {

namespace {

template <std::size_t size>
std::string_view view_of(const std::array<std::uint8_t, size>& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), size};
}

std::uint32_t flags_of(const SpanContext& context) { return context.sampled ? 1 : 0; }

// common.proto: AnyValue, ArrayValue, KeyValue
void write_value(ProtobufWriter& out, const AttributeValue& value) {
    if (const auto text = value.if_text()) {
        out.text(1, *text);
    } else if (const bool* truth = value.if_boolean()) {
        out.varint(2, *truth ? 1 : 0);
    } else if (const std::int64_t* integer = value.if_integer()) {
        out.varint(3, static_cast<std::uint64_t>(*integer));
    } else if (const double* number = value.if_number()) {
        out.number(4, *number);
    } else {
        const auto& list = *value.if_list();
        out.message(5, [&] {
            for (const SharedString& one : list) out.message(1, [&] { out.text(1, one); });
        });
    }
}

void write_attributes(ProtobufWriter& out, std::uint32_t field, const Attributes& attributes) {
    for (const Attribute& one : attributes) {
        out.message(field, [&] {
            out.text(1, one.key);
            out.message(2, [&] { write_value(out, one.value); });
        });
    }
}

// resource.proto: Resource
void write_resource(ProtobufWriter& out, const Resource& resource) {
    out.message(1, [&] { write_attributes(out, 1, resource.attributes); });
}

// common.proto: InstrumentationScope
void write_scope(ProtobufWriter& out) {
    out.message(1, [&] {
        out.text(1, scope_name);
        out.text(2, scope_version());
    });
}

// trace.proto: Span.Event
void write_event(ProtobufWriter& out, const SpanEvent& event) {
    out.fixed64(1, unix_nanoseconds(event.time));
    out.text(2, event.name);
    write_attributes(out, 3, event.attributes);
}

// trace.proto: Span.Link
void write_link(ProtobufWriter& out, const SpanLink& link) {
    out.bytes(1, view_of(link.context.trace_id.bytes));
    out.bytes(2, view_of(link.context.span_id.bytes));
    write_attributes(out, 4, link.attributes);
    out.fixed32(6, flags_of(link.context));
}

// trace.proto: Span
void write_span(ProtobufWriter& out, const SpanData& span) {
    out.bytes(1, view_of(span.context.trace_id.bytes));
    out.bytes(2, view_of(span.context.span_id.bytes));
    if (span.parent.valid()) out.bytes(4, view_of(span.parent.bytes));
    out.text(5, span.name);
    out.varint(6, otlp_kind(span.kind));
    out.fixed64(7, unix_nanoseconds(span.start));
    out.fixed64(8, unix_nanoseconds(span.end));
    write_attributes(out, 9, span.attributes);
    for (const SpanEvent& event : span.events) out.message(11, [&] { write_event(out, event); });
    for (const SpanLink& link : span.links) out.message(13, [&] { write_link(out, link); });
    if (span.status != SpanStatus::unset) {
        out.message(15, [&] {
            if (!span.status_description.empty()) out.text(2, span.status_description);
            out.varint(3, otlp_status(span.status));
        });
    }
    out.fixed32(16, flags_of(span.context));
}

/// The times of a NumberDataPoint and of a HistogramDataPoint.
void write_times(ProtobufWriter& out, const MetricSnapshot& metrics) {
    out.fixed64(2, unix_nanoseconds(metrics.start));
    out.fixed64(3, unix_nanoseconds(metrics.time));
}

// metrics.proto: HistogramDataPoint
void write_histogram_point(ProtobufWriter& out, const HistogramPoint& point,
                           const std::vector<double>& bounds, const MetricSnapshot& metrics) {
    write_times(out, metrics);
    out.fixed64(4, point.count);
    out.number(5, point.sum);
    out.packed_fixed64(6, point.buckets, [](std::uint64_t count) { return count; });
    out.packed_fixed64(7, bounds, [](double bound) { return std::bit_cast<std::uint64_t>(bound); });
    write_attributes(out, 9, point.attributes);
    if (point.count == 0) return;
    out.number(11, point.min);
    out.number(12, point.max);
}

// metrics.proto: Histogram, Sum
void write_data(ProtobufWriter& out, const HistogramData& data, const MetricSnapshot& metrics) {
    out.message(9, [&] {
        for (const HistogramPoint& point : data.points)
            out.message(1, [&] { write_histogram_point(out, point, data.bounds, metrics); });
        out.varint(2, otlp_cumulative);
    });
}

void write_data(ProtobufWriter& out, const CounterData& data, const MetricSnapshot& metrics) {
    out.message(7, [&] {
        for (const CounterPoint& point : data.points) {
            out.message(1, [&] {
                write_times(out, metrics);
                out.number(4, point.value);
                write_attributes(out, 7, point.attributes);
            });
        }
        out.varint(2, otlp_cumulative);
        out.varint(3, 1);  // monotonic
    });
}

// metrics.proto: Metric
void write_metric(ProtobufWriter& out, const MetricData& metric, const MetricSnapshot& metrics) {
    out.text(1, metric.name);
    out.text(2, metric.description);
    out.text(3, metric.unit);
    std::visit([&](const auto& data) { write_data(out, data, metrics); }, metric.data);
}

}  // namespace

std::string_view scope_version() noexcept { return CUBEPI_VERSION; }

std::uint32_t otlp_kind(SpanKind kind) noexcept {
    switch (kind) {
        case SpanKind::internal: return 1;
        case SpanKind::server: return 2;
        case SpanKind::client: return 3;
        case SpanKind::producer: return 4;
        case SpanKind::consumer: return 5;
    }
    return 0;
}

std::uint32_t otlp_status(SpanStatus status) noexcept {
    switch (status) {
        case SpanStatus::unset: return 0;
        case SpanStatus::ok: return 1;
        case SpanStatus::error: return 2;
    }
    return 0;
}

std::uint64_t unix_nanoseconds(std::chrono::system_clock::time_point time) noexcept {
    using std::chrono::nanoseconds;
    const auto count = std::chrono::duration_cast<nanoseconds>(time.time_since_epoch()).count();
    return static_cast<std::uint64_t>(std::max<nanoseconds::rep>(count, 0));
}

// trace_service.proto: ExportTraceServiceRequest; trace.proto: ResourceSpans, ScopeSpans
std::string traces_protobuf(SpanRange spans, const Resource& resource) {
    std::string body;
    ProtobufWriter out(body);
    out.message(1, [&] {
        write_resource(out, resource);
        out.message(2, [&] {
            write_scope(out);
            for (const auto& span : spans) out.message(2, [&] { write_span(out, *span); });
            out.text(3, resource.schema_url);
        });
        out.text(3, resource.schema_url);
    });
    return body;
}

// metrics_service.proto: ExportMetricsServiceRequest; metrics.proto: ResourceMetrics, ScopeMetrics
std::string metrics_protobuf(const MetricSnapshot& metrics, const Resource& resource) {
    std::string body;
    ProtobufWriter out(body);
    out.message(1, [&] {
        write_resource(out, resource);
        out.message(2, [&] {
            write_scope(out);
            for (const MetricData& metric : metrics.metrics)
                out.message(2, [&] { write_metric(out, metric, metrics); });
            out.text(3, resource.schema_url);
        });
        out.text(3, resource.schema_url);
    });
    return body;
}

}  // namespace cubepi::detail
