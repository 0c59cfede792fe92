#include <cubepi/tracing/otlp_exporter.hpp>

#include <zlib.h>

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/json.hpp>
#include <cubepi/core/version.hpp>
#include <cubepi/net/network_error.hpp>
#include <cubepi/testing/manual_clock.hpp>
#include <cubepi/testing/memory_transport.hpp>
#include <cubepi/tracing/otlp/otlp_decoder_test.hpp>
#include <cubepi/tracing/otlp/otlp_messages.hpp>
#include <cubepi/tracing/otlp/otlp_samples_test.hpp>

namespace cubepi {
namespace {

using namespace detail;
using namespace std::chrono_literals;
using otlp_test::Decoder;
using testing::ManualClock;
using testing::MemoryResponse;
using testing::MemoryTransport;

/// A collector that answers as scripted, and an exporter that sends to it.
struct Collector {
    explicit Collector(std::vector<MemoryResponse> answers, OTLPOptions wanted = {})
        : transport(std::make_shared<MemoryTransport>(std::move(answers), clock)),
          options(std::move(wanted)) {
        options.runtime =
            std::make_shared<const Runtime>(Runtime().with_clock(clock).with_transport(transport));
    }

    ExportResult send(std::size_t spans = 1) {
        OTLPSpanExporter exporter(options);
        const SpanBatch batch(spans, otlp_test::sample_span());
        return run_advancing(*clock, exporter.export_spans(batch, resource));
    }
    ExportResult send_metrics() {
        OTLPMetricExporter exporter(options);
        const auto metrics = std::make_shared<const MetricSnapshot>(otlp_test::sample_metrics());
        return run_advancing(*clock, exporter.export_metrics(metrics, resource));
    }

    std::shared_ptr<ManualClock> clock = std::make_shared<ManualClock>();
    std::shared_ptr<MemoryTransport> transport;
    OTLPOptions options;
    std::shared_ptr<const Resource> resource =
        std::make_shared<const Resource>(otlp_test::sample_resource());
};

std::string inflated(std::string_view bytes) {
    z_stream stream{};
    EXPECT_EQ(inflateInit2(&stream, MAX_WBITS + 16), Z_OK);
    std::string out(std::size_t{16} << 20U, '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream.avail_in = static_cast<uInt>(bytes.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
    EXPECT_EQ(stream.avail_in, 0u);
    out.resize(stream.total_out);
    inflateEnd(&stream);
    return out;
}

TEST(OtlpUrls, BaseUrl_GetsTheSignalPath) {
    EXPECT_EQ(otlp_traces_url("http://h:4318"), "http://h:4318/v1/traces");
    EXPECT_EQ(otlp_metrics_url("http://h:4318/base/"), "http://h:4318/base/v1/metrics");
}

TEST(OtlpExporter, DefaultOptions_SendProtobuf) {
    Collector collector({MemoryResponse(200)});
    EXPECT_TRUE(collector.send(2).ok());
    const HttpRequest request = collector.transport->requests().at(0);
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.url, "http://localhost:4318/v1/traces");
    EXPECT_EQ(request.headers.get("content-type"), "application/x-protobuf");
    EXPECT_EQ(request.headers.find("content-encoding"), nullptr);
    EXPECT_TRUE(request.headers.get("user-agent").starts_with("CubePi-OTLP-Exporter/"));
    EXPECT_EQ(request.timeouts.total, 10s);
    const JsonObject decoded = otlp_test::Decoder(request.body).message("TracesRequest");
    EXPECT_EQ(
        decoded.at("resourceSpans").at(0).at("scopeSpans").at(0).at("spans").as_array().size(), 2u);
}

TEST(OtlpExporter, JsonRequest_HasHeadersAndGzip) {
    OTLPOptions options;
    options.url = "https://c.example/v1/metrics";
    options.protocol = OTLPProtocol::http_json;
    options.gzip = true;
    options.headers = {HttpHeader("x-key", "secret")};
    Collector collector({MemoryResponse(200)}, options);
    EXPECT_TRUE(collector.send_metrics().ok());
    const HttpRequest request = collector.transport->requests().at(0);
    EXPECT_EQ(request.url, "https://c.example/v1/metrics");
    EXPECT_EQ(request.headers.get("content-type"), "application/json");
    EXPECT_EQ(request.headers.get("content-encoding"), "gzip");
    EXPECT_EQ(request.headers.get("x-key"), "secret");
    EXPECT_EQ(inflated(request.body),
              detail::metrics_json(otlp_test::sample_metrics(), *collector.resource));
}

TEST(OtlpExporter, LargeBatch_IsDivided) {
    OTLPOptions options;
    options.request_bytes = 2 * otlp_test::sample_span()->memory();
    std::vector<MemoryResponse> answers;
    for (const int status : {200, 400, 200}) answers.emplace_back(status);
    Collector collector(std::move(answers), options);
    const ExportResult result = collector.send(5);
    EXPECT_EQ(collector.transport->requests().size(), 3u);
    EXPECT_EQ(result.rejected, 2u);
    EXPECT_EQ(result.error, "localhost:4318 answered with HTTP 400");
}

TEST(OtlpExporter, OnlySpecifiedStatuses_AreRetried) {
    for (const int status : {429, 502, 503, 504}) {
        Collector collector({MemoryResponse(status), MemoryResponse(status), MemoryResponse(200)});
        EXPECT_TRUE(collector.send().ok()) << status;
        EXPECT_EQ(collector.transport->requests().size(), 3u) << status;
    }
    for (const int status : {400, 401, 404, 408, 409, 413, 425, 500, 501}) {
        Collector collector({MemoryResponse(status), MemoryResponse(200)});
        const ExportResult result = collector.send(3);
        EXPECT_EQ(result.rejected, 3u) << status;
        EXPECT_EQ(collector.transport->requests().size(), 1u) << status;
        EXPECT_NE(result.error.find("HTTP " + std::to_string(status)), std::string::npos);
    }
}

/// Notes the reason for each request.
class AskingTransport final : public HttpTransport {
public:
    explicit AskingTransport(std::shared_ptr<HttpTransport> transport)
        : transport_(std::move(transport)) {}
    Task<HttpResponse> send(HttpRequest request) override {
        reasons.push_back(exporter->retry_reason());
        return transport_->send(std::move(request));
    }

