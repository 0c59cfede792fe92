#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <cubepi/tracing/span.hpp>

// Metrics in the data model of OpenTelemetry (https://opentelemetry.io/docs/specs/otel/metrics/data-model/).

namespace cubepi {

/// The values of a histogram for one set of attributes, since the start of the meter.
struct HistogramPoint {
    Attributes attributes = {};
    std::uint64_t count = 0;
    double sum = 0;
    double min = 0;
    double max = 0;
    std::vector<std::uint64_t> buckets = {};  ///< one more than the bounds
};

/// The value of a counter for one set of attributes, since the start of the meter.
struct CounterPoint {
    Attributes attributes = {};
    double value = 0;
};

struct HistogramData {
    std::vector<double> bounds = {};  ///< upper bounds, inclusive, ascending
    std::vector<HistogramPoint> points = {};
};
struct CounterData {
    std::vector<CounterPoint> points = {};
};

/// One instrument and its values.
struct MetricData {
    std::string name = {};
    std::string description = {};
    std::string unit = {};
    std::variant<HistogramData, CounterData> data = {};
};

/// The values of all instruments at one time.
struct MetricSnapshot {
    std::chrono::system_clock::time_point start = {};
    std::chrono::system_clock::time_point time = {};
    std::vector<MetricData> metrics = {};

    /// Returns the number of points of all instruments.
    std::size_t point_count() const noexcept {
        std::size_t count = 0;
        for (const MetricData& metric : metrics)
            count += std::visit([](const auto& data) { return data.points.size(); }, metric.data);
        return count;
    }
};

/// Returns metrics in the text format of Prometheus, version 0.0.4 (content type `text/plain; version=0.0.4; charset=utf-8`), for the
/// answer to a scrape. Names follow the rules of OpenTelemetry
/// (https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/): `gen_ai.client.operation.duration` in
/// seconds becomes `gen_ai_client_operation_duration_seconds`, and counters end with `_total`.
std::string prometheus_text(const MetricSnapshot& metrics);

/// The same, with the attributes of the resource as the metric `target_info`.
std::string prometheus_text(const MetricSnapshot& metrics, const Resource& resource);

}  // namespace cubepi
