#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include <cubepi/core/run.hpp>
#include <cubepi/net/http_client.hpp>
#include <cubepi/testing/memory_transport.hpp>
#include <cubepi/tracing/jsonl_exporter.hpp>
#include <cubepi/tracing/otlp_exporter.hpp>
#include <cubepi/tracing/span_sink.hpp>

// The way of a span from the run to a file and to a collector, against the same bytes written and sent without the library.

namespace cubepi::bench {
namespace {

constexpr std::size_t batch = 512;
constexpr std::size_t round = 3 * batch;  // fits the queue

/// A model call, with the attributes that it has without recorded content.
std::shared_ptr<const SpanData> chat_span() {
    auto span = std::make_shared<SpanData>();
    span->name = "chat claude-sonnet-4-5";
    span->context.trace_id = TraceId::random();
    span->context.span_id = SpanId::random();
    span->parent = SpanId::random();
    span->kind = SpanKind::client;
    span->start = std::chrono::system_clock::now();
    span->end = span->start + std::chrono::milliseconds(1234);
    Attributes& all = span->attributes;
    all.set("gen_ai.operation.name", "chat");
    all.set("gen_ai.provider.name", "anthropic");
    all.set("gen_ai.request.model", "claude-sonnet-4-5");
    all.set("gen_ai.request.stream", true);
    all.set("cubepi.run_id", "b24f2a2c796944fe8f41200e1d32489c");
    all.set("gen_ai.response.time_to_first_chunk", 0.412);
    all.set("gen_ai.usage.input_tokens", std::int64_t{4242});
    all.set("gen_ai.usage.output_tokens", std::int64_t{190});
    all.set("gen_ai.usage.cache_read.input_tokens", std::int64_t{4000});
    all.set("gen_ai.response.finish_reasons", std::vector<SharedString>{"tool_use"});
    all.set("gen_ai.response.model", "claude-sonnet-4-5-20250929");
    all.set("gen_ai.response.id", "msg_01XFDUDYJgAACzvnptvVoYEL");
    return span;
}

std::shared_ptr<const Resource> resource() {
    Resource made;
    made.attributes.set("service.name", "bench");
    made.attributes.set("service.instance.id", "b24f2a2c-7969-44fe-8f41-200e1d32489c");
    return std::make_shared<const Resource>(std::move(made));
}

class Nothing final : public SpanExporter {
public:
    Task<ExportResult> export_spans(SpanBatch, std::shared_ptr<const Resource>) override {
        co_return ExportResult();
    }
    std::string name() const override { return "nothing"; }
};

void report(benchmark::State& state) {
    state.counters["us_per_span"] =
        benchmark::Counter(static_cast<double>(state.iterations()) * round / 1e6,
                           benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void pass_spans(benchmark::State& state, std::shared_ptr<SpanExporter> exporter) {
    SpanSink::Output output;
    output.exporter = std::move(exporter);
    SpanSink sink({output}, resource(), {});
    const std::shared_ptr<const SpanData> span = chat_span();
    for (auto _ : state) {
        for (std::size_t i = 0; i < round; ++i) sink.add(span);
        if (!sink.force_flush(std::chrono::seconds(60))) state.SkipWithError("not exported");
    }
    const ExportCounts counts = sink.counts().front();
    if (counts.dropped + counts.failed > 0) state.SkipWithError("spans were lost");
    report(state);
}

void spans_to_nothing(benchmark::State& state) { pass_spans(state, std::make_shared<Nothing>()); }
BENCHMARK(spans_to_nothing)->UseRealTime();

/// A directory that is emptied now and then by the caller.
struct Directory {
    explicit Directory(const char* name) : path(std::filesystem::temp_directory_path() / name) {
        std::filesystem::remove_all(path);
        std::filesystem::create_directories(path);
    }
    ~Directory() { std::filesystem::remove_all(path); }
    std::filesystem::path path;
};

void spans_to_files(benchmark::State& state) {
    const Directory directory("cubepi-bench-spans");
    pass_spans(state, std::make_shared<JsonlSpanExporter>(directory.path));
}
// A file of 70 MB at most, in memory if available.
BENCHMARK(spans_to_files)->UseRealTime()->Iterations(50);

/// The lines of a batch, as the exporter writes them.
std::string lines_of_a_batch() {
    const Directory directory("cubepi-bench-lines");
    JsonlSpanExporter exporter(directory.path);
    (void)run(exporter.export_spans(SpanBatch(batch, chat_span()), resource()));
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory.path)) {
        if (!entry.is_regular_file()) continue;
        std::ifstream file(entry.path(), std::ios::binary);
        return std::string(std::istreambuf_iterator<char>(file), {});
    }
    throw std::runtime_error("nothing was written");
}

void bare_lines(benchmark::State& state) {
    const std::string lines = lines_of_a_batch();
    const Directory directory("cubepi-bench-bare-spans");
    const std::string path = (directory.path / "trace.jsonl").string();
    for (auto _ : state) {
        for (std::size_t i = 0; i < round; i += batch) {
            const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
            benchmark::DoNotOptimize(write(file, lines.data(), lines.size()));
            close(file);
        }
    }
    report(state);
}
BENCHMARK(bare_lines)->UseRealTime()->Iterations(50);

/// A collector on loopback that accepts everything. One connection at a time, which is kept open.
class LocalCollector {
public:
    LocalCollector() : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
        sockaddr_in address = {};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        auto* const any = reinterpret_cast<sockaddr*>(&address);
        socklen_t size = sizeof(address);
        if (bind(listener_, any, size) != 0 || listen(listener_, 8) != 0 ||
            getsockname(listener_, any, &size) != 0)
            throw std::runtime_error("cannot listen on loopback");
        url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/v1/traces";
        thread_ = std::thread([this] { serve(); });
    }
    ~LocalCollector() {
        shutdown(listener_, SHUT_RDWR);
        if (const int peer = peer_; peer >= 0) shutdown(peer, SHUT_RDWR);
        thread_.join();
        close(listener_);
    }
    LocalCollector(const LocalCollector&) = delete;
    LocalCollector& operator=(const LocalCollector&) = delete;
    const std::string& url() const noexcept { return url_; }

private:
    void serve() {
        while ((peer_ = accept(listener_, nullptr, nullptr)) >= 0) {
            std::string bytes;
            while (answer(peer_, bytes)) {
            }
            close(peer_.exchange(-1));
        }
    }
    /// Reads a request and answers it. Returns false at the end of the connection.
    static bool answer(int peer, std::string& bytes) {
        static constexpr std::string_view ok = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        std::size_t end = 0;
        while ((end = bytes.find("\r\n\r\n")) == std::string::npos) {
            if (!more(peer, bytes)) return false;
        }
        std::size_t length = 0;
        for (const char* name : {"\r\nContent-Length: ", "\r\ncontent-length: "}) {
            const std::size_t at = bytes.find(name);
            if (at == std::string::npos || at > end) continue;
            std::from_chars(bytes.data() + at + std::strlen(name), bytes.data() + end, length);
        }
        while (bytes.size() < end + 4 + length) {
            if (!more(peer, bytes)) return false;
        }
        bytes.erase(0, end + 4 + length);
        return send(peer, ok.data(), ok.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(ok.size());
    }
    static bool more(int peer, std::string& bytes) {
        std::array<char, 65536> buffer{};
        const ssize_t got = recv(peer, buffer.data(), buffer.size(), 0);
        if (got > 0) bytes.append(buffer.data(), static_cast<std::size_t>(got));
        return got > 0;
    }

    int listener_;
    std::string url_;
    std::atomic<int> peer_ = -1;
    std::thread thread_;
};

void spans_to_collector(benchmark::State& state) {
    const LocalCollector collector;
    OTLPOptions options;
    options.url = collector.url();
    pass_spans(state, std::make_shared<OTLPSpanExporter>(options));
}
BENCHMARK(spans_to_collector)->UseRealTime();

/// The body of a batch, as the exporter sends it.
std::string body_of_a_batch() {
    const auto transport = std::make_shared<testing::MemoryTransport>(
        [](const HttpRequest&) { return testing::MemoryResponse(200); });
    OTLPOptions options;
    options.runtime = std::make_shared<const Runtime>(Runtime().with_transport(transport));
    OTLPSpanExporter exporter(options);
    (void)run(exporter.export_spans(SpanBatch(batch, chat_span()), resource()));
    return transport->requests().front().body;
}

Task<> post(benchmark::State& state, HttpTransport& client, std::string url, std::string body) {
    for (auto _ : state) {
        for (std::size_t i = 0; i < round; i += batch) {
            HttpRequest request("POST", url);
            request.body = body;
            const HttpResponse response = co_await client.send(std::move(request));
            std::string answer;
            for (bool more = true; more;) more = co_await response.body->read(answer);
            if (response.status != 200) state.SkipWithError("not accepted");
        }
    }
}

void bare_posts(benchmark::State& state) {
    const LocalCollector collector;
    HttpClient client;
    run(post(state, client, collector.url(), body_of_a_batch()));
    report(state);
}
BENCHMARK(bare_posts)->UseRealTime();

}  // namespace
}  // namespace cubepi::bench