    const OTLPSpanExporter* exporter = nullptr;
    std::vector<std::string> reasons;

private:
    std::shared_ptr<HttpTransport> transport_;
};

TEST(OtlpExporter, RepeatedRequest_HasARetryReason) {
    Collector collector({MemoryResponse(503), MemoryResponse(200)});
    const auto asking = std::make_shared<AskingTransport>(collector.transport);
    collector.options.runtime = std::make_shared<const Runtime>(
        Runtime().with_clock(collector.clock).with_transport(asking));
    OTLPSpanExporter exporter(collector.options);
    asking->exporter = &exporter;
    const SpanBatch batch(1, otlp_test::sample_span());
    const ExportResult result =
        run_advancing(*collector.clock, exporter.export_spans(batch, collector.resource));
    EXPECT_TRUE(result.ok());
    EXPECT_EQ(asking->reasons,
              (std::vector<std::string>{"", "localhost:4318 answered with HTTP 503"}));
    EXPECT_EQ(exporter.retry_reason(), "");
}

TEST(OtlpExporter, Retry_WaitsAsTheCollectorRequests) {
    Collector collector(
        {MemoryResponse(429).with_header("retry-after", "17"), MemoryResponse(200)});
    const auto start = collector.clock->now();
    EXPECT_TRUE(collector.send().ok());
    EXPECT_EQ(collector.clock->now() - start, 17s);
}

TEST(OtlpExporter, RetryDelay_IsLimitedByTheExportTimeout) {
    Collector collector(
        {MemoryResponse(503).with_header("retry-after", "3600"), MemoryResponse(200)});
    const ExportResult result = collector.send();
    EXPECT_EQ(result.rejected, 1u);
    EXPECT_NE(result.error.find("3600 s"), std::string::npos) << result.error;
    EXPECT_EQ(collector.transport->requests().size(), 1u);
}

TEST(OtlpExporter, FailedConnection_IsRetriedThenFails) {
    std::vector<MemoryResponse> answers;
    for (int i = 0; i < 6; ++i) {
        answers.push_back(MemoryResponse::failing(NetworkError(
            ErrorCode::connect, "localhost:4318", true, "Cannot connect to localhost:4318")));
    }
    Collector collector(std::move(answers));
    const ExportResult result = collector.send(2);
    EXPECT_EQ(result.rejected, 2u);
    EXPECT_NE(result.error.find("Cannot connect to localhost:4318"), std::string::npos);
    EXPECT_NE(result.error.find("after 5 retries"), std::string::npos) << result.error;
    EXPECT_EQ(collector.transport->requests().size(), 6u);
}

TEST(OtlpExporter, OtherFailures_AreNotRetried) {
    Collector invalid({MemoryResponse::failing(Error(ErrorCode::invalid_argument, "bad URL"))});
    EXPECT_EQ(invalid.send().error, "bad URL");
    Collector strange({MemoryResponse::failing(std::runtime_error("strange"))});
    EXPECT_EQ(strange.send().error, "strange");
    Collector slow({MemoryResponse::never()});
    const ExportResult result = slow.send();
    EXPECT_EQ(result.rejected, 1u);
    EXPECT_EQ(slow.transport->requests().size(), 1u);
}

TEST(OtlpExporter, PartialSuccess_IsReported) {
    Collector collector({MemoryResponse(200, "\x0a\x0b\x08\x01\x12\x07too old")
                             .with_header("content-type", "application/x-protobuf")});
    const ExportResult result = collector.send(3);
    EXPECT_EQ(result.rejected, 1u);
    EXPECT_EQ(result.error, "localhost:4318 rejected 1 of 3: too old");
    Collector warning({MemoryResponse(200, R"({"partialSuccess":{"errorMessage":"use gzip"}})")
                           .with_header("content-type", "application/json")});
    const ExportResult accepted = warning.send(3);
    EXPECT_EQ(accepted.rejected, 0u);
    EXPECT_EQ(accepted.error, "localhost:4318 accepted all with a warning: use gzip");
}

TEST(OtlpExporter, HtmlPage_IsRejected) {
    Collector collector({MemoryResponse(200, "<!doctype html><title>Sign in</title>")});
    const ExportResult result = collector.send();
    EXPECT_EQ(result.rejected, 1u);
    EXPECT_EQ(result.error,
              "localhost:4318 returned an HTML page instead of an OTLP response; check the URL of "
              "the collector");
    Collector garbage({MemoryResponse(200, std::string(1000, '\xfe'))});
    EXPECT_TRUE(garbage.send().ok());
    Collector huge({MemoryResponse(200, std::string(1U << 20U, 'x'))});
    (void)huge.send();
}

TEST(OtlpExporter, D58_Errors_ContainNoSecret) {
    OTLPOptions options;
    options.url = "https://user:password@c.example/v1/traces?key=hidden";
    options.headers = {HttpHeader("authorization", "Bearer sk-secret")};
    Collector collector({MemoryResponse(401, "invalid token sk-secret")}, options);
    EXPECT_EQ(collector.send().error,
              "c.example answered with HTTP 401: invalid token ***; check the headers of the "
              "exporter");
}

TEST(Gzip, AnySize_IsCompressed) {
    for (const std::size_t size : {0u, 1u, 1000u, 65536u, 200000u, 5000000u}) {
        std::string text(size, 'x');
        for (std::size_t i = 0; i < size; i += 7)
            text[i] = static_cast<char>(i * 2654435761U >> 13U);
        EXPECT_EQ(inflated(detail::gzip(text)), text) << size;
    }
}

constexpr const char* protobuf = "application/x-protobuf";
constexpr const char* json = "application/json; charset=utf-8";

std::string partial_message() {
    std::string body;
    ProtobufWriter out(body);
    out.fixed64(7, 1);  // fields that are not known yet
    out.message(1, [&] {
        out.fixed32(9, 1);
        out.varint(1, 3);
        out.text(2, "too old");
    });
    return body;
}

TEST(OtlpResponse, PartialSuccess_IsRead) {
    for (const auto& [body, type] : {
             std::pair<std::string, const char*>(partial_message(), protobuf),
             {R"({"partialSuccess":{"rejectedSpans":"3","errorMessage":"too old"}})", json},
             {R"({"partialSuccess":{"rejectedDataPoints":3,"errorMessage":"too old"}})", json},
         }) {
        const PartialSuccess partial = read_partial_success(body, type);
        EXPECT_EQ(partial.rejected, 3u) << body;
        EXPECT_EQ(partial.message, "too old") << body;
    }
}

TEST(OtlpResponse, OtherContent_IsASuccess) {
    const std::string whole = partial_message();
    for (const std::string& body :
         {std::string(), std::string("ok"), std::string("{}"), std::string("[1]"),
          std::string("{\"partialSuccess\":1}"),
          std::string(R"({"partialSuccess":{"rejectedSpans":-3}})"), std::string(20, '\xff')}) {
        EXPECT_EQ(read_partial_success(body, protobuf).rejected, 0u) << body;
        EXPECT_EQ(read_partial_success(body, json).rejected, 0u) << body;
    }
    for (std::size_t size = 0; size < whole.size(); ++size)
        (void)read_partial_success(whole.substr(0, size), protobuf);
}

TEST(OtlpResponse, ErrorDescription_IsRead) {
    std::string status;
    ProtobufWriter out(status);
    out.varint(1, 3);
    out.text(2, "bad data");
    EXPECT_EQ(read_error_message(status, protobuf), "bad data");
    EXPECT_EQ(read_error_message(R"({"code":3,"message":"bad data"})", json), "bad data");
    EXPECT_EQ(read_error_message("bad data", "text/plain"), "bad data");
    EXPECT_EQ(read_error_message("\x01\x02", protobuf), "");
    EXPECT_EQ(read_error_message("nonsense", json), "");
    EXPECT_EQ(read_error_message(" <html>", "text/plain"),
              "an HTML page; check the URL of the collector");
}

TEST(OtlpResponse, D58_ServerText_IsOneLineWithoutSecrets) {
    const std::vector<HttpHeader> headers = {HttpHeader("authorization", "Bearer sk-secret"),
                                             HttpHeader("x-key", "abcdef"), HttpHeader("n", "1")};
    EXPECT_EQ(
        safe_server_text("no: Bearer sk-secret, sk-secret,\nabcdefabcdef 1\x1b[0m\xff", headers),
        "no: ***, ***, ****** 1 [0m\xEF\xBF\xBD");
    EXPECT_EQ(safe_server_text(std::string(299, 'x') + "ü", {}).size(), 299u);
}

std::string hex(std::string_view bytes) {
    std::string out;
    for (const char c : bytes) {
        char text[3];
        std::snprintf(text, sizeof text, "%02x", static_cast<unsigned char>(c));
        out += text;
    }
    return out;
}

/// The JSON without members that are empty lists, which protobuf does not have.
Json without_empty(const Json& json) {
    if (json.is_array()) {
        JsonArray out;
        for (const Json& one : json.as_array()) out.push_back(without_empty(one));
        return out;
    }
    if (!json.is_object()) return json;
    JsonObject out;
    for (const auto& [key, value] : json.as_object()) {
        if (value.is_array() && value.as_array().empty()) continue;
        out[key] = without_empty(value);
    }
    return out;
}

TEST(ProtobufWriter, Fields_UseTheWireFormat) {
    std::string out;
    ProtobufWriter writer(out);
    writer.varint(1, 150);  // the example of the specification
    EXPECT_EQ(hex(out), "089601");
    out.clear();
    writer.text(2, "testing");
    EXPECT_EQ(hex(out), "120774657374696e67");
    out.clear();
    writer.message(3, [&] { writer.varint(1, 150); });
    EXPECT_EQ(hex(out), "1a03089601");
    out.clear();
    writer.fixed32(16, 1);
    EXPECT_EQ(hex(out), "850101000000");
    out.clear();
    writer.number(4, 1.0);
    EXPECT_EQ(hex(out), "21000000000000f03f");
    out.clear();
    writer.varint(3, static_cast<std::uint64_t>(std::int64_t{-1}));
    EXPECT_EQ(hex(out), "18ffffffffffffffffff01");
    out.clear();
    writer.text(1, "a\xff");
    EXPECT_EQ(hex(out), "0a0461efbfbd");
}

TEST(ProtobufWriter, LongMessage_HasItsLength) {
    for (const std::size_t size : {0u, 1u, 125u, 126u, 127u, 128u, 16381u, 16384u, 3000000u}) {
        std::string out = "before";
        ProtobufWriter writer(out);
        writer.message(
            1, [&] { writer.message(2, [&] { writer.bytes(3, std::string(size, 'x')); }); });
        std::string inner;
        ProtobufWriter inner_writer(inner);
        inner_writer.bytes(3, std::string(size, 'x'));
        std::string middle;
        ProtobufWriter(middle).bytes(2, inner);
        std::string whole = "before";
        ProtobufWriter(whole).bytes(1, middle);
        EXPECT_EQ(out, whole) << size;
    }
}

TEST(OtlpMessages, Span_HasTheExpectedBytes) {
    Resource resource;
    resource.attributes.set("a", "b");
    resource.schema_url = "u";
    const std::vector<std::shared_ptr<const SpanData>> spans = {otlp_test::plain_span()};
    const std::string version(cubepi::version());
    ASSERT_EQ(version.size(), 5u);
    // Equal to the output of opentelemetry-proto 1.45.2 for the same message.
    EXPECT_EQ(hex(traces_protobuf(spans, resource)),
              "0a73"                                        // resource spans
              "0a0a0a080a016112030a0162"                    // resource
              "1262"                                        // scope spans
              "0a170a0e6375626570692e74726163696e671205" +  // scope
                  hex(version) +
                  "1244"                                  // span
                  "0a104bf92f3577b34da6a3ce929d0e0e4736"  // trace id
                  "120800f067aa0ba902b7"                  // span id
                  "2a0c696e766f6b655f6167656e74"          // name
                  "3001"                                  // internal
                  "396359630f3433ea18"                    // start
                  "416359630f3433ea18"                    // end
                  "850101000000"                          // flags
                  "1a01751a0175");
}

TEST(OtlpMessages, Traces_AreEqualInProtobufAndJson) {
    const std::vector<std::shared_ptr<const SpanData>> spans = {otlp_test::sample_span(),
                                                                otlp_test::plain_span()};
    const Resource resource = otlp_test::sample_resource();
    const std::string body = traces_protobuf(spans, resource);
    const Json decoded = Decoder(body).message("TracesRequest");
    const Json json = boost::json::parse(traces_json(spans, resource));
    EXPECT_EQ(without_empty(decoded), without_empty(json));
}

TEST(OtlpMessages, Metrics_AreEqualInProtobufAndJson) {
    const MetricSnapshot metrics = otlp_test::sample_metrics();
    const Resource resource = otlp_test::sample_resource();
    const std::string body = metrics_protobuf(metrics, resource);
    const Json decoded = Decoder(body).message("MetricsRequest");
    const Json json = boost::json::parse(metrics_json(metrics, resource));
    EXPECT_EQ(without_empty(decoded), without_empty(json));
}

TEST(OtlpMessages, JsonMapping_UsesHexIdsAndStringIntegers) {
    const std::vector<std::shared_ptr<const SpanData>> spans = {otlp_test::sample_span()};
    const Json json = boost::json::parse(traces_json(spans, otlp_test::sample_resource()));
    const Json& resource = json.at("resourceSpans").at(0);
    EXPECT_EQ(resource.at("resource").at("attributes").at(0),
              boost::json::parse(R"({"key":"service.name","value":{"stringValue":"weather"}})"));
    EXPECT_EQ(resource.at("schemaUrl"), "https://opentelemetry.io/schemas/1.41.0");
    const Json& scope = resource.at("scopeSpans").at(0);
    EXPECT_EQ(scope.at("scope").at("name"), "cubepi.tracing");
    const Json& span = scope.at("spans").at(0);
    EXPECT_EQ(span.at("traceId"), "4bf92f3577b34da6a3ce929d0e0e4736");
    EXPECT_EQ(span.at("parentSpanId"), "0102030405060708");
    EXPECT_EQ(span.at("kind"), 3);
    EXPECT_EQ(span.at("startTimeUnixNano"), "1795303700150049123");
    EXPECT_EQ(span.at("endTimeUnixNano"), "1795303701150049130");
    EXPECT_EQ(span.at("status"), boost::json::parse(R"({"message":"model error","code":2})"));
    EXPECT_EQ(span.at("attributes").at(3).at("value"), boost::json::parse(R"({"intValue":"-38"})"));
    EXPECT_EQ(span.at("attributes").at(6).at("value"),
              boost::json::parse(
                  R"({"arrayValue":{"values":[{"stringValue":"a"},{"stringValue":""}]}})"));
    EXPECT_EQ(span.at("links").at(0).at("flags"), 0);
    EXPECT_EQ(span.at("flags"), 1);
}

TEST(OtlpMessages, EveryNumberAndText_IsRepresented) {
    const auto span = otlp_test::plain_span();
    span->name = "a\xff";
    span->attributes.set("nan", std::nan(""));
    span->attributes.set("inf", -INFINITY);
    span->start = std::chrono::system_clock::time_point(std::chrono::hours(-1));
    const std::vector<std::shared_ptr<const SpanData>> spans = {span};
    const Json json = boost::json::parse(traces_json(spans, Resource()));
    const Json& out = json.at("resourceSpans").at(0).at("scopeSpans").at(0).at("spans").at(0);
    EXPECT_EQ(out.at("name"), "a\xEF\xBF\xBD");
    EXPECT_EQ(out.at("startTimeUnixNano"), "0");
    EXPECT_EQ(out.at("attributes").at(0).at("value").at("doubleValue"), "NaN");
    EXPECT_EQ(out.at("attributes").at(1).at("value").at("doubleValue"), "-Infinity");
    EXPECT_NO_THROW(Decoder(traces_protobuf(spans, Resource())).message("TracesRequest"));
}

}  // namespace
}  // namespace cubepi
