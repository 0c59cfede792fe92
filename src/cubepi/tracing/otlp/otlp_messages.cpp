#include <cubepi/tracing/otlp/otlp_messages.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>
#include <variant>

#include <cubepi/core/json.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/version.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi::detail {

namespace {

/// A field of a message: its number in protobuf, its key in JSON.
struct Field {
    std::uint32_t number;
    const char* name;
};

template <std::size_t size>
std::string_view view_of(const std::array<std::uint8_t, size>& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), size};
}

/// Writes the fields of messages in protobuf.
class ProtobufMessage {
public:
    explicit ProtobufMessage(ProtobufWriter& out) : out_(out) {}

    void text(Field field, std::string_view value) { out_.text(field.number, value); }
    template <class Id>
    void id(Field field, const Id& value) {
        out_.bytes(field.number, view_of(value.bytes));
    }
    void boolean(Field field, bool value) { out_.varint(field.number, value ? 1 : 0); }
    void enumerator(Field field, std::uint32_t value) { out_.varint(field.number, value); }
    void integer(Field field, std::int64_t value) {
        out_.varint(field.number, static_cast<std::uint64_t>(value));
    }
    void flags(Field field, const SpanContext& context) {
        out_.fixed32(field.number, context.sampled ? 1 : 0);
    }
    void count(Field field, std::uint64_t value) { out_.fixed64(field.number, value); }
    void number(Field field, double value) { out_.number(field.number, value); }
    void list(Field field, const std::vector<std::uint64_t>& values) {
        out_.packed_fixed64(field.number, values, [](std::uint64_t value) { return value; });
    }
    void list(Field field, const std::vector<double>& values) {
        out_.packed_fixed64(field.number, values,
                            [](double value) { return std::bit_cast<std::uint64_t>(value); });
    }
    template <class Write>
    void message(Field field, Write write) {
        out_.message(field.number, [&] { write(*this); });
    }
    template <class List, class Write>
    void list(Field field, const List& items, Write write) {
        for (const auto& item : items) out_.message(field.number, [&] { write(*this, item); });
    }

private:
    ProtobufWriter& out_;
};

/// Writes the same in JSON, where ids are hexadecimal, 64-bit integers are strings, and enums are numbers.
class JsonMessage {
public:
    explicit JsonMessage(JsonObject& out) : out_(out) {}

    void text(Field field, std::string_view value) {
        // A string must be valid UTF-8.
        out_[field.name] = is_utf8(value) ? Json(value) : Json(replace_broken_utf8(value));
    }
    template <class Id>
    void id(Field field, const Id& value) {
        out_[field.name] = value.hex();
    }
    void boolean(Field field, bool value) { out_[field.name] = value; }
    void enumerator(Field field, std::uint32_t value) { out_[field.name] = value; }
    void integer(Field field, std::int64_t value) { out_[field.name] = std::to_string(value); }
    void flags(Field field, const SpanContext& context) {
        out_[field.name] = context.sampled ? 1 : 0;
    }
    void count(Field field, std::uint64_t value) { out_[field.name] = std::to_string(value); }
    void number(Field field, double value) { out_[field.name] = number_json(value); }
    void list(Field field, const std::vector<std::uint64_t>& values) {
        JsonArray& list = out_[field.name].emplace_array();
        for (const std::uint64_t value : values) list.emplace_back(std::to_string(value));
    }
    void list(Field field, const std::vector<double>& values) {
        JsonArray& list = out_[field.name].emplace_array();
        for (const double value : values) list.push_back(number_json(value));
    }
    template <class Write>
    void message(Field field, Write write) {
        JsonMessage inner(out_[field.name].emplace_object());
        write(inner);
    }
    template <class List, class Write>
    void list(Field field, const List& items, Write write) {
        JsonArray& list = out_[field.name].emplace_array();
        list.reserve(std::size(items));
        for (const auto& item : items) {
            JsonMessage inner(list.emplace_back(JsonObject()).get_object());
            write(inner, item);
        }
    }

private:
    static Json number_json(double value) {
        if (std::isnan(value)) return Json("NaN");
        if (std::isinf(value)) return Json(value < 0 ? "-Infinity" : "Infinity");
        return Json(value);
    }

    JsonObject& out_;
};

