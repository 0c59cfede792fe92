#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <simdjson.h>

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/openai.hpp>
#include <cubepi/testing/memory_transport.hpp>

#include "allocation_count.hpp"

// A long answer of Chat Completions, from the bytes on the wire to the listener, and simdjson on the same payloads.

namespace cubepi::bench {
namespace {

constexpr int deltas = 2'000;

std::vector<std::string> payloads() {
    std::vector<std::string> all;
    const std::string head =
        R"({"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m",)";
    all.push_back(
        head +
        R"("choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]})");
    for (int i = 0; i < deltas; ++i) {
        all.push_back(head + R"("choices":[{"index":0,"delta":{"content":" word)" +
                      std::to_string(i) + R"("},"logprobs":null,"finish_reason":null}]})");
    }
    all.push_back(head + R"("choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})");
    return all;
}

std::string wire_body() {
    std::string body;
    for (const std::string& payload : payloads()) body += "data: " + payload + "\n\n";
    return body + "data: [DONE]\n\n";
}

void simdjson_parses_the_payloads(benchmark::State& state) {
    std::vector<simdjson::padded_string> all;
    for (const std::string& payload : payloads()) all.emplace_back(payload);
    simdjson::ondemand::parser parser;
    for (auto _ : state) {
        std::size_t bytes = 0;
        for (const simdjson::padded_string& one : all) {
            simdjson::ondemand::document document = parser.iterate(one);
            std::string_view content;
            if (document["choices"].at(0)["delta"]["content"].get(content) == simdjson::SUCCESS)
                bytes += content.size();
        }
        benchmark::DoNotOptimize(bytes);
    }
    state.counters["ns_per_delta"] =
        benchmark::Counter(static_cast<double>(state.iterations()) * deltas / 1e9,
                           benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(simdjson_parses_the_payloads);

void wire_to_listener(benchmark::State& state) {
    const std::string body = wire_body();
    auto transport = std::make_shared<testing::MemoryTransport>([&](const HttpRequest&) {
        return testing::MemoryResponse(200, body).with_header("content-type", "text/event-stream");
    });
    auto runtime = std::make_shared<const Runtime>(Runtime().with_transport(transport));
    const OpenAIProvider provider({.api_key = "k", .base_url = "http://localhost/v1"});
    const BoundModel model = provider.model("m");
    std::size_t seen = 0;
    std::size_t allocated = 0;
    const auto loop = [&]() -> Task<void> {
        for (auto _ : state) {
            AgentOptions options;
            options.model = model;
            options.runtime = runtime;
            Agent agent(std::move(options));
            agent.subscribe([&](const AgentEvent& event) { seen += event.text_delta() ? 1 : 0; });
            const std::size_t before = allocations();
            RunResult result = co_await agent.prompt("hi");
            allocated = allocations() - before;
            benchmark::DoNotOptimize(result);
        }
    };
    run(loop());
    state.counters["ns_per_delta"] = benchmark::Counter(
        static_cast<double>(seen) / 1e9, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
    state.counters["allocations_per_delta"] = static_cast<double>(allocated) / deltas;
}
BENCHMARK(wire_to_listener);

}  // namespace
}  // namespace cubepi::bench
