#include <cmath>
#include <utility>
#include <variant>

#include <cubepi/core/json.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/tracing/otlp/otlp_messages.hpp>

// Ids are hexadecimal, 64-bit integers are strings, enums are numbers.

namespace cubepi::detail {

namespace {

/// A string that is valid UTF-8.
Json text_json(std::string_view text) {
    if (is_utf8(text)) return Json(text);
    return Json(replace_broken_utf8(text));
}

Json number_json(double value) {
    if (std::isnan(value)) return Json("NaN");
    if (std::isinf(value)) return Json(value < 0 ? "-Infinity" : "Infinity");
    return Json(value);
}

template <class Integer>
Json integer_json(Integer value) {
    return Json(std::to_string(value));
}

Json time_json(std::chrono::system_clock::time_point time) {
    return integer_json(unix_nanoseconds(time));
}

JsonObject value_json(const AttributeValue& value) {
    JsonObject out;
    if (const auto text = value.if_text()) {
        out["stringValue"] = text_json(*text);
    } else if (const bool* truth = value.if_boolean()) {
        out["boolValue"] = *truth;
    } else if (const std::int64_t* integer = value.if_integer()) {
        out["intValue"] = integer_json(*integer);
    } else if (const double* number = value.if_number()) {
        out["doubleValue"] = number_json(*number);
    } else {
        JsonArray list;
        for (const SharedString& one : *value.if_list()) list.push_back(value_json(one));
        JsonObject array;
        array["values"] = std::move(list);
        out["arrayValue"] = std::move(array);
    }
    return out;
}

JsonArray attributes_json(const Attributes& attributes) {
    JsonArray out;
    for (const Attribute& one : attributes) {
        JsonObject entry;
        entry["key"] = text_json(one.key);
        entry["value"] = value_json(one.value);
        out.push_back(std::move(entry));
    }
    return out;
}

JsonArray events_json(const std::vector<SpanEvent>& events) {
    JsonArray out;
    for (const SpanEvent& event : events) {
        JsonObject entry;
        entry["timeUnixNano"] = time_json(event.time);
        entry["name"] = text_json(event.name);
        entry["attributes"] = attributes_json(event.attributes);
        out.push_back(std::move(entry));
    }
    return out;
}

JsonArray links_json(const std::vector<SpanLink>& links) {
    JsonArray out;
    for (const SpanLink& link : links) {
        JsonObject entry;
        entry["traceId"] = link.context.trace_id.hex();
        entry["spanId"] = link.context.span_id.hex();
        entry["attributes"] = attributes_json(link.attributes);
        entry["flags"] = link.context.sampled ? 1 : 0;
        out.push_back(std::move(entry));
    }
    return out;
}

JsonObject span_json(const SpanData& span) {
    JsonObject out;
    out["traceId"] = span.context.trace_id.hex();
    out["spanId"] = span.context.span_id.hex();
    if (span.parent.valid()) out["parentSpanId"] = span.parent.hex();
    out["name"] = text_json(span.name);
    out["kind"] = otlp_kind(span.kind);
    out["startTimeUnixNano"] = time_json(span.start);
    out["endTimeUnixNano"] = time_json(span.end);
    out["attributes"] = attributes_json(span.attributes);
    if (!span.events.empty()) out["events"] = events_json(span.events);
    if (!span.links.empty()) out["links"] = links_json(span.links);
    if (span.status != SpanStatus::unset) {
        JsonObject status;
        if (!span.status_description.empty())
            status["message"] = text_json(span.status_description);
        status["code"] = otlp_status(span.status);
        out["status"] = std::move(status);
    }
    out["flags"] = span.context.sampled ? 1 : 0;
    return out;
}

/// The part that the points of histograms and counters have in common.
JsonObject point_json(const Attributes& attributes, const MetricSnapshot& metrics) {
    JsonObject out;
    out["attributes"] = attributes_json(attributes);
    out["startTimeUnixNano"] = time_json(metrics.start);
    out["timeUnixNano"] = time_json(metrics.time);
    return out;
}

JsonObject histogram_point_json(const HistogramPoint& point, const std::vector<double>& bounds,
                                const MetricSnapshot& metrics) {
    JsonObject out = point_json(point.attributes, metrics);
    out["count"] = integer_json(point.count);
    out["sum"] = number_json(point.sum);
    JsonArray buckets;
    for (const std::uint64_t count : point.buckets) buckets.push_back(integer_json(count));
    out["bucketCounts"] = std::move(buckets);
    JsonArray limits;
    for (const double bound : bounds) limits.push_back(number_json(bound));
    out["explicitBounds"] = std::move(limits);
    if (point.count == 0) return out;
    out["min"] = number_json(point.min);
    out["max"] = number_json(point.max);
    return out;
}

void add_data(JsonObject& out, const HistogramData& data, const MetricSnapshot& metrics) {
    JsonArray points;
    for (const HistogramPoint& point : data.points)
        points.push_back(histogram_point_json(point, data.bounds, metrics));
    JsonObject histogram;
    histogram["dataPoints"] = std::move(points);
    histogram["aggregationTemporality"] = otlp_cumulative;
    out["histogram"] = std::move(histogram);
}

void add_data(JsonObject& out, const CounterData& data, const MetricSnapshot& metrics) {
    JsonArray points;
    for (const CounterPoint& point : data.points) {
        JsonObject entry = point_json(point.attributes, metrics);
        entry["asDouble"] = number_json(point.value);
        points.push_back(std::move(entry));
    }
    JsonObject sum;
    sum["dataPoints"] = std::move(points);
    sum["aggregationTemporality"] = otlp_cumulative;
    sum["isMonotonic"] = true;
    out["sum"] = std::move(sum);
}

JsonObject metric_json(const MetricData& metric, const MetricSnapshot& metrics) {
    JsonObject out;
    out["name"] = text_json(metric.name);
    out["description"] = text_json(metric.description);
    out["unit"] = text_json(metric.unit);
    std::visit([&](const auto& data) { add_data(out, data, metrics); }, metric.data);
    return out;
}

/// A request with one resource and one scope; `items` is their "spans" or "metrics".
std::string request_json(const char* resources, const char* scopes, const char* key,
                         JsonArray items, const Resource& resource) {
    JsonObject scope;
    scope["name"] = scope_name;
    scope["version"] = scope_version();
    JsonObject of_scope;
    of_scope["scope"] = std::move(scope);
    of_scope[key] = std::move(items);
    of_scope["schemaUrl"] = text_json(resource.schema_url);
    JsonObject attributes;
    attributes["attributes"] = attributes_json(resource.attributes);
    JsonObject of_resource;
    of_resource["resource"] = std::move(attributes);
    of_resource[scopes] = JsonArray{std::move(of_scope)};
    of_resource["schemaUrl"] = text_json(resource.schema_url);
    JsonObject request;
    request[resources] = JsonArray{std::move(of_resource)};
    return boost::json::serialize(request);
}

}  // namespace

std::string traces_json(SpanRange spans, const Resource& resource) {
    JsonArray items;
    for (const auto& span : spans) items.push_back(span_json(*span));
    return request_json("resourceSpans", "scopeSpans", "spans", std::move(items), resource);
}

std::string metrics_json(const MetricSnapshot& metrics, const Resource& resource) {
    JsonArray items;
    for (const MetricData& metric : metrics.metrics) items.push_back(metric_json(metric, metrics));
    return request_json("resourceMetrics", "scopeMetrics", "metrics", std::move(items), resource);
}

}  // namespace cubepi::detail