// common.proto: AnyValue, ArrayValue, KeyValue
template <class Out>
void write_value(Out& out, const AttributeValue& value) {
    if (const auto text = value.if_text()) {
        out.text({1, "stringValue"}, *text);
    } else if (const bool* truth = value.if_boolean()) {
        out.boolean({2, "boolValue"}, *truth);
    } else if (const std::int64_t* integer = value.if_integer()) {
        out.integer({3, "intValue"}, *integer);
    } else if (const double* number = value.if_number()) {
        out.number({4, "doubleValue"}, *number);
    } else {
        out.message({5, "arrayValue"}, [&](Out& array) {
            array.list({1, "values"}, *value.if_list(), [](Out& one, const SharedString& item) {
                one.text({1, "stringValue"}, item);
            });
        });
    }
}

template <class Out>
void write_attributes(Out& out, std::uint32_t field, const Attributes& attributes) {
    out.list({field, "attributes"}, attributes, [](Out& entry, const Attribute& one) {
        entry.text({1, "key"}, one.key);
        entry.message({2, "value"}, [&](Out& value) { write_value(value, one.value); });
    });
}

template <class Out>
void write_time(Out& out, Field field, std::chrono::system_clock::time_point time) {
    out.count(field, unix_nanoseconds(time));
}

// trace.proto: Span.Event
template <class Out>
void write_event(Out& out, const SpanEvent& event) {
    write_time(out, {1, "timeUnixNano"}, event.time);
    out.text({2, "name"}, event.name);
    write_attributes(out, 3, event.attributes);
}

// trace.proto: Span.Link
template <class Out>
void write_link(Out& out, const SpanLink& link) {
    out.id({1, "traceId"}, link.context.trace_id);
    out.id({2, "spanId"}, link.context.span_id);
    write_attributes(out, 4, link.attributes);
    out.flags({6, "flags"}, link.context);
}

// trace.proto: Span
template <class Out>
void write_span(Out& out, const SpanData& span) {
    out.id({1, "traceId"}, span.context.trace_id);
    out.id({2, "spanId"}, span.context.span_id);
    if (span.parent.valid()) out.id({4, "parentSpanId"}, span.parent);
    out.text({5, "name"}, span.name);
    out.enumerator({6, "kind"}, otlp_kind(span.kind));
    write_time(out, {7, "startTimeUnixNano"}, span.start);
    write_time(out, {8, "endTimeUnixNano"}, span.end);
    write_attributes(out, 9, span.attributes);
    if (!span.events.empty()) out.list({11, "events"}, span.events, write_event<Out>);
    if (!span.links.empty()) out.list({13, "links"}, span.links, write_link<Out>);
    if (span.status != SpanStatus::unset) {
        out.message({15, "status"}, [&](Out& status) {
            if (!span.status_description.empty())
                status.text({2, "message"}, span.status_description);
            status.enumerator({3, "code"}, otlp_status(span.status));
        });
    }
    out.flags({16, "flags"}, span.context);
}

/// The times of a NumberDataPoint and of a HistogramDataPoint.
template <class Out>
void write_times(Out& out, const MetricSnapshot& metrics) {
    write_time(out, {2, "startTimeUnixNano"}, metrics.start);
    write_time(out, {3, "timeUnixNano"}, metrics.time);
}

// metrics.proto: Histogram, HistogramDataPoint
template <class Out>
void write_data(Out& out, const HistogramData& data, const MetricSnapshot& metrics) {
    out.message({9, "histogram"}, [&](Out& histogram) {
        histogram.list({1, "dataPoints"}, data.points, [&](Out& to, const HistogramPoint& point) {
            write_times(to, metrics);
            to.count({4, "count"}, point.count);
            to.number({5, "sum"}, point.sum);
            to.list({6, "bucketCounts"}, point.buckets);
            to.list({7, "explicitBounds"}, data.bounds);
            write_attributes(to, 9, point.attributes);
            if (point.count == 0) return;
            to.number({11, "min"}, point.min);
            to.number({12, "max"}, point.max);
        });
        histogram.enumerator({2, "aggregationTemporality"}, otlp_cumulative);
    });
}

// metrics.proto: Sum, NumberDataPoint
template <class Out>
void write_data(Out& out, const CounterData& data, const MetricSnapshot& metrics) {
    out.message({7, "sum"}, [&](Out& sum) {
        sum.list({1, "dataPoints"}, data.points, [&](Out& to, const CounterPoint& point) {
            write_times(to, metrics);
            to.number({4, "asDouble"}, point.value);
            write_attributes(to, 7, point.attributes);
        });
        sum.enumerator({2, "aggregationTemporality"}, otlp_cumulative);
        sum.boolean({3, "isMonotonic"}, true);
    });
}

