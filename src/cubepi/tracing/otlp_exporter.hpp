#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/net/retry.hpp>
#include <cubepi/tracing/exporter.hpp>

// OTLP over HTTP: https://opentelemetry.io/docs/specs/otlp/#otlphttp. gRPC is not supported: every collector that accepts it also
// accepts HTTP.

namespace cubepi {

enum class OTLPProtocol : std::uint8_t { http_protobuf, http_json };

/// How a collector is reached.
struct OTLPOptions {
    /// The complete URL, for example "https://collector.example/v1/traces". Empty: `http://localhost:4318/v1/traces`, or
    /// `/v1/metrics`. See otlp_traces_url().
    std::string url = {};
    /// Sent with each request, for example an API key. Values never appear in errors.
    std::vector<HttpHeader> headers = {};
    OTLPProtocol protocol = OTLPProtocol::http_protobuf;
    bool gzip = false;
    /// The limit of one request; zero: none. All attempts together are limited by ExportLimits::export_timeout.
    std::chrono::milliseconds timeout{10000};
    /// Retries after 429, 502, 503, 504 and failed connections. Other failures are not retried.
    RetryPolicy retry = default_retry();
    /// A PEM file with certificate authorities to trust in addition to the system's. Ignored if the runtime has a transport.
    std::string ca_file = {};
    /// A larger batch is divided into several requests (before compression; one large span is not divided).
    std::size_t request_bytes = std::size_t{4} << 20U;
    /// Null: Runtime::standard().
    std::shared_ptr<const Runtime> runtime = {};

    /// Five retries, after 1 s, 2 s, 4 s, ..., or after what the server requests, up to 20 s.
    static RetryPolicy default_retry();
};

/// Appends "/v1/traces" or "/v1/metrics" to the path of a collector's base URL: "http://localhost:4318".
std::string otlp_traces_url(std::string_view base);
std::string otlp_metrics_url(std::string_view base);

/// Sends spans to a collector. Nothing happens before the first export.
class OTLPSpanExporter final : public SpanExporter {
public:
    explicit OTLPSpanExporter(OTLPOptions options = {});
    ~OTLPSpanExporter() override;
    Task<ExportResult> export_spans(SpanBatch batch,
                                    std::shared_ptr<const Resource> resource) override;
    std::string name() const override { return "otlp"; }
    std::string retry_reason() const override;

private:
    struct State;
    std::unique_ptr<State> state_;
};

/// Sends metrics to a collector.
class OTLPMetricExporter final : public MetricExporter {
public:
    explicit OTLPMetricExporter(OTLPOptions options = {});
    ~OTLPMetricExporter() override;
    Task<ExportResult> export_metrics(std::shared_ptr<const MetricSnapshot> metrics,
                                      std::shared_ptr<const Resource> resource) override;
    std::string name() const override { return "otlp"; }
    std::string retry_reason() const override;

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace cubepi
