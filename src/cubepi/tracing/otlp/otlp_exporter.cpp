#include <cubepi/tracing/otlp_exporter.hpp>

#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/random_word.hpp>
#include <cubepi/core/version.hpp>
#include <cubepi/net/http_client.hpp>
#include <cubepi/tracing/otlp/otlp_messages.hpp>

namespace cubepi {

namespace {

struct Deflater {
    Deflater() {
        constexpr int gzip_header = 16;
        if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + gzip_header, 8,
                         Z_DEFAULT_STRATEGY) != Z_OK) {
            throw std::bad_alloc();
        }
    }
    ~Deflater() { deflateEnd(&stream); }
    Deflater(const Deflater&) = delete;
    Deflater& operator=(const Deflater&) = delete;

    z_stream stream{};
};

std::shared_ptr<HttpTransport> make_transport(const OTLPOptions& options, const Runtime& runtime) {
    if (runtime.transport || options.ca_file.empty()) return transport_of(runtime);
    HttpClientOptions client;
    client.clock = runtime.clock;
    client.resolvers = runtime.resolvers;
    client.ca_file = options.ca_file;
    return std::make_shared<HttpClient>(std::move(client));
}

OTLPOptions complete(OTLPOptions options, const char* path) {
    if (options.url.empty()) options.url = std::string("http://localhost:4318") + path;
    if (!options.runtime) options.runtime = Runtime::standard();
    return options;
}

/// "host:port" of a URL.
std::string server_of(const std::string& url) {
    const std::size_t scheme = url.find("://");
    const std::size_t start = scheme == std::string::npos ? 0 : scheme + 3;
    const std::string authority = url.substr(start, url.find_first_of("/?#", start) - start);
    // npos + 1 is 0.
    return authority.substr(authority.rfind('@') + 1);
}

/// https://opentelemetry.io/docs/specs/otlp/#retryable-response-codes
bool is_retryable(int status) {
    return status == 429 || status == 502 || status == 503 || status == 504;
}

RetryDecision decide_by_failure(const RetryPolicy& policy, int retries_done,
                                const std::exception_ptr& failure, double random) {
    try {
        std::rethrow_exception(failure);
    } catch (const Error& error) {
        return decide_retry(policy, retries_done, error, random);
    } catch (...) {
        return RetryDecision();
    }
}

/// Adds why there is no further retry to the text of a failure. The reason repeats the failure and adds to it after a comma.
std::string with_reason(std::string error, const std::string& reason) {
    if (reason.starts_with(error)) return reason;
    const std::size_t comma = reason.find(", ");
    return comma == std::string::npos ? error : error + " (" + reason.substr(comma + 2) + ")";
}

ExportResult rejection(std::string error, std::size_t items) {
    ExportResult result;
    result.rejected = items;
    result.error = std::move(error);
    return result;
}

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

namespace detail {

std::string gzip(std::string_view bytes) {
    Deflater deflater;
    z_stream& stream = deflater.stream;
    std::string out;
    for (int result = Z_OK; result != Z_STREAM_END;) {
        if (stream.avail_in == 0) {
            const auto size = std::min<std::size_t>(bytes.size(), std::numeric_limits<uInt>::max());
            // zlib does not write to its input.
            stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
            stream.avail_in = static_cast<uInt>(size);
            bytes.remove_prefix(size);
        }
        constexpr std::size_t step = 64 * 1024;
        const std::size_t before = out.size();
        out.resize(before + step);
        stream.next_out = reinterpret_cast<Bytef*>(out.data() + before);
        stream.avail_out = step;
        result = deflate(&stream, bytes.empty() ? Z_FINISH : Z_NO_FLUSH);
        out.resize(out.size() - stream.avail_out);
        if (result == Z_STREAM_ERROR) throw std::bad_alloc();
    }
    return out;
}

/// Sends OTLP requests to one URL, with retries.
class OtlpSender {
public:
    /// `path` belongs to the default URL: "/v1/traces".
    OtlpSender(OTLPOptions options, const char* path);

