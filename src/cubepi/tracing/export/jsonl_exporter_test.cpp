#include <cubepi/tracing/jsonl_exporter.hpp>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/json.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/scoped_test_directory.hpp>
#include <cubepi/tracing/export/export_test_support.hpp>

namespace cubepi {
namespace {

using namespace std::chrono_literals;

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

TEST(JsonlSpanExporter, WritesAFileForEachTrace) {
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

TEST(JsonlSpanExporter, FilesAndDirectoriesAreThoseOfTheUserOnly) {
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

TEST(JsonlSpanExporter, ATraceThatCrossesMidnightIsInOneFile) {
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

TEST(JsonlSpanExporter, ABatchWithTheRootUsesItsDate) {
    const ScopedTestDirectory directory;
    JsonlSpanExporter exporter(directory / "t");
    const auto child = span_of_trace("child", false);
    child->start += 24h;
    EXPECT_TRUE(write(exporter, {child, span_of_trace("root")}).ok());
    EXPECT_EQ(names_in(directory.get(file_of_day.c_str())),
              (std::vector<std::string>{"child", "root"}));
}

TEST(JsonlSpanExporter, AnInvalidTraceIdHasASafeName) {
    const ScopedTestDirectory directory;
    JsonlSpanExporter exporter(directory / "t");
    const auto span = make_span("lost");
    span->context = SpanContext();
    EXPECT_TRUE(write(exporter, {span}).ok());
    EXPECT_EQ(names_in(directory.get("t/2026-11-21/unknown-trace.jsonl")).size(), 1u);
}

TEST(JsonlSpanExporter, EndsALineThatAnotherProcessLeftIncomplete) {
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

TEST(JsonlSpanExporter, ReportsAFullDiskAndRepairsTheLineAfterIt) {
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

TEST(JsonlSpanExporter, ReportsADirectoryThatCannotBeCreated) {
    const ScopedTestDirectory directory;
    directory.put("t", "a file");
    JsonlSpanExporter exporter(directory / "t");
    const ExportResult result = write(exporter, {span_of_trace("a"), make_span()});
    EXPECT_EQ(result.rejected, 2u);
    EXPECT_NE(result.error.find("Not a directory"), std::string::npos) << result.error;
    std::filesystem::remove(directory / "t");
    EXPECT_TRUE(write(exporter, {span_of_trace("a")}).ok());
}

TEST(JsonlSpanExporter, APipeDoesNotBlockIt) {
    const ScopedTestDirectory directory;
    std::filesystem::create_directories(directory / "t/2026-11-21");
    ASSERT_EQ(::mkfifo((directory / file_of_day.c_str()).c_str(), 0600), 0);
    JsonlSpanExporter exporter(directory / "t");
    const std::string text(1U << 20U, 'x');
    const auto span = span_of_trace("a");
    span->attributes.set("text", text);
    EXPECT_FALSE(write(exporter, {span}).ok());
}

TEST(JsonlSpanExporter, ManyTracesStayInTheirFiles) {
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

TEST(JsonlSpanExporter, TwoProcessesWriteOneFile) {
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

TEST(JsonlSpanExporter, WritesThroughASink) {
    const ScopedTestDirectory directory;
    const auto exporter = std::make_shared<JsonlSpanExporter>(directory / "t");
    {
        SpanSink sink({output_of(exporter, JsonlSpanExporter::limits())}, nullptr, nullptr);
        for (int i = 0; i < 1000; ++i) sink.add(span_of_trace(std::to_string(i)));
        EXPECT_TRUE(sink.shutdown(plenty));
    }
    EXPECT_EQ(names_in(directory.get(file_of_day.c_str())).size(), 1000u);
}

}  // namespace
}  // namespace cubepi
