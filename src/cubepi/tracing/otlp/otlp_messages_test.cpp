#include <cubepi/tracing/otlp/otlp_messages.hpp>

#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/json.hpp>
#include <cubepi/tracing/otlp/otlp_decoder_test.hpp>
#include <cubepi/tracing/otlp/otlp_samples_test.hpp>
#include <cubepi/tracing/otlp/protobuf_writer.hpp>

namespace cubepi::detail {
namespace {

using otlp_test::Decoder;

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

TEST(ProtobufWriter, WritesTheWireFormat) {
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

TEST(ProtobufWriter, WritesTheLengthOfALongMessage) {
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

TEST(OtlpMessages, ASpanHasTheseBytes) {
    Resource resource;
    resource.attributes.set("a", "b");
    resource.schema_url = "u";
    const std::vector<std::shared_ptr<const SpanData>> spans = {otlp_test::plain_span()};
    const std::string version(scope_version());
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

TEST(OtlpMessages, TracesAreTheSameInProtobufAndJson) {
    const std::vector<std::shared_ptr<const SpanData>> spans = {otlp_test::sample_span(),
                                                                otlp_test::plain_span()};
    const Resource resource = otlp_test::sample_resource();
    const std::string body = traces_protobuf(spans, resource);
    const Json decoded = Decoder(body).message("TracesRequest");
    const Json json = boost::json::parse(traces_json(spans, resource));
    EXPECT_EQ(without_empty(decoded), without_empty(json));
}

TEST(OtlpMessages, MetricsAreTheSameInProtobufAndJson) {
    const MetricSnapshot metrics = otlp_test::sample_metrics();
    const Resource resource = otlp_test::sample_resource();
    const std::string body = metrics_protobuf(metrics, resource);
    const Json decoded = Decoder(body).message("MetricsRequest");
    const Json json = boost::json::parse(metrics_json(metrics, resource));
    EXPECT_EQ(without_empty(decoded), without_empty(json));
}

TEST(OtlpMessages, TheJsonMappingHasHexIdsAndStringsForLongIntegers) {
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

TEST(OtlpMessages, EveryNumberAndTextIsRepresented) {
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
}  // namespace cubepi::detail
