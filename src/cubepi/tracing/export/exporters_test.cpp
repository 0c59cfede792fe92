// The exporters to files and to the console.

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/json.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/scoped_test_directory.hpp>
#include <cubepi/tracing/console_exporter.hpp>
#include <cubepi/tracing/export/export_test_support.hpp>
#include <cubepi/tracing/export/span_json.hpp>
#include <cubepi/tracing/jsonl_exporter.hpp>
#include <cubepi/tracing/metric_registry.hpp>

#include "source_tree.hpp"

namespace cubepi {
namespace {

using namespace detail;
using namespace std::chrono_literals;

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

TEST(SpanJson, KeysOrderAndSpaces_EqualThePythonSdk) {
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

TEST(SpanJson, RootWithoutError_HasNoParentOrDescription) {
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

TEST(SpanJson, NumbersAndInvalidUtf8_AreRepresented) {
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

TEST(IsoTime, Time_IsRoundedDownWithFourDigitYears) {
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

TEST(SpanJson, Output_EqualsTheRecordedCubePiFiles) {
    int lines = 0;
    for (const auto& entry : std::filesystem::directory_iterator(
             cubepi::testing::source_path("tests/conformance/traces"))) {
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

constexpr const char* trace_hex = "4bf92f3577b34da6a3ce929d0e0e4736";

std::shared_ptr<SpanData> span_of_trace(std::string name, bool root = true) {
    auto span = make_span(std::move(name));
    span->context.trace_id =
        SpanContext::parse("00-" + std::string(trace_hex) + "-00f067aa0ba902b7-01")->trace_id;
    if (!root) span->parent = SpanId::random();
    return span;
}

ExportResult write(JsonlSpanExporter& exporter, SpanBatch spans) {
    static const auto resource = std::make_shared<const Resource>();
    return run(exporter.export_spans(std::move(spans), resource));
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

std::vector<std::string> names_in(const std::string& text) {
    std::vector<std::string> names;
    for (const std::string& line : lines_of(text))
        names.emplace_back(boost::json::parse(line).at("name").as_string());
    return names;
}

const std::string file_of_day = "t/2026-11-21/" + std::string(trace_hex) + ".jsonl";

TEST(JsonlSpanExporter, EachTrace_HasItsOwnFile) {
    const ScopedTestDirectory directory;
    JsonlSpanExporter exporter(directory / "t");
    const auto other = make_span("other");
    EXPECT_TRUE(write(exporter, {span_of_trace("a"), other, span_of_trace("b")}).ok());
    EXPECT_TRUE(write(exporter, {span_of_trace("c")}).ok());
    EXPECT_EQ(names_in(directory.get(file_of_day.c_str())),
              (std::vector<std::string>{"a", "b", "c"}));
    const std::string other_file = "t/2026-11-21/" + other->context.trace_id.hex() + ".jsonl";
    EXPECT_EQ(names_in(directory.get(other_file.c_str())), std::vector<std::string>{"other"});
}

unsigned mode_of(const std::string& path) {
    struct stat status{};
    EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
    return status.st_mode & 0777U;
}

TEST(JsonlSpanExporter, FilesAndDirectories_ArePrivateToTheUser) {
    const ScopedTestDirectory directory;
    const mode_t before = ::umask(0);
    JsonlSpanExporter exporter(directory / "deep/t");
    EXPECT_TRUE(write(exporter, {span_of_trace("a")}).ok());
    ::umask(before);
    EXPECT_EQ(mode_of(directory / "deep"), 0700u);
    EXPECT_EQ(mode_of(directory / "deep/t"), 0700u);
    EXPECT_EQ(mode_of(directory / "deep/t/2026-11-21"), 0700u);
    EXPECT_EQ(mode_of(directory / ("deep/" + file_of_day).c_str()), 0600u);
}

TEST(JsonlSpanExporter, TraceAcrossMidnight_IsInOneFile) {
    const ScopedTestDirectory directory;
    JsonlSpanExporter exporter(directory / "t");
    const auto at = [](std::string name, std::chrono::hours hours, bool root = false) {
        const auto span = span_of_trace(std::move(name), root);
        span->start += hours;
        return span;
    };
    // Children of the next day, and then the root, which started on the first.
    EXPECT_TRUE(write(exporter, {at("evening", 22h), at("night", 23h)}).ok());
    EXPECT_TRUE(write(exporter, {at("next day", 24h)}).ok());
    EXPECT_TRUE(write(exporter, {at("root", 21h, true)}).ok());
    EXPECT_EQ(names_in(directory.get(file_of_day.c_str())).size(), 4u);
    // Another process that knows only a span of the next day.
    JsonlSpanExporter second(directory / "t");
    EXPECT_TRUE(write(second, {at("child of another process", 25h)}).ok());
    EXPECT_EQ(names_in(directory.get(file_of_day.c_str())).size(), 5u);
    EXPECT_FALSE(std::filesystem::exists(directory / "t/2026-11-22"));
}

TEST(JsonlSpanExporter, BatchWithRoot_UsesTheRootsDate) {
    const ScopedTestDirectory directory;
    JsonlSpanExporter exporter(directory / "t");
    const auto child = span_of_trace("child", false);
    child->start += 24h;
    EXPECT_TRUE(write(exporter, {child, span_of_trace("root")}).ok());
    EXPECT_EQ(names_in(directory.get(file_of_day.c_str())),
              (std::vector<std::string>{"child", "root"}));
}

TEST(JsonlSpanExporter, InvalidTraceId_HasASafeName) {
    const ScopedTestDirectory directory;
    JsonlSpanExporter exporter(directory / "t");
    const auto span = make_span("lost");
    span->context = SpanContext();
    EXPECT_TRUE(write(exporter, {span}).ok());
    EXPECT_EQ(names_in(directory.get("t/2026-11-21/unknown-trace.jsonl")).size(), 1u);
}

TEST(JsonlSpanExporter, IncompleteLineOfOtherProcess_IsEnded) {
    const ScopedTestDirectory directory;
    directory.put(file_of_day.c_str(), "{\"name\": \"whole\"}\n{\"name\": \"cut");
    JsonlSpanExporter exporter(directory / "t");
    EXPECT_TRUE(write(exporter, {span_of_trace("a")}).ok());
    EXPECT_TRUE(write(exporter, {span_of_trace("b")}).ok());
    const auto lines = lines_of(directory.get(file_of_day.c_str()));
    ASSERT_EQ(lines.size(), 4u);
    EXPECT_EQ(lines[1], "{\"name\": \"cut");
    EXPECT_EQ(boost::json::parse(lines[2]).at("name"), "a");
    EXPECT_EQ(boost::json::parse(lines[3]).at("name"), "b");
}

/// Limits the size of files that this process writes, as a full disk does.
class FullDisk {
public:
    explicit FullDisk(rlim_t bytes) {
        std::signal(SIGXFSZ, SIG_IGN);
        ::getrlimit(RLIMIT_FSIZE, &before_);
        rlimit limit = before_;
        limit.rlim_cur = bytes;
        ::setrlimit(RLIMIT_FSIZE, &limit);
    }
    ~FullDisk() {
        ::setrlimit(RLIMIT_FSIZE, &before_);
        std::signal(SIGXFSZ, SIG_DFL);
    }
    FullDisk(const FullDisk&) = delete;
    FullDisk& operator=(const FullDisk&) = delete;

private:
    rlimit before_{};
};

TEST(JsonlSpanExporter, FullDisk_IsReportedAndTheLineRepaired) {
    const ScopedTestDirectory directory;
    JsonlSpanExporter exporter(directory / "t");
    EXPECT_TRUE(write(exporter, {span_of_trace("a")}).ok());
    const auto size = std::filesystem::file_size(directory / file_of_day.c_str());
    {
        const FullDisk full(size + 50);
        const ExportResult result = write(exporter, {span_of_trace("b"), span_of_trace("c")});
        EXPECT_EQ(result.rejected, 2u);
        EXPECT_EQ(result.error, "cannot write to " + (directory / file_of_day.c_str()) +
                                    ": File too large; free space or choose another directory");
    }
    EXPECT_TRUE(write(exporter, {span_of_trace("d")}).ok());
    const auto lines = lines_of(directory.get(file_of_day.c_str()));
    ASSERT_EQ(lines.size(), 3u);
    EXPECT_EQ(lines[1].size(), 50u);
    EXPECT_EQ(boost::json::parse(lines[2]).at("name"), "d");
}

TEST(JsonlSpanExporter, UncreatableDirectory_IsReported) {
    const ScopedTestDirectory directory;
    directory.put("t", "a file");
    JsonlSpanExporter exporter(directory / "t");
    const ExportResult result = write(exporter, {span_of_trace("a"), make_span()});
    EXPECT_EQ(result.rejected, 2u);
    EXPECT_NE(result.error.find("Not a directory"), std::string::npos) << result.error;
    std::filesystem::remove(directory / "t");
    EXPECT_TRUE(write(exporter, {span_of_trace("a")}).ok());
}

TEST(JsonlSpanExporter, Pipe_DoesNotBlock) {
    const ScopedTestDirectory directory;
    std::filesystem::create_directories(directory / "t/2026-11-21");
    ASSERT_EQ(::mkfifo((directory / file_of_day.c_str()).c_str(), 0600), 0);
    JsonlSpanExporter exporter(directory / "t");
    const std::string text(1U << 20U, 'x');
    const auto span = span_of_trace("a");
    span->attributes.set("text", text);
    EXPECT_FALSE(write(exporter, {span}).ok());
}

TEST(JsonlSpanExporter, ManyTraces_StayInTheirFiles) {
    const ScopedTestDirectory directory;
    JsonlSpanExporter exporter(directory / "t");
    const auto first = span_of_trace("first", false);
    first->start += 23h - 1s;
    EXPECT_TRUE(write(exporter, {first}).ok());
    SpanBatch many;
    for (int i = 0; i < 4096; ++i) {
        const auto span = make_span("x");
        span->context.trace_id.bytes[0] = static_cast<std::uint8_t>(i % 8);
        many.push_back(span);
    }
    EXPECT_TRUE(write(exporter, many).ok());
    const auto last = span_of_trace("last", false);
    last->start += 24h;
    EXPECT_TRUE(write(exporter, {last}).ok());
    EXPECT_EQ(names_in(directory.get(file_of_day.c_str())).size(), 2u);
}

TEST(JsonlSpanExporter, TwoProcesses_WriteOneFile) {
    constexpr int batches = 200;
    const ScopedTestDirectory directory;
    const auto write_all = [&](const char* prefix) {
        JsonlSpanExporter exporter(directory / "t");
        bool good = true;
        for (int i = 0; i < batches; ++i) {
            SpanBatch batch;
            for (int n = 0; n < 3; ++n) {
                batch.push_back(span_of_trace(prefix + std::to_string(i * 3 + n)));
            }
            good = write(exporter, std::move(batch)).ok() && good;
        }
        return good;
    };
    std::vector<pid_t> children;
    for (const char* prefix : {"a", "b"}) {
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) _exit(write_all(prefix) ? 0 : 1);
        children.push_back(child);
    }
    for (const pid_t child : children) {
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
    }
    std::set<std::string> names;
    for (const std::string& line : lines_of(directory.get(file_of_day.c_str()))) {
        if (line.empty()) continue;
        names.emplace(boost::json::parse(line).at("name").as_string());
    }
    EXPECT_EQ(names.size(), 2u * 3 * batches);
}

TEST(JsonlSpanExporter, SpanSink_WritesEverySpan) {
    const ScopedTestDirectory directory;
    const auto exporter = std::make_shared<JsonlSpanExporter>(directory / "t");
    {
        SpanSink sink({output_of(exporter, JsonlSpanExporter::limits())}, nullptr, nullptr);
        for (int i = 0; i < 1000; ++i) sink.add(span_of_trace(std::to_string(i)));
        EXPECT_TRUE(sink.shutdown(plenty));
    }
    EXPECT_EQ(names_in(directory.get(file_of_day.c_str())).size(), 1000u);
}

TEST(ConsoleSpanExporter, EachSpan_IsOneLine) {
    const auto span = make_span("chat m");
    span->context = *SpanContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    span->parent = span->context.span_id;
    span->attributes.set("n", std::int64_t{3});
    span->attributes.set("ok", true);
    span->attributes.set("ratio", 0.5);
    span->attributes.set("tags", std::vector<SharedString>{"a", "b"});
    const auto failed = make_span("tool");
    failed->context = span->context;
    failed->status = SpanStatus::error;
    failed->status_description = "no such file";
    std::ostringstream out;
    ConsoleSpanExporter exporter(out);
    EXPECT_TRUE(run(exporter.export_spans({span, failed}, nullptr)).ok());
    EXPECT_EQ(out.str(),
              "01:00:00.000  chat m  1.5 s  ok  n=3  ok=true  ratio=0.5  tags=a,b  "
              "trace=4bf92f3577b34da6a3ce929d0e0e4736 span=00f067aa0ba902b7 "
              "parent=00f067aa0ba902b7\n"
              "01:00:00.000  tool  1.5 s  error: no such file  "
              "trace=4bf92f3577b34da6a3ce929d0e0e4736 span=00f067aa0ba902b7\n");
}

TEST(ConsoleSpanExporter, ControlCharacters_AreNotWritten) {
    const auto span = make_span(
        "a\x1b[31m\n\xc2\x9b"
        "b\x7f\xff");
    span->attributes.set("long", std::string(59, 'x') + "\xc3\xbc" + std::string(100, 'y'));
    std::ostringstream out;
    ConsoleSpanExporter exporter(out);
    EXPECT_TRUE(run(exporter.export_spans({span}, nullptr)).ok());
    const std::string line = out.str();
    EXPECT_NE(line.find("  a [31m   b \xEF\xBF\xBD  "), std::string::npos) << line;
    EXPECT_NE(line.find("long=" + std::string(59, 'x') + "…  trace="), std::string::npos) << line;
}

TEST(ConsoleSpanExporter, FailingStream_IsReported) {
    std::ostringstream out;
    out.setstate(std::ios::badbit);
    ConsoleSpanExporter exporter(out);
    const ExportResult result = run(exporter.export_spans({make_span()}, nullptr));
    EXPECT_EQ(result.rejected, 1u);
    EXPECT_EQ(result.error, "cannot write to the stream");
    EXPECT_TRUE(run(exporter.export_spans({make_span()}, nullptr)).ok());
}

TEST(ConsoleMetricExporter, Metrics_AreWrittenAsPrometheusText) {
    MetricRegistry registry;
    registry.counter("calls", "{call}", "Calls.").add(2, Attributes());
    Resource resource;
    resource.attributes.set("service.name", "bot");
    std::ostringstream out;
    ConsoleMetricExporter exporter(out);
    const auto snapshot = std::make_shared<const MetricSnapshot>(registry.snapshot());
    EXPECT_TRUE(run(exporter.export_metrics(snapshot, std::make_shared<Resource>(resource))).ok());
    EXPECT_NE(out.str().find("calls_total 2\n"), std::string::npos) << out.str();
    EXPECT_NE(out.str().find("service_name=\"bot\""), std::string::npos);
    out.setstate(std::ios::badbit);
    const ExportResult failed =
        run(exporter.export_metrics(snapshot, std::make_shared<Resource>(resource)));
    EXPECT_EQ(failed.rejected, 1u);
}

}  // namespace
}  // namespace cubepi