/// Writes a request with one resource and one scope. `items` is the field of its spans or metrics.
template <class Out, class List, class Write>
void write_request(Out& out, const char* resources, const char* scopes, const char* items,
                   const Resource& resource, const List& list, Write write) {
    const std::array<const Resource*, 1> one = {&resource};
    out.list({1, resources}, one, [&](Out& of_resource, const Resource*) {
        of_resource.message({1, "resource"},
                            [&](Out& to) { write_attributes(to, 1, resource.attributes); });
        of_resource.list({2, scopes}, one, [&](Out& of_scope, const Resource*) {
            of_scope.message({1, "scope"}, [](Out& scope) {
                scope.text({1, "name"}, scope_name);
                scope.text({2, "version"}, version());
            });
            of_scope.list({2, items}, list, write);
            of_scope.text({3, "schemaUrl"}, resource.schema_url);
        });
        of_resource.text({3, "schemaUrl"}, resource.schema_url);
    });
}

// trace_service.proto: ExportTraceServiceRequest; trace.proto: ResourceSpans, ScopeSpans
template <class Out>
void write_traces(Out& out, SpanRange spans, const Resource& resource) {
    write_request(out, "resourceSpans", "scopeSpans", "spans", resource, spans,
                  [](Out& to, const auto& span) { write_span(to, *span); });
}

// metrics_service.proto: ExportMetricsServiceRequest; metrics.proto: ResourceMetrics, ScopeMetrics, Metric
template <class Out>
void write_metrics(Out& out, const MetricSnapshot& metrics, const Resource& resource) {
    write_request(out, "resourceMetrics", "scopeMetrics", "metrics", resource, metrics.metrics,
                  [&](Out& to, const MetricData& metric) {
                      to.text({1, "name"}, metric.name);
                      to.text({2, "description"}, metric.description);
                      to.text({3, "unit"}, metric.unit);
                      std::visit([&](const auto& data) { write_data(to, data, metrics); },
                                 metric.data);
                  });
}

/// Returns the message that `write` writes.
template <class Write>
std::string protobuf_of(Write write) {
    std::string body;
    ProtobufWriter writer(body);
    ProtobufMessage out(writer);
    write(out);
    return body;
}
template <class Write>
std::string json_of(Write write) {
    JsonObject object;
    JsonMessage out(object);
    write(out);
    return json_text(object);
}

}  // namespace

std::string traces_protobuf(SpanRange spans, const Resource& resource) {
    return protobuf_of([&](ProtobufMessage& out) { write_traces(out, spans, resource); });
}

std::string traces_json(SpanRange spans, const Resource& resource) {
    return json_of([&](JsonMessage& out) { write_traces(out, spans, resource); });
}

std::string metrics_protobuf(const MetricSnapshot& metrics, const Resource& resource) {
    return protobuf_of([&](ProtobufMessage& out) { write_metrics(out, metrics, resource); });
}

std::string metrics_json(const MetricSnapshot& metrics, const Resource& resource) {
    return json_of([&](JsonMessage& out) { write_metrics(out, metrics, resource); });
}

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

namespace {

/// Reads the fields of a protobuf message, skipping those that are not asked for.
class ProtobufReader {
public:
    explicit ProtobufReader(std::string_view bytes) : rest_(bytes) {}

    /// Moves to the next field. Returns false at the end, and if the bytes are not a message.
    bool next() {
        bytes_ = {};
        varint_ = 0;
        const std::optional<std::uint64_t> tag = read_varint();
        if (!tag) return false;
        field_ = *tag >> 3U;
        switch (*tag & 7U) {
            case 0: return store(read_varint());
            case 1: return skip(8);
            case 2: return read_bytes();
            case 5: return skip(4);
            default: return false;
        }
    }
    std::uint64_t field() const { return field_; }
    std::uint64_t varint() const { return varint_; }
    std::string_view bytes() const { return bytes_; }

private:
    std::optional<std::uint64_t> read_varint() {
        std::uint64_t value = 0;
        for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
            const auto byte = static_cast<unsigned char>(rest_.front());
            rest_.remove_prefix(1);
            value |= std::uint64_t{byte & 0x7fU} << shift;
            if (byte < 0x80) return value;
        }
        return std::nullopt;
    }
    bool store(std::optional<std::uint64_t> value) {
        varint_ = value.value_or(0);
        return value.has_value();
    }
    bool skip(std::size_t size) {
        if (rest_.size() < size) return false;
        rest_.remove_prefix(size);
        return true;
    }
    bool read_bytes() {
        const std::optional<std::uint64_t> size = read_varint();
        if (!size || *size > rest_.size()) return false;
        bytes_ = rest_.substr(0, *size);
        return skip(*size);
    }