    /// Sends a request with `items` spans or data points.
    Task<ExportResult> send(std::string body, std::size_t items);

    const OTLPOptions& options() const noexcept { return options_; }
    /// Returns why the current request is repeated; empty if it is not. Thread-safe.
    std::string retry_reason() const;

private:
    struct Reply;
    Task<Reply> attempt(std::string body);
    ExportResult accepted(const Reply& reply, std::size_t items) const;
    std::string error_of(const Reply& reply) const;
    void set_retry_reason(std::string reason);

    const OTLPOptions options_;
    const std::string server_;  // for errors: without credentials and path
    const std::shared_ptr<const Runtime> runtime_;
    const std::shared_ptr<HttpTransport> transport_;
    mutable std::mutex mutex_;
    std::string retry_reason_;
};

struct OtlpSender::Reply {
    int status = 0;
    HttpHeaders headers = {};
    std::string body = {};
};

OtlpSender::OtlpSender(OTLPOptions options, const char* path)
    : options_(complete(std::move(options), path)),
      server_(server_of(options_.url)),
      runtime_(options_.runtime),
      transport_(make_transport(options_, *runtime_)) {}

Task<OtlpSender::Reply> OtlpSender::attempt(std::string body) {
    HttpRequest request("POST", options_.url);
    request.body = std::move(body);
    const bool json = options_.protocol == OTLPProtocol::http_json;
    request.headers.add("content-type", json ? "application/json" : "application/x-protobuf");
    request.headers.add("user-agent", "CubePi-OTLP-Exporter/" + std::string(version()));
    if (options_.gzip) request.headers.add("content-encoding", "gzip");
    for (const HttpHeader& header : options_.headers)
        request.headers.set(header.name, header.value);
    request.timeouts.connect =
        std::min<std::chrono::nanoseconds>(request.timeouts.connect, options_.timeout);
    request.timeouts.first_byte = options_.timeout;
    request.timeouts.total = options_.timeout;
    request.max_response_bytes = std::size_t{256} << 10U;
    HttpResponse response = co_await transport_->send(std::move(request));
    Reply reply;
    reply.status = response.status;
    reply.headers = std::move(response.headers);
    for (bool more = true; more;) more = co_await response.body->read(reply.body);
    co_return reply;
}

ExportResult OtlpSender::accepted(const Reply& reply, std::size_t items) const {
    const std::string_view type = reply.headers.get("content-type");
    if (is_html(reply.body, type)) {
        return rejection(server_ +
                             " returned an HTML page instead of an OTLP response; check the "
                             "URL of the collector",
                         items);
    }
    const PartialSuccess partial = read_partial_success(reply.body, type);
    ExportResult result;
    result.rejected = std::min<std::uint64_t>(partial.rejected, items);
    if (result.rejected == 0 && partial.message.empty()) return result;
    const std::string message = safe_server_text(partial.message, options_.headers);
    result.error =
        server_ + " rejected " + std::to_string(result.rejected) + " of " + std::to_string(items);
    if (result.rejected == 0) result.error = server_ + " accepted all with a warning";
    if (!message.empty()) result.error += ": " + message;
    return result;
}

std::string OtlpSender::error_of(const Reply& reply) const {
    std::string text = server_ + " answered with HTTP " + std::to_string(reply.status);
    const std::string message = safe_server_text(
        read_error_message(reply.body, reply.headers.get("content-type")), options_.headers);
    if (!message.empty()) text += ": " + message;
    if (reply.status == 401 || reply.status == 403) text += "; check the headers of the exporter";
    if (reply.status == 404) text += "; check the path of the URL";
    return text;
}

std::string OtlpSender::retry_reason() const {
    const std::lock_guard lock(mutex_);
    return retry_reason_;
}

void OtlpSender::set_retry_reason(std::string reason) {
    const std::lock_guard lock(mutex_);
    retry_reason_ = std::move(reason);
}

Task<ExportResult> OtlpSender::send(std::string body, std::size_t items) {
    if (options_.gzip) body = gzip(body);
    for (int retries = 0;; ++retries) {
        Outcome<Reply> outcome = co_await outcome_of(attempt(body));
        const double random = random_fraction(*runtime_->ids);
        RetryDecision decision;
        std::string error;
        if (outcome) {
            const Reply reply = std::move(outcome).value();
            if (reply.status >= 200 && reply.status < 300) {
                set_retry_reason({});
                co_return accepted(reply, items);
            }
            error = error_of(reply);
            if (is_retryable(reply.status)) {
                const RetryHints hints = read_retry_hints(reply.headers, runtime_->clock->wall());
                decision = decide_retry(options_.retry, retries, reply.status, hints, random);
            }
        } else {
            const auto state = co_await this_cancellation;
            if (state.cancelled() != boost::asio::cancellation_type::none) throw_cancelled();
            error = exception_text(outcome.failure());
            decision = decide_by_failure(options_.retry, retries, outcome.failure(), random);
        }
        set_retry_reason(decision.retry ? error : std::string());
        if (!decision.retry) {
            co_return rejection(with_reason(std::move(error), decision.reason), items);
        }
        co_await runtime_->clock->sleep_for(decision.delay);
    }
}

}  // namespace detail

