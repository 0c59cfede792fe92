#pragma once

#include <string>

#include <cubepi/tracing/metric_data.hpp>

namespace cubepi {

/// Returns metrics in the text format of Prometheus, version 0.0.4 (content type `text/plain; version=0.0.4; charset=utf-8`), for the
/// answer to a scrape. Names follow the rules of OpenTelemetry
/// (https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/): `gen_ai.client.operation.duration` in
/// seconds becomes `gen_ai_client_operation_duration_seconds`, and counters end with `_total`.
std::string prometheus_text(const MetricSnapshot& metrics);

/// The same, with the attributes of the resource as the metric `target_info`.
std::string prometheus_text(const MetricSnapshot& metrics, const Resource& resource);

}  // namespace cubepi