    std::string_view rest_;
    std::string_view bytes_;
    std::uint64_t field_ = 0;
    std::uint64_t varint_ = 0;
};

bool is_json_content(std::string_view content_type) {
    return content_type.find("json") != std::string_view::npos;
}

std::optional<JsonObject> parse_object(std::string_view body) {
    boost::system::error_code error;
    Json json = boost::json::parse(body, error);
    if (error || !json.is_object()) return std::nullopt;
    return std::move(json.as_object());
}

/// A 64-bit integer, which is a string in protobuf's JSON, but a number in that of some collectors.
std::uint64_t count_member(const JsonObject& object, std::string_view key) {
    const Json* value = object.if_contains(key);
    if (value == nullptr) return 0;
    std::uint64_t count = 0;
    if (value->is_int64())
        return static_cast<std::uint64_t>(std::max<std::int64_t>(value->as_int64(), 0));
    if (value->is_uint64()) return value->as_uint64();
    if (!value->is_string()) return 0;
    const std::string_view text = value->as_string();
    std::from_chars(text.data(), text.data() + text.size(), count);
    return count;
}

PartialSuccess read_partial_json(std::string_view body) {
    PartialSuccess partial;
    const std::optional<JsonObject> response = parse_object(body);
    const Json* part = response ? response->if_contains("partialSuccess") : nullptr;
    if (part == nullptr || !part->is_object()) return partial;
    const JsonObject& object = part->as_object();
    partial.rejected =
        std::max(count_member(object, "rejectedSpans"), count_member(object, "rejectedDataPoints"));
    partial.message = text_member(object, "errorMessage");
    return partial;
}

void replace_all(std::string& text, std::string_view what) {
    // Shorter values are not secrets, and would replace parts of words.
    if (what.size() < 4) return;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 3))
        text.replace(at, what.size(), "***");
}

}  // namespace

PartialSuccess read_partial_success(std::string_view body, std::string_view content_type) {
    if (is_json_content(content_type)) return read_partial_json(body);
    PartialSuccess partial;
    for (ProtobufReader response(body); response.next();) {
        if (response.field() != 1) continue;
        for (ProtobufReader part(response.bytes()); part.next();) {
            if (part.field() == 1) partial.rejected = part.varint();
            if (part.field() == 2) partial.message = std::string(part.bytes());
        }
    }
    return partial;
}

bool is_html(std::string_view body, std::string_view content_type) {
    if (content_type.find("html") != std::string_view::npos) return true;
    const std::size_t first = body.find_first_not_of(" \t\r\n");
    return first != std::string_view::npos && body[first] == '<';
}

std::string read_error_message(std::string_view body, std::string_view content_type) {
    if (is_html(body, content_type)) return "an HTML page; check the URL of the collector";
    if (is_json_content(content_type)) {
        const std::optional<JsonObject> status = parse_object(body);
        return status ? text_member(*status, "message") : std::string();
    }
    if (content_type.find("protobuf") == std::string_view::npos) return std::string(body);
    std::string message;
    for (ProtobufReader status(body); status.next();) {
        if (status.field() == 2) message = std::string(status.bytes());
    }
    return message;
}

std::string safe_server_text(std::string text, const std::vector<HttpHeader>& headers) {
    for (const HttpHeader& header : headers) {
        replace_all(text, header.value);
        // The token without "Bearer".
        replace_all(text, std::string_view(header.value).substr(header.value.find(' ') + 1));
    }
    constexpr std::size_t longest = 300;
    if (text.size() > longest) {
        text.resize(longest);
        text.resize(complete_utf8_prefix(text));
    }
    text = replace_broken_utf8(text);
    for (char& c : text) {
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
    }
    return text;
}

}  // namespace cubepi::detail
