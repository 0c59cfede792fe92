#include <cubepi/tracing/otel_environment.hpp>

#include <sstream>

#include <gtest/gtest.h>

#include <cubepi/core/run.hpp>
#include <cubepi/tracing/export/export_test_support.hpp>

namespace cubepi {
namespace {

using Texts = std::vector<std::string>;
using namespace std::chrono_literals;

/// Reads variables from a map.
OtelEnvironment otel_environment(std::map<std::string, std::string, std::less<>> variables) {
    return read_otel_environment([&](std::string_view name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        if (found == variables.end()) return std::nullopt;
        return found->second;
    });
}

std::vector<std::string> texts(const std::vector<Notice>& notices) {
    std::vector<std::string> all;
    for (const Notice& notice : notices) all.push_back(notice.text);
    return all;
}

std::string text(const Attributes& attributes, std::string_view key) {
    const AttributeValue* value = attributes.find(key);
    return value ? std::string(value->if_text().value()) : "(absent)";
}

TEST(OtelEnvironment, NoVariables_YieldDefaults) {
    const OtelEnvironment environment = otel_environment({});
    EXPECT_FALSE(environment.disabled);
    EXPECT_TRUE(environment.resource_attributes.empty());
    EXPECT_FALSE(environment.sampling);
    EXPECT_EQ(environment.limits.queue_spans, ExportLimits().queue_spans);
    EXPECT_EQ(environment.reader.interval, 60s);
    EXPECT_TRUE(environment.notices.empty());
}

TEST(OtelEnvironment, EmptyVariables_CountAsUnset) {
    const OtelEnvironment environment =
        read_otel_environment([](std::string_view) { return std::optional<std::string>(" "); });
    EXPECT_TRUE(environment.notices.empty());
    EXPECT_FALSE(environment.traces.exported());
}

TEST(OtelEnvironment, SdkDisabledVariable_DisablesTelemetry) {
    const OtelEnvironment environment = otel_environment({{"OTEL_SDK_DISABLED", "TRUE"},
                                                          {"OTEL_TRACES_EXPORTER", "console"},
                                                          {"OTEL_METRICS_EXPORTER", "console"},
                                                          {"OTEL_SERVICE_NAME", "bot"}});
    EXPECT_TRUE(environment.disabled);
    std::ostringstream console;
    EXPECT_TRUE(span_outputs(environment, console).empty());
    EXPECT_TRUE(metric_exporters(environment, console).empty());
    TracerOptions options;
    apply(environment, options, console);
    EXPECT_TRUE(options.exporters.empty());
    EXPECT_TRUE(options.resource_attributes.empty());
    EXPECT_FALSE(otel_environment({{"OTEL_SDK_DISABLED", "false"}}).disabled);
}

TEST(OtelEnvironment, OtherWords_KeepTelemetryEnabled) {
    const OtelEnvironment environment = otel_environment({{"OTEL_SDK_DISABLED", "1"}});
    EXPECT_FALSE(environment.disabled);
    EXPECT_EQ(texts(environment.notices),
              Texts{"OTEL_SDK_DISABLED: '1' is not true or false; 'false' is used."});
}

TEST(OtelEnvironment, ResourceAttributes_AreDecoded) {
    const OtelEnvironment environment = otel_environment(
        {{"OTEL_RESOURCE_ATTRIBUTES",
          "deployment.environment.name=test , team=a%2Cb%3D%C3%BC,empty=,a%20key=1,x=y=z,team=c"}});
    const Attributes& attributes = environment.resource_attributes;
    EXPECT_EQ(text(attributes, "deployment.environment.name"), "test");
    EXPECT_EQ(text(attributes, "team"), "c");
    EXPECT_EQ(text(attributes, "empty"), "");
    EXPECT_EQ(text(attributes, "a key"), "1");
    EXPECT_EQ(text(attributes, "x"), "y=z");
    EXPECT_EQ(attributes.size(), 5u);
    EXPECT_EQ(text(otel_environment({{"OTEL_RESOURCE_ATTRIBUTES", "k=a%2Cb%3D%C3%BC%41"}})
                       .resource_attributes,
                   "k"),
              "a,b=üA");
}

TEST(OtelEnvironment, MalformedAttributeEntry_DiscardsTheList) {
    for (const char* list : {"a=1,b", "a=1,=2", "a=1,b=%", "a=1,b=%4", "a=1,b=%zz", "a=1,b=%ff"}) {
        const OtelEnvironment environment =
            otel_environment({{"OTEL_RESOURCE_ATTRIBUTES", list}, {"OTEL_SERVICE_NAME", "bot"}});
        EXPECT_EQ(environment.resource_attributes.size(), 1u) << list;
        EXPECT_EQ(text(environment.resource_attributes, "service.name"), "bot");
        EXPECT_EQ(texts(environment.notices),
                  Texts{"OTEL_RESOURCE_ATTRIBUTES: entry 2 is not a key=value pair with "
                        "percent-encoded UTF-8; the whole variable is ignored."});
    }
}

TEST(OtelEnvironment, ServiceNameVariable_TakesPrecedence) {
    EXPECT_EQ(text(otel_environment({{"OTEL_SERVICE_NAME", "bot"},
                                     {"OTEL_RESOURCE_ATTRIBUTES", "service.name=other"}})
                       .resource_attributes,
                   "service.name"),
              "bot");
    EXPECT_EQ(text(otel_environment({{"OTEL_RESOURCE_ATTRIBUTES", "service.name=other"}})
                       .resource_attributes,
                   "service.name"),
              "other");
}

std::string sampling(const char* sampler, const char* argument = "") {
    const OtelEnvironment environment =
        otel_environment({{"OTEL_TRACES_SAMPLER", sampler}, {"OTEL_TRACES_SAMPLER_ARG", argument}});
    if (!environment.sampling) return "none";
    return std::to_string(static_cast<int>(environment.sampling->ratio * 100)) + "%" +
           (environment.sampling->follow_caller ? " caller" : "") +
           (environment.sampling->failed_runs ? " failed" : "");
}

TEST(OtelEnvironment, SamplerVariable_SelectsTheSampler) {
    EXPECT_EQ(sampling(""), "none");
    EXPECT_EQ(sampling("always_on", "0.5"), "100% failed");
    EXPECT_EQ(sampling("always_off"), "0%");
    EXPECT_EQ(sampling("traceidratio", "0.25"), "25% failed");
    EXPECT_EQ(sampling("traceidratio"), "100% failed");
    EXPECT_EQ(sampling("traceidratio", "0"), "0%");
    EXPECT_EQ(sampling("PARENTBASED_always_on"), "100% caller failed");
    EXPECT_EQ(sampling("parentbased_always_off"), "0% caller");
    EXPECT_EQ(sampling("parentbased_traceidratio", "1e-1"), "10% caller failed");
}

TEST(OtelEnvironment, InvalidSamplerOrArgument_IsIgnored) {
    const OtelEnvironment unknown = otel_environment({{"OTEL_TRACES_SAMPLER", "jaeger_remote"}});
    EXPECT_FALSE(unknown.sampling);
    EXPECT_EQ(texts(unknown.notices),
              Texts{"OTEL_TRACES_SAMPLER: 'jaeger_remote' is not one of always_on, always_off, "
                    "traceidratio, parentbased_always_on, parentbased_always_off, "
                    "parentbased_traceidratio; parentbased_always_on is used."});
    for (const char* argument : {"1.5", "-0.1", "half", "nan", "0.5x"}) {
        const OtelEnvironment environment = otel_environment(
            {{"OTEL_TRACES_SAMPLER", "traceidratio"}, {"OTEL_TRACES_SAMPLER_ARG", argument}});
        EXPECT_EQ(environment.sampling->ratio, 1);
        EXPECT_EQ(texts(environment.notices),
                  Texts{"OTEL_TRACES_SAMPLER_ARG: '" + std::string(argument) +
                        "' is not a number from 0 to 1; 1 is used."});
    }
    EXPECT_TRUE(otel_environment({{"OTEL_TRACES_SAMPLER_ARG", "half"}}).notices.empty());
}

TEST(OtelEnvironment, QueueLimits_AreRead) {
    const OtelEnvironment environment = otel_environment({{"OTEL_BSP_MAX_QUEUE_SIZE", "10"},
                                                          {"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "5"},
                                                          {"OTEL_BSP_SCHEDULE_DELAY", "0"},
                                                          {"OTEL_BSP_EXPORT_TIMEOUT", "7"},
                                                          {"OTEL_METRIC_EXPORT_INTERVAL", "8"},
                                                          {"OTEL_METRIC_EXPORT_TIMEOUT", "9"}});
    EXPECT_EQ(environment.limits.queue_spans, 10u);
    EXPECT_EQ(environment.limits.batch_spans, 5u);
    EXPECT_EQ(environment.limits.delay, 0ms);
    EXPECT_EQ(environment.limits.export_timeout, 7ms);
    EXPECT_EQ(environment.reader.interval, 8ms);
    EXPECT_EQ(environment.reader.export_timeout, 9ms);
    EXPECT_TRUE(environment.notices.empty());
    EXPECT_EQ(otel_environment({{"OTEL_BSP_MAX_QUEUE_SIZE", "10"}}).limits.batch_spans, 10u);
    EXPECT_GT(otel_environment({{"OTEL_BSP_EXPORT_TIMEOUT", "0"}}).limits.export_timeout, 24h);
}

TEST(OtelEnvironment, InvalidNumbers_YieldDefaults) {
    for (const char* value :
         {"0", "-1", "1.5", "0x10", "2147483648", "99999999999999999999", "x"}) {
        const OtelEnvironment environment = otel_environment({{"OTEL_BSP_MAX_QUEUE_SIZE", value}});
        EXPECT_EQ(environment.limits.queue_spans, 2048u);
        EXPECT_EQ(texts(environment.notices),
                  Texts{"OTEL_BSP_MAX_QUEUE_SIZE: '" + std::string(value) +
                        "' is not a positive integer; 2048 is used."});
    }
    EXPECT_EQ(texts(otel_environment({{"OTEL_BSP_SCHEDULE_DELAY", "-5"}}).notices),
              Texts{"OTEL_BSP_SCHEDULE_DELAY: '-5' is not an integer from 0 (milliseconds); 5000 "
                    "ms is used."});
    EXPECT_EQ(texts(otel_environment({{"OTEL_METRIC_EXPORT_INTERVAL", "0"}}).notices),
              Texts{"OTEL_METRIC_EXPORT_INTERVAL: '0' is not a positive integer (milliseconds); "
                    "60000 ms is used."});
}

TEST(OtelEnvironment, BatchSize_IsLimitedToTheQueue) {
    const OtelEnvironment environment = otel_environment(
        {{"OTEL_BSP_MAX_QUEUE_SIZE", "10"}, {"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "11"}});
    EXPECT_EQ(environment.limits.batch_spans, 10u);
    EXPECT_EQ(
        texts(environment.notices),
        Texts{"OTEL_BSP_MAX_EXPORT_BATCH_SIZE: 11 is more than the queue holds; 10 is used."});
}

TEST(OtelEnvironment, MalformedValues_AreShownInOneShortLine) {
    const OtelEnvironment environment =
        otel_environment({{"OTEL_SDK_DISABLED", "a\x1b[2J\nb" + std::string(100, 'x') + "\xff"}});
    EXPECT_EQ(texts(environment.notices),
              Texts{"OTEL_SDK_DISABLED: 'a?[2J?b" + std::string(53, 'x') +
                    "...' is not true or false; 'false' is used."});
}

TEST(OtelEnvironment, Exporters_AreMadeWithTheirLimits) {
    const OtelEnvironment environment = otel_environment({{"OTEL_TRACES_EXPORTER", "otlp,console"},
                                                          {"OTEL_METRICS_EXPORTER", "console"},
                                                          {"OTEL_BSP_MAX_QUEUE_SIZE", "7"}});
    std::ostringstream console;
    const std::vector<SpanSink::Output> outputs = span_outputs(environment, console);
    ASSERT_EQ(outputs.size(), 2u);
    EXPECT_EQ(outputs[0].exporter->name(), "otlp");
    EXPECT_EQ(outputs[1].exporter->name(), "console");
    EXPECT_EQ(outputs[1].limits.queue_spans, 7u);
    EXPECT_TRUE(run(outputs[1].exporter->export_spans({make_span("chat m")}, nullptr)).ok());
    EXPECT_NE(console.str().find("chat m"), std::string::npos);
    const auto exporters = metric_exporters(environment, console);
    ASSERT_EQ(exporters.size(), 1u);
    EXPECT_EQ(exporters[0]->name(), "console");
}

TEST(OtelEnvironment, NamesSetInOptions_AreRetained) {
    const OtelEnvironment environment =
        otel_environment({{"OTEL_SERVICE_NAME", "of the environment"},
                          {"OTEL_RESOURCE_ATTRIBUTES",
                           "service.version=2,team=a,telemetry.sdk.name=x,service.instance.id=i"},
                          {"OTEL_TRACES_SAMPLER", "always_off"}});
    std::ostringstream console;
    TracerOptions options;
    options.service_version = "1";
    apply(environment, options, console);
    EXPECT_EQ(options.sampling.ratio, 0);
    const Tracer tracer(options);
    const Attributes& attributes = tracer.resource().attributes;
    EXPECT_EQ(text(attributes, "service.name"), "of the environment");
    EXPECT_EQ(text(attributes, "service.version"), "1");
    EXPECT_EQ(text(attributes, "team"), "a");
    EXPECT_EQ(text(attributes, "service.instance.id"), "i");
    EXPECT_EQ(text(attributes, "telemetry.sdk.name"), "cubepi");

    MeterOptions meter_options;
    apply(environment, meter_options, console);
    EXPECT_NE(Meter(meter_options).prometheus_text().find("service_name=\"of the environment\""),
              std::string::npos);
    EXPECT_NE(Meter().prometheus_text().find("service_name=\"cubepi\""), std::string::npos);
    Resource resource;
    resource.attributes.set("service.name", "set");
    meter_options.resource = resource;
    apply(environment, meter_options, console);
    EXPECT_EQ(text(meter_options.resource->attributes, "service.name"), "set");
    EXPECT_EQ(text(meter_options.resource->attributes, "team"), "a");
}

TEST(OtelEnvironment, ProcessVariables_AreRead) {
    // The test sets no variables: those of the machine may be any, and must not fail the program.
    EXPECT_NO_THROW((void)process_otel_environment());
}

constexpr const char* endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT";
constexpr const char* traces_endpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
constexpr const char* base = "http://collector:4318";

std::string traces_url(const std::string& value) {
    return otel_environment({{endpoint, value}}).traces.options.url;
}

TEST(OtlpVariables, CommonEndpoint_GetsTheSignalAppended) {
    EXPECT_EQ(traces_url("http://collector:4318"), "http://collector:4318/v1/traces");
    EXPECT_EQ(traces_url("http://collector:4318/"), "http://collector:4318/v1/traces");
    EXPECT_EQ(traces_url("HTTPS://c.example/a/b//"), "HTTPS://c.example/a/b/v1/traces");
    EXPECT_EQ(traces_url("https://c.example/a?tenant=1"), "https://c.example/a/v1/traces?tenant=1");
    EXPECT_EQ(otel_environment({{endpoint, base}}).metrics.options.url,
              "http://collector:4318/v1/metrics");
}

TEST(OtlpVariables, SignalEndpoint_IsUsedUnchanged) {
    const OtelEnvironment environment = otel_environment(
        {{traces_endpoint, "https://t.example/in"}, {endpoint, "http://collector:4318"}});
    EXPECT_EQ(environment.traces.options.url, "https://t.example/in");
    EXPECT_EQ(environment.metrics.options.url, "http://collector:4318/v1/metrics");
    EXPECT_EQ(otel_environment({{traces_endpoint, "https://t.example"}}).traces.options.url,
              "https://t.example");
    EXPECT_TRUE(environment.notices.empty());
}

TEST(OtlpVariables, NoEndpointOrExporter_ExportsNothing) {
    const OtelEnvironment environment =
        otel_environment({{"OTEL_EXPORTER_OTLP_HEADERS", "a=b"}, {"OTEL_SERVICE_NAME", "bot"}});
    EXPECT_FALSE(environment.traces.exported());
    EXPECT_FALSE(environment.metrics.exported());
    const OtelEnvironment traces = otel_environment({{traces_endpoint, base}});
    EXPECT_TRUE(traces.traces.otlp);
    EXPECT_FALSE(traces.metrics.otlp);
}

TEST(OtlpVariables, MalformedEndpoint_TurnsOtlpOff) {
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

TEST(OtlpVariables, MalformedSignalEndpoint_UsesTheCommonOne) {
    const OtelEnvironment environment =
        otel_environment({{traces_endpoint, "collector"}, {endpoint, base}});
    EXPECT_EQ(environment.traces.options.url, "http://collector:4318/v1/traces");
    EXPECT_EQ(texts(environment.notices),
              Texts{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: the value is not an http:// or https:// "
                    "URL; OTEL_EXPORTER_OTLP_ENDPOINT is used."});
}

TEST(OtlpVariables, Headers_AreDecoded) {
    const OtelEnvironment environment = otel_environment(
        {{endpoint, base},
         {"OTEL_EXPORTER_OTLP_HEADERS", " x-key = a%20b%2Cc== , empty=,,plus=a+b,"}});
    const std::vector<HttpHeader> expected = {{"x-key", "a b,c=="}, {"empty", ""}, {"plus", "a+b"}};
    EXPECT_EQ(environment.traces.options.headers, expected);
    EXPECT_EQ(environment.metrics.options.headers, expected);
    EXPECT_TRUE(environment.notices.empty());
}

TEST(OtlpVariables, SignalHeaders_ReplaceCommonHeaders) {
    const OtelEnvironment environment =
        otel_environment({{endpoint, base},
                          {"OTEL_EXPORTER_OTLP_HEADERS", "a=1"},
                          {"OTEL_EXPORTER_OTLP_METRICS_HEADERS", "b=2"}});
    EXPECT_EQ(environment.traces.options.headers, (std::vector<HttpHeader>{{"a", "1"}}));
    EXPECT_EQ(environment.metrics.options.headers, (std::vector<HttpHeader>{{"b", "2"}}));
}

TEST(OtlpVariables, MalformedHeaders_AreOmittedAndNotShown) {
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

TEST(OtlpVariables, ProtocolVariable_SelectsTheProtocol) {
    const auto protocol = [](const char* value) {
        return otel_environment({{endpoint, base}, {"OTEL_EXPORTER_OTLP_PROTOCOL", value}})
            .traces.options.protocol;
    };
    EXPECT_EQ(protocol(""), OTLPProtocol::http_protobuf);
    EXPECT_EQ(protocol("http/protobuf"), OTLPProtocol::http_protobuf);
    EXPECT_EQ(protocol(" HTTP/JSON "), OTLPProtocol::http_json);
    const OtelEnvironment mixed =
        otel_environment({{endpoint, base},
                          {"OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"},
                          {"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/protobuf"}});
    EXPECT_EQ(mixed.traces.options.protocol, OTLPProtocol::http_json);
    EXPECT_EQ(mixed.metrics.options.protocol, OTLPProtocol::http_protobuf);
}

TEST(OtlpVariables, Grpc_IsRefused) {
    const OtelEnvironment environment = otel_environment(
        {{endpoint, "http://collector:4317"}, {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc"}});
    EXPECT_FALSE(environment.traces.otlp);
    EXPECT_TRUE(environment.metrics.otlp);
    EXPECT_EQ(texts(environment.notices),
              Texts{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: OTLP over gRPC is not supported; no "
                    "traces are sent. Set it to http/protobuf, and the endpoint to the "
                    "collector's port for HTTP (4318 by default)."});
}

TEST(OtlpVariables, UnknownProtocol_UsesTheDefault) {
    const OtelEnvironment environment =
        otel_environment({{endpoint, base}, {"OTEL_EXPORTER_OTLP_PROTOCOL", "carrier pigeon"}});
    EXPECT_TRUE(environment.traces.otlp);
    EXPECT_EQ(environment.traces.options.protocol, OTLPProtocol::http_protobuf);
    EXPECT_EQ(texts(environment.notices),
              Texts{"OTEL_EXPORTER_OTLP_PROTOCOL: 'carrier pigeon' is not http/protobuf or "
                    "http/json; 'http/protobuf' is used."});
}

TEST(OtlpVariables, CompressionTimeoutAndCertificate_AreRead) {
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

TEST(OtlpVariables, ZeroTimeout_MeansNoLimit) {
    EXPECT_GT(otel_environment({{endpoint, base}, {"OTEL_EXPORTER_OTLP_TIMEOUT", "0"}})
                  .traces.options.timeout,
              24h);
}

TEST(OtlpVariables, MalformedValue_FallsBackToCommonOrDefault) {
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

TEST(OtlpVariables, ExporterVariable_SelectsTheExporters) {
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

TEST(OtlpVariables, OnlyExporterNamed_SendsToThisMachine) {
    const OtelEnvironment environment = otel_environment({{"OTEL_TRACES_EXPORTER", "otlp"}});
    EXPECT_TRUE(environment.traces.otlp);
    EXPECT_EQ(environment.traces.options.url, "");  // the default of OTLPOptions
}

TEST(OtlpVariables, UnknownExporters_AreIgnored) {
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

TEST(OtlpVariables, UnsupportedOptions_AreReported) {
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
