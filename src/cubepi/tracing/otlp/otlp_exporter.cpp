#include <cubepi/tracing/otlp_exporter.hpp>

#include <utility>

#include <cubepi/tracing/otlp/otlp_messages.hpp>
#include <cubepi/tracing/otlp/otlp_sender.hpp>

namespace cubepi {

namespace {

constexpr const char* traces_path = "/v1/traces";
constexpr const char* metrics_path = "/v1/metrics";

std::string with_path(std::string_view base, const char* path) {
    const std::size_t end = base.find_first_of("?#");
    const std::string_view after = end == std::string_view::npos ? "" : base.substr(end);
    base = base.substr(0, end);
    while (base.ends_with('/')) base.remove_suffix(1);
    return std::string(base) + path + std::string(after);
}

void add_result(ExportResult& sum, ExportResult one) {
    sum.rejected += one.rejected;
    if (sum.error.empty()) sum.error = std::move(one.error);
}

}  // namespace

RetryPolicy OtlpOptions::default_retry() {
    RetryPolicy policy;
    policy.max_retries = 5;
    policy.base_delay = std::chrono::seconds(1);
    policy.max_delay = std::chrono::seconds(8);
    policy.max_server_delay = std::chrono::seconds(20);
    return policy;
}

std::string otlp_traces_url(std::string_view base) { return with_path(base, traces_path); }
std::string otlp_metrics_url(std::string_view base) { return with_path(base, metrics_path); }

struct OtlpSpanExporter::State {
    explicit State(OtlpOptions options) : sender(std::move(options), traces_path) {}
    detail::OtlpSender sender;
};

OtlpSpanExporter::OtlpSpanExporter(OtlpOptions options)
    : state_(std::make_unique<State>(std::move(options))) {}

OtlpSpanExporter::~OtlpSpanExporter() = default;

std::string OtlpSpanExporter::retry_reason() const { return state_->sender.retry_reason(); }

Task<ExportResult> OtlpSpanExporter::export_spans(SpanBatch batch,
                                                  std::shared_ptr<const Resource> resource) {
    const OtlpOptions& options = state_->sender.options();
    ExportResult result;
    for (std::size_t start = 0; start < batch.size();) {
        std::size_t bytes = 0;
        std::size_t end = start;
        do {
            bytes += batch[end++]->memory();
        } while (end < batch.size() && bytes + batch[end]->memory() <= options.request_bytes);
        const detail::SpanRange spans = detail::SpanRange(batch).subspan(start, end - start);
        std::string body = options.protocol == OtlpProtocol::http_json
                               ? detail::traces_json(spans, *resource)
                               : detail::traces_protobuf(spans, *resource);
        add_result(result, co_await state_->sender.send(std::move(body), end - start));
        start = end;
    }
    co_return result;
}

struct OtlpMetricExporter::State {
    explicit State(OtlpOptions options) : sender(std::move(options), metrics_path) {}
    detail::OtlpSender sender;
};

OtlpMetricExporter::OtlpMetricExporter(OtlpOptions options)
    : state_(std::make_unique<State>(std::move(options))) {}

OtlpMetricExporter::~OtlpMetricExporter() = default;

std::string OtlpMetricExporter::retry_reason() const { return state_->sender.retry_reason(); }

Task<ExportResult> OtlpMetricExporter::export_metrics(std::shared_ptr<const MetricSnapshot> metrics,
                                                      std::shared_ptr<const Resource> resource) {
    std::string body = state_->sender.options().protocol == OtlpProtocol::http_json
                           ? detail::metrics_json(*metrics, *resource)
                           : detail::metrics_protobuf(*metrics, *resource);
    co_return co_await state_->sender.send(std::move(body), metrics->point_count());
}

}  // namespace cubepi