RetryPolicy OTLPOptions::default_retry() {
    RetryPolicy policy;
    policy.max_retries = 5;
    policy.base_delay = std::chrono::seconds(1);
    policy.max_delay = std::chrono::seconds(8);
    policy.max_server_delay = std::chrono::seconds(20);
    return policy;
}

std::string otlp_traces_url(std::string_view base) { return with_path(base, traces_path); }
std::string otlp_metrics_url(std::string_view base) { return with_path(base, metrics_path); }

struct OTLPSpanExporter::State {
    explicit State(OTLPOptions options) : sender(std::move(options), traces_path) {}
    detail::OtlpSender sender;
};

OTLPSpanExporter::OTLPSpanExporter(OTLPOptions options)
    : state_(std::make_unique<State>(std::move(options))) {}

OTLPSpanExporter::~OTLPSpanExporter() = default;

std::string OTLPSpanExporter::retry_reason() const { return state_->sender.retry_reason(); }

Task<ExportResult> OTLPSpanExporter::export_spans(SpanBatch batch,
                                                  std::shared_ptr<const Resource> resource) {
    const OTLPOptions& options = state_->sender.options();
    ExportResult result;
    for (std::size_t start = 0; start < batch.size();) {
        std::size_t bytes = 0;
        std::size_t end = start;
        do {
            bytes += batch[end++]->memory();
        } while (end < batch.size() && bytes + batch[end]->memory() <= options.request_bytes);
        const detail::SpanRange spans = detail::SpanRange(batch).subspan(start, end - start);
        std::string body = options.protocol == OTLPProtocol::http_json
                               ? detail::traces_json(spans, *resource)
                               : detail::traces_protobuf(spans, *resource);
        add_result(result, co_await state_->sender.send(std::move(body), end - start));
        start = end;
    }
    co_return result;
}

struct OTLPMetricExporter::State {
    explicit State(OTLPOptions options) : sender(std::move(options), metrics_path) {}
    detail::OtlpSender sender;
};

OTLPMetricExporter::OTLPMetricExporter(OTLPOptions options)
    : state_(std::make_unique<State>(std::move(options))) {}

OTLPMetricExporter::~OTLPMetricExporter() = default;

std::string OTLPMetricExporter::retry_reason() const { return state_->sender.retry_reason(); }

Task<ExportResult> OTLPMetricExporter::export_metrics(std::shared_ptr<const MetricSnapshot> metrics,
                                                      std::shared_ptr<const Resource> resource) {
    std::string body = state_->sender.options().protocol == OTLPProtocol::http_json
                           ? detail::metrics_json(*metrics, *resource)
                           : detail::metrics_protobuf(*metrics, *resource);
    co_return co_await state_->sender.send(std::move(body), metrics->point_count());
}

}  // namespace cubepi
