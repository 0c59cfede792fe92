#include <memory>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/tracing/meter.hpp>
#include <cubepi/tracing/tracer.hpp>

#include "allocation_count.hpp"
#include "two_plus_one.hpp"

// The "2+1" run with a tracer and a meter: what recording costs the run. Exporting is measured in spans_bench.cpp.

namespace cubepi::bench {
namespace {

constexpr int batch = 100;

/// Accepts everything at once, or never answers, as a dead collector.
class Sink final : public SpanExporter {
public:
    explicit Sink(bool answers) : answers_(answers) {}
    Task<ExportResult> export_spans(SpanBatch spans, std::shared_ptr<const Resource>) override {
        if (!answers_) {
            SystemClock clock;
            co_await clock.sleep_for(std::chrono::hours(1));
        }
        benchmark::DoNotOptimize(spans);
        co_return ExportResult();
    }
    std::string name() const override { return "sink"; }

private:
    const bool answers_;
};

TracerOptions tracing(bool answers) {
    TracerOptions options;
    SpanSink::Output output;
    output.exporter = std::make_shared<Sink>(answers);
    output.limits.queue_spans = 4096;
    options.exporters.push_back(std::move(output));
    return options;
}

/// Runs of agents that are prepared by `attach`, which returns what must live as long as the agent.
template <class Attach>
void measure(benchmark::State& state, Attach attach) {
    FauxProvider faux(ten_deltas());
    AgentOptions options;
    options.model = faux.model("m");
    options.tools = {echo_tool()};
    const std::vector<FauxStep> steps = two_plus_one_script();
    std::size_t events = 0;
    const auto loop = [&]() -> Task<void> {
        std::vector<std::unique_ptr<Agent>> agents(batch);
        using Attachment = decltype(attach(*agents.front()));
        std::vector<Attachment> attachments;
        for (auto _ : state) {
            state.PauseTiming();
            attachments.clear();
            std::vector<FauxStep> all;
            for (int i = 0; i < batch; ++i) all.insert(all.end(), steps.begin(), steps.end());
            faux.set_responses(std::move(all));
            for (auto& agent : agents) {
                agent = std::make_unique<Agent>(AgentOptions(options));
                agent->subscribe([&](const AgentEvent&) { ++events; });
                attachments.push_back(attach(*agent));
            }
            state.ResumeTiming();
            for (auto& agent : agents) {
                RunResult result = co_await agent->prompt("hi");
                benchmark::DoNotOptimize(result);
            }
        }
        attachments.clear();
    };
    run(loop());
    benchmark::DoNotOptimize(events);
    state.counters["us_per_run"] =
        benchmark::Counter(static_cast<double>(state.iterations() * batch) / 1e6,
                           benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void measure_traced(benchmark::State& state, bool answers) {
    Tracer tracer(tracing(answers));
    Meter meter;
    measure(state, [&](Agent& agent) {
        return std::make_pair(tracer.attach(agent), meter.attach(agent));
    });
    (void)tracer.shutdown(std::chrono::milliseconds(100));
}

void runs_untraced(benchmark::State& state) {
    measure(state, [](Agent&) { return 0; });
}
BENCHMARK(runs_untraced);

void runs_with_a_tracer(benchmark::State& state) {
    Tracer tracer(tracing(true));
    measure(state, [&](Agent& agent) { return tracer.attach(agent); });
    (void)tracer.shutdown(std::chrono::milliseconds(100));
}
BENCHMARK(runs_with_a_tracer);

void runs_with_a_meter(benchmark::State& state) {
    Meter meter;
    measure(state, [&](Agent& agent) { return meter.attach(agent); });
}
BENCHMARK(runs_with_a_meter);

void runs_traced(benchmark::State& state) { measure_traced(state, true); }
BENCHMARK(runs_traced);

void runs_with_a_dead_collector(benchmark::State& state) { measure_traced(state, false); }
BENCHMARK(runs_with_a_dead_collector);

/// Not a time: bytes that remain of 900,000 traced runs, after 100,000.
void memory_of_traced_runs(benchmark::State& state) {
    const LiveBytes live;
    Tracer tracer(tracing(true));
    Meter meter;
    FauxProvider faux(ten_deltas());
    AgentOptions options;
    options.model = faux.model("m");
    options.tools = {echo_tool()};
    const std::vector<FauxStep> steps = two_plus_one_script();
    const auto loop = [&](int count) -> Task<void> {
        for (int i = 0; i < count; ++i) {
            faux.set_responses(steps);
            Agent agent{AgentOptions(options)};
            const TraceAttachment traced = tracer.attach(agent);
            const MeterAttachment metered = meter.attach(agent);
            RunResult result = co_await agent.prompt("hi");
            benchmark::DoNotOptimize(result);
        }
    };
    double growth = 0;
    for (auto _ : state) {
        run(loop(100'000));
        tracer.force_flush();
        const std::ptrdiff_t before = live.now();
        run(loop(900'000));
        tracer.force_flush();
        growth = static_cast<double>(live.now() - before);
    }
    state.counters["growth_bytes"] = growth;
}
BENCHMARK(memory_of_traced_runs)->Iterations(1);

}  // namespace
}  // namespace cubepi::bench
