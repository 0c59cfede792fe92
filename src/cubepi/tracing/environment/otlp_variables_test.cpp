#include <gtest/gtest.h>

#include <cubepi/tracing/environment/environment_test_support.hpp>

namespace cubepi {
namespace {

using namespace std::chrono_literals;

constexpr const char* endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT";
constexpr const char* traces_endpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
constexpr const char* base = "http://collector:4318";

std::string traces_url(const std::string& value) {
    return otel_environment({{endpoint, value}}).traces.options.url;
}

TEST(OtlpVariables, AppendTheSignalToTheCommonEndpoint) {
    EXPECT_EQ(traces_url("http://collector:4318"), "http://collector:4318/v1/traces");
    EXPECT_EQ(traces_url("http://collector:4318/"), "http://collector:4318/v1/traces");
    EXPECT_EQ(traces_url("HTTPS://c.example/a/b//"), "HTTPS://c.example/a/b/v1/traces");
    EXPECT_EQ(traces_url("https://c.example/a?tenant=1"), "https://c.example/a/v1/traces?tenant=1");
    EXPECT_EQ(otel_environment({{endpoint, base}}).metrics.options.url,
              "http://collector:4318/v1/metrics");
}

TEST(OtlpVariables, UseTheEndpointOfASignalAsItIs) {
    const OtelEnvironment environment = otel_environment(
        {{traces_endpoint, "https://t.example/in"}, {endpoint, "http://collector:4318"}});
    EXPECT_EQ(environment.traces.options.url, "https://t.example/in");
    EXPECT_EQ(environment.metrics.options.url, "http://collector:4318/v1/metrics");
    EXPECT_EQ(otel_environment({{traces_endpoint, "https://t.example"}}).traces.options.url,
              "https://t.example");
    EXPECT_TRUE(environment.notices.empty());
}

TEST(OtlpVariables, ExportNothingWithoutAnEndpointOrAnExporter) {
    const OtelEnvironment environment =
        otel_environment({{"OTEL_EXPORTER_OTLP_HEADERS", "a=b"}, {"OTEL_SERVICE_NAME", "bot"}});
    EXPECT_FALSE(environment.traces.exported());
    EXPECT_FALSE(environment.metrics.exported());
    const OtelEnvironment traces = otel_environment({{traces_endpoint, base}});
    EXPECT_TRUE(traces.traces.otlp);
    EXPECT_FALSE(traces.metrics.otlp);
}

TEST(OtlpVariables, TurnOtlpOffIfTheEndpointIsMalformed) {
    for (const char* value : {"collector:4318", "ftp://collector", "http://", "http://:4318",
                              "http:///v1", "http://a b", "grpc://user:hunter2@c"}) {
        const OtelEnvironment environment = otel_environment({{endpoint, value}});
        EXPECT_FALSE(environment.traces.otlp) << value;
        EXPECT_FALSE(environment.metrics.otlp) << value;
        EXPECT_EQ(texts(environment.notices),
                  (Texts{"OTEL_EXPORTER_OTLP_ENDPOINT: the value is not an http:// or https:// "
                         "URL; no traces are sent by OTLP.",
                         "OTEL_EXPORTER_OTLP_ENDPOINT: the value is not an http:// or https:// "
                         "URL; no metrics are sent by OTLP."}));
        EXPECT_EQ(environment.notices[0].code, "otel_variable");
        EXPECT_EQ(environment.notices[0].details.at("variable").as_string(), endpoint);
    }
}

TEST(OtlpVariables, UseTheCommonEndpointIfThatOfTheSignalIsMalformed) {
    const OtelEnvironment environment =
        otel_environment({{traces_endpoint, "collector"}, {endpoint, base}});
    EXPECT_EQ(environment.traces.options.url, "http://collector:4318/v1/traces");
    EXPECT_EQ(texts(environment.notices),
              Texts{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: the value is not an http:// or https:// "
                    "URL; OTEL_EXPORTER_OTLP_ENDPOINT is used."});
}

TEST(OtlpVariables, DecodeHeaders) {
    const OtelEnvironment environment = otel_environment(
        {{endpoint, base},
         {"OTEL_EXPORTER_OTLP_HEADERS", " x-key = a%20b%2Cc== , empty=,,plus=a+b,"}});
    const std::vector<HttpHeader> expected = {{"x-key", "a b,c=="}, {"empty", ""}, {"plus", "a+b"}};
    EXPECT_EQ(environment.traces.options.headers, expected);
    EXPECT_EQ(environment.metrics.options.headers, expected);
    EXPECT_TRUE(environment.notices.empty());
}

TEST(OtlpVariables, ReplaceCommonHeadersByThoseOfASignal) {
    const OtelEnvironment environment =
        otel_environment({{endpoint, base},
                          {"OTEL_EXPORTER_OTLP_HEADERS", "a=1"},
                          {"OTEL_EXPORTER_OTLP_METRICS_HEADERS", "b=2"}});
    EXPECT_EQ(environment.traces.options.headers, (std::vector<HttpHeader>{{"a", "1"}}));
    EXPECT_EQ(environment.metrics.options.headers, (std::vector<HttpHeader>{{"b", "2"}}));
}

TEST(OtlpVariables, OmitMalformedHeadersWithoutShowingThem) {
    const OtelEnvironment environment = otel_environment(
        {{traces_endpoint, base},
         {"OTEL_EXPORTER_OTLP_HEADERS",
          "hunter2,bad name=hunter2,=hunter2,x=hunter2%,y=hunter2%0d%0az: 1,n=a%00,good=1"}});
    EXPECT_EQ(environment.traces.options.headers, (std::vector<HttpHeader>{{"good", "1"}}));
    ASSERT_EQ(environment.notices.size(), 6u);
    for (const std::string& text : texts(environment.notices))
        EXPECT_EQ(text.find("hunter2"), std::string::npos) << text;
    EXPECT_EQ(environment.notices[0].text,
              "OTEL_EXPORTER_OTLP_HEADERS: entry 1 is not a name=value pair of an HTTP header with "
              "a percent-encoded value; this header is not sent.");
}

TEST(OtlpVariables, SelectTheProtocol) {
    const auto protocol = [](const char* value) {
        return otel_environment({{endpoint, base}, {"OTEL_EXPORTER_OTLP_PROTOCOL", value}})
            .traces.options.protocol;
    };
    EXPECT_EQ(protocol(""), OtlpProtocol::http_protobuf);
    EXPECT_EQ(protocol("http/protobuf"), OtlpProtocol::http_protobuf);
    EXPECT_EQ(protocol(" HTTP/JSON "), OtlpProtocol::http_json);
    const OtelEnvironment mixed =
        otel_environment({{endpoint, base},
                          {"OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"},
                          {"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/protobuf"}});
    EXPECT_EQ(mixed.traces.options.protocol, OtlpProtocol::http_json);
    EXPECT_EQ(mixed.metrics.options.protocol, OtlpProtocol::http_protobuf);
}

TEST(OtlpVariables, RefuseGrpc) {
    const OtelEnvironment environment = otel_environment(
        {{endpoint, "http://collector:4317"}, {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc"}});
    EXPECT_FALSE(environment.traces.otlp);
    EXPECT_TRUE(environment.metrics.otlp);
    EXPECT_EQ(texts(environment.notices),
              Texts{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: OTLP over gRPC is not supported; no "
                    "traces are sent. Set it to http/protobuf, and the endpoint to the "
                    "collector's port for HTTP (4318 by default)."});
}

TEST(OtlpVariables, UseTheDefaultForAnUnknownProtocol) {
    const OtelEnvironment environment =
        otel_environment({{endpoint, base}, {"OTEL_EXPORTER_OTLP_PROTOCOL", "carrier pigeon"}});
    EXPECT_TRUE(environment.traces.otlp);
    EXPECT_EQ(environment.traces.options.protocol, OtlpProtocol::http_protobuf);
    EXPECT_EQ(texts(environment.notices),
              Texts{"OTEL_EXPORTER_OTLP_PROTOCOL: 'carrier pigeon' is not http/protobuf or "
                    "http/json; 'http/protobuf' is used."});
}

TEST(OtlpVariables, ReadCompressionTimeoutAndCertificate) {
    const OtelEnvironment environment =
        otel_environment({{endpoint, base},
                          {"OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"},
                          {"OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "none"},
                          {"OTEL_EXPORTER_OTLP_TIMEOUT", "2500"},
                          {"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "100"},
                          {"OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem"},
                          {"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "/traces.pem"}});
    EXPECT_TRUE(environment.traces.options.gzip);
    EXPECT_FALSE(environment.metrics.options.gzip);
    EXPECT_EQ(environment.traces.options.timeout, 100ms);
    EXPECT_EQ(environment.metrics.options.timeout, 2500ms);
    EXPECT_EQ(environment.traces.options.ca_file, "/traces.pem");
    EXPECT_EQ(environment.metrics.options.ca_file, "/ca.pem");
    EXPECT_TRUE(environment.notices.empty());
}

TEST(OtlpVariables, TreatATimeoutOfZeroAsNoLimit) {
    EXPECT_GT(otel_environment({{endpoint, base}, {"OTEL_EXPORTER_OTLP_TIMEOUT", "0"}})
                  .traces.options.timeout,
              24h);
}

TEST(OtlpVariables, FallBackFromAMalformedValueToTheCommonOneAndToTheDefault) {
    const OtelEnvironment environment =
        otel_environment({{traces_endpoint, base},
                          {"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "10s"},
                          {"OTEL_EXPORTER_OTLP_TIMEOUT", "5000"},
                          {"OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"}});
    EXPECT_EQ(environment.traces.options.timeout, 5000ms);
    EXPECT_FALSE(environment.traces.options.gzip);
    EXPECT_EQ(texts(environment.notices),
              (Texts{"OTEL_EXPORTER_OTLP_COMPRESSION: 'zstd' is not one of none, gzip; 'none' is "
                     "used.",
                     "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: '10s' is not an integer from 0 "
                     "(milliseconds); 5000 ms is used."}));
}

TEST(OtlpVariables, SelectExporters) {
    const auto exporters = [](const char* value) {
        const OtelSignal traces = otel_environment({{"OTEL_TRACES_EXPORTER", value}}).traces;
        return std::string(traces.otlp ? "otlp " : "") + (traces.console ? "console" : "");
    };
    EXPECT_EQ(exporters("otlp"), "otlp ");
    EXPECT_EQ(exporters("Console"), "console");
    EXPECT_EQ(exporters("console, otlp"), "otlp console");
    EXPECT_EQ(exporters("none"), "");
    EXPECT_EQ(exporters(""), "");
    const OtelEnvironment off = otel_environment(
        {{endpoint, base}, {"OTEL_TRACES_EXPORTER", "none"}, {"OTEL_METRICS_EXPORTER", "console"}});
    EXPECT_FALSE(off.traces.exported());
    EXPECT_FALSE(off.metrics.otlp);
    EXPECT_TRUE(off.metrics.console);
}

TEST(OtlpVariables, SendToThisMachineIfOnlyTheExporterIsNamed) {
    const OtelEnvironment environment = otel_environment({{"OTEL_TRACES_EXPORTER", "otlp"}});
    EXPECT_TRUE(environment.traces.otlp);
    EXPECT_EQ(environment.traces.options.url, "");  // the default of OtlpOptions
}

TEST(OtlpVariables, IgnoreExportersThatAreUnknown) {
    const OtelEnvironment environment =
        otel_environment({{endpoint, base},
                          {"OTEL_TRACES_EXPORTER", "zipkin"},
                          {"OTEL_METRICS_EXPORTER", "jaeger,none"}});
    EXPECT_TRUE(environment.traces.otlp);
    EXPECT_FALSE(environment.metrics.exported());
    EXPECT_EQ(texts(environment.notices),
              (Texts{"OTEL_TRACES_EXPORTER: 'zipkin' is not one of otlp, console, none; it is "
                     "ignored.",
                     "OTEL_METRICS_EXPORTER: 'jaeger' is not one of otlp, console, none; it is "
                     "ignored."}));
}

TEST(OtlpVariables, ReportWhatIsNotSupported) {
    const OtelEnvironment environment =
        otel_environment({{endpoint, base},
                          {"OTEL_EXPORTER_OTLP_CLIENT_KEY", "/key.pem"},
                          {"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta"}});
    EXPECT_EQ(texts(environment.notices),
              (Texts{"OTEL_EXPORTER_OTLP_CLIENT_KEY: client certificates are not supported; none "
                     "is sent.",
                     "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE: 'delta' is not "
                     "supported; the temporality is cumulative."}));
}

}  // namespace
}  // namespace cubepi
