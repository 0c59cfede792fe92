#include <cubepi/tracing/export/span_json.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include <cubepi/core/json.hpp>
#include <cubepi/tracing/export/export_test_support.hpp>
#include <cubepi/tracing/export/json_text.hpp>

namespace cubepi::detail {
namespace {

std::shared_ptr<SpanData> example() {
    const auto span = make_span("chat faux-1");
    span->context = *SpanContext::parse("00-0b1b2ae36f97daa9ba8a803ecb6dc6c3-444a292bc8bac3db-01");
    span->parent.bytes = {0x69, 0xe1, 0xb3, 0x43, 0xdd, 0xc9, 0x50, 0x1b};
    span->kind = SpanKind::client;
    span->attributes.set("text", "a \"b\" \\ \n\t\x01 ü");
    span->attributes.set("yes", true);
    span->attributes.set("count", std::int64_t{-38});
    span->attributes.set("time", 0.000369337);
    span->attributes.set("whole", 2.0);
    span->attributes.set("list", std::vector<SharedString>{"a", "b"});
    span->attributes.set("none", std::vector<SharedString>{});
    return span;
}

TEST(SpanJson, HasTheKeysTheirOrderAndTheSpacesOfThePythonSdk) {
    const auto span = example();
    span->status = SpanStatus::error;
    span->status_description = "tool error";
    SpanEvent event;
    event.name = "exception";
    event.time = span->end;
    event.attributes.set("exception.type", "E");
    span->events = {event, event};
    SpanLink link;
    link.context = span->context;
    span->links = {link};
    Resource resource;
    resource.attributes.set("service.name", "s");
    std::string line;
    append_span_line(line, *span, resource_json(resource));
    EXPECT_EQ(
        line,
        R"({"name": "chat faux-1", "context": {"trace_id": "0x0b1b2ae36f97daa9ba8a803ecb6dc6c3", )"
        R"("span_id": "0x444a292bc8bac3db", "trace_state": "[]"}, "kind": "SpanKind.CLIENT", )"
        R"("parent_id": "0x69e1b343ddc9501b", "start_time": "2026-11-21T01:00:00.000000Z", )"
        R"("end_time": "2026-11-21T01:00:01.500000Z", "status": {"status_code": "ERROR", )"
        R"("description": "tool error"}, "attributes": {"text": "a \"b\" \\ \n\t\u0001 ü", )"
        R"("yes": true, "count": -38, "time": 0.000369337, "whole": 2.0, "list": ["a", "b"], )"
        R"("none": []}, "events": [{"name": "exception", "timestamp": )"
        R"("2026-11-21T01:00:01.500000Z", "attributes": {"exception.type": "E"}}, )"
        R"({"name": "exception", "timestamp": "2026-11-21T01:00:01.500000Z", )"
        R"("attributes": {"exception.type": "E"}}], "links": [{"context": {"trace_id": )"
        R"("0x0b1b2ae36f97daa9ba8a803ecb6dc6c3", "span_id": "0x444a292bc8bac3db", )"
        R"("trace_state": "[]"}, "attributes": {}}], "resource": {"attributes": )"
        R"({"service.name": "s"}, "schema_url": "https://opentelemetry.io/schemas/1.41.0"}})"
        "\n");
}

TEST(SpanJson, ARootHasNoParentAndADescriptionBelongsToAnError) {
    const auto span = make_span();
    span->status_description = "not shown";
    std::string line;
    append_span_line(line, *span, "{}");
    EXPECT_NE(line.find(R"("parent_id": null)"), std::string::npos);
    EXPECT_NE(line.find(R"("status": {"status_code": "UNSET"}, "attributes": {}, "events": [], )"
                        R"("links": [], "resource": {}})"),
              std::string::npos)
        << line;
}

TEST(SpanJson, RepresentsEveryNumberAndReplacesInvalidUtf8) {
    const auto span = make_span("n\xff");
    const double infinity = std::numeric_limits<double>::infinity();
    span->attributes.set("nan", std::nan(""));
    span->attributes.set("inf", infinity);
    span->attributes.set("-inf", -infinity);
    span->attributes.set("big", 1e300);
    span->attributes.set("min", std::numeric_limits<std::int64_t>::min());
    std::string line;
    append_span_line(line, *span, "{}");
    const Json json = boost::json::parse(line);
    EXPECT_EQ(json.at("name"), "n\xEF\xBF\xBD");
    EXPECT_EQ(json.at("attributes").at("nan"), "NaN");
    EXPECT_EQ(json.at("attributes").at("inf"), "Infinity");
    EXPECT_EQ(json.at("attributes").at("-inf"), "-Infinity");
    EXPECT_EQ(json.at("attributes").at("big"), 1e300);
    EXPECT_EQ(json.at("attributes").at("min"), std::numeric_limits<std::int64_t>::min());
}

std::string iso(std::chrono::system_clock::time_point time) {
    std::string text;
    append_iso_time(text, time);
    return text;
}

TEST(IsoTime, IsRoundedDownToMicrosecondsAndLimitedToFourDigitYears) {
    using namespace std::chrono;
    const system_clock::time_point day = sys_days(year(2026) / 11 / 21);
    EXPECT_EQ(iso(day + nanoseconds(1999)), "2026-11-21T00:00:00.000001Z");
    EXPECT_EQ(iso(day - nanoseconds(1)), "2026-11-20T23:59:59.999999Z");
    EXPECT_EQ(iso(system_clock::time_point() - hours(5)), "1970-01-01T00:00:00.000000Z");
    EXPECT_EQ(iso(system_clock::time_point::max()).substr(0, 5), "2262-");
}

/// The value of a recorded attribute as the recorder had it.
AttributeValue value_of(const Json& json) {
    if (json.is_bool()) return json.as_bool();
    if (json.is_int64()) return json.as_int64();
    if (json.is_double()) return json.as_double();
    if (json.is_string()) return SharedString(std::string_view(json.as_string()));
    std::vector<SharedString> list;
    for (const Json& one : json.as_array()) list.emplace_back(std::string_view(one.as_string()));
    return list;
}

Attributes attributes_of(const Json& json) {
    Attributes attributes;
    for (const auto& [key, value] : json.as_object())
        attributes.add(std::string(key), value_of(value));
    return attributes;
}

std::chrono::system_clock::time_point time_of(const Json& json) {
    const std::string text(json.as_string());
    const auto number = [&text](std::size_t at, std::size_t size) {
        return std::stoi(text.substr(at, size));
    };
    using namespace std::chrono;
    const sys_days day =
        year(number(0, 4)) / month(static_cast<unsigned>(number(5, 2))) / number(8, 2);
    return day + hours(number(11, 2)) + minutes(number(14, 2)) + seconds(number(17, 2)) +
           microseconds(number(20, 6));
}

SpanContext context_of(const Json& json) {
    return *SpanContext::parse("00-" + std::string(json.at("trace_id").as_string()).substr(2) +
                               "-" + std::string(json.at("span_id").as_string()).substr(2) + "-01");
}

SpanData span_of(const Json& json) {
    SpanData span;
    span.name = std::string(json.at("name").as_string());
    span.context = context_of(json.at("context"));
    if (json.at("parent_id").is_string()) {
        const std::string parent(json.at("parent_id").as_string());
        span.parent =
            SpanContext::parse("00-" + std::string(32, '1') + "-" + parent.substr(2) + "-01")
                ->span_id;
    }
    span.kind = json.at("kind") == "SpanKind.CLIENT" ? SpanKind::client : SpanKind::internal;
    span.start = time_of(json.at("start_time"));
    span.end = time_of(json.at("end_time"));
    const JsonObject& status = json.at("status").as_object();
    if (status.at("status_code") == "ERROR") span.status = SpanStatus::error;
    if (const Json* text = status.if_contains("description"))
        span.status_description = std::string(text->as_string());
    span.attributes = attributes_of(json.at("attributes"));
    for (const Json& one : json.at("events").as_array()) {
        SpanEvent event;
        event.name = std::string(one.at("name").as_string());
        event.time = time_of(one.at("timestamp"));
        event.attributes = attributes_of(one.at("attributes"));
        span.events.push_back(std::move(event));
    }
    return span;
}

/// Returns true if an attribute has a value that is not in the data model of spans: the Python tracer lets objects in metadata
/// through.
bool has_object(const Json& json) {
    for (const auto& [key, value] : json.at("attributes").as_object()) {
        if (value.is_object()) return true;
    }
    return false;
}

TEST(SpanJson, EqualsTheRecordedFilesOfCubePi) {
    int lines = 0;
    for (const auto& entry : std::filesystem::directory_iterator(CUBEPI_TRACE_FIXTURES)) {
        const std::string name = entry.path().filename().string();
        if (!name.ends_with(".jsonl") || name.ends_with(".stream.jsonl")) continue;
        std::ifstream file(entry.path());
        for (std::string line; std::getline(file, line);) {
            const Json recorded = boost::json::parse(line);
            if (has_object(recorded)) continue;
            Resource resource;
            resource.attributes = attributes_of(recorded.at("resource").at("attributes"));
            std::string written;
            append_span_line(written, span_of(recorded), resource_json(resource));
            EXPECT_EQ(boost::json::serialize(boost::json::parse(written)),
                      boost::json::serialize(recorded))
                << name;
            ++lines;
        }
    }
    EXPECT_GT(lines, 80);
}

}  // namespace
}  // namespace cubepi::detail
