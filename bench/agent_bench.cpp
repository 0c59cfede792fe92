#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/faux.hpp>

#include "allocation_count.hpp"
#include "two_plus_one.hpp"

// The "2+1" run, with one listener that receives every event.

namespace cubepi::bench {
namespace {

AgentOptions options_of(const FauxProvider& faux, const BoundModel& model, const ToolList& tools) {
    (void)faux;
    AgentOptions options;
    options.model = model;
    options.tools = tools;
    return options;
}

void run_two_plus_one(benchmark::State& state) {
    FauxProvider faux(ten_deltas());
    const BoundModel model = faux.model("m");
    const ToolList tools = {echo_tool()};
    const std::vector<FauxStep> steps = two_plus_one_script();
    std::size_t events = 0;
    std::size_t runs = 0;
    const auto loop = [&]() -> Task<void> {
        for (auto _ : state) {
            state.PauseTiming();
            faux.set_responses(steps);
            auto agent = std::make_unique<Agent>(options_of(faux, model, tools));
            agent->subscribe([&](const AgentEvent&) { ++events; });
            state.ResumeTiming();
            RunResult result = co_await agent->prompt("hi");
            benchmark::DoNotOptimize(result);
            ++runs;
            state.PauseTiming();
            agent.reset();
            state.ResumeTiming();
        }
    };
    run(loop());
    state.counters["events"] = static_cast<double>(events) / static_cast<double>(runs);
}
BENCHMARK(run_two_plus_one);

void runs_without_pauses(benchmark::State& state) {
    FauxProvider faux(ten_deltas());
    const BoundModel model = faux.model("m");
    const ToolList tools = {echo_tool()};
    const std::vector<FauxStep> steps = two_plus_one_script();
    std::size_t events = 0;
    constexpr int batch = 100;
    const auto loop = [&]() -> Task<void> {
        std::vector<std::unique_ptr<Agent>> agents(batch);
        for (auto _ : state) {
            state.PauseTiming();
            std::vector<FauxStep> all;
            for (int i = 0; i < batch; ++i) all.insert(all.end(), steps.begin(), steps.end());
            faux.set_responses(std::move(all));
            for (auto& agent : agents) {
                agent = std::make_unique<Agent>(options_of(faux, model, tools));
                agent->subscribe([&](const AgentEvent&) { ++events; });
            }
            state.ResumeTiming();
            for (auto& agent : agents) {
                RunResult result = co_await agent->prompt("hi");
                benchmark::DoNotOptimize(result);
            }
        }
    };
    run(loop());
    state.SetItemsProcessed(state.iterations() * batch);
    state.counters["events"] =
        static_cast<double>(events) / static_cast<double>(state.iterations() * batch);
    state.counters["us_per_run"] =
        benchmark::Counter(static_cast<double>(state.iterations() * batch) / 1e6,
                           benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(runs_without_pauses);
// For counting instructions: the two counts differ by ten batches.
BENCHMARK(runs_without_pauses)->Iterations(1);
BENCHMARK(runs_without_pauses)->Iterations(11);

void construct_an_agent(benchmark::State& state) {
    FauxProvider faux;
    const BoundModel model = faux.model("m");
    for (auto _ : state) {
        AgentOptions options;
        options.model = model;
        Agent agent(std::move(options));
        benchmark::DoNotOptimize(agent);
    }
}
BENCHMARK(construct_an_agent);

void construct_with_a_tool(benchmark::State& state) {
    FauxProvider faux;
    const BoundModel model = faux.model("m");
    const ToolList tools = {echo_tool()};
    for (auto _ : state) {
        Agent agent(options_of(faux, model, tools));
        benchmark::DoNotOptimize(agent);
    }
}
BENCHMARK(construct_with_a_tool);

/// Not a time: bytes of an idle agent, and of one after a run, with its history.
void memory_of_sessions(benchmark::State& state) {
    constexpr int count = 1000;
    const LiveBytes live;
    FauxProvider faux(ten_deltas());
    const BoundModel model = faux.model("m");
    const ToolList tools = {echo_tool()};
    const std::vector<FauxStep> steps = two_plus_one_script();
    double idle = 0;
    double session = 0;
    for (auto _ : state) {
        std::vector<std::unique_ptr<Agent>> agents;
        agents.reserve(count);
        const std::ptrdiff_t before = live.now();
        for (int i = 0; i < count; ++i)
            agents.push_back(std::make_unique<Agent>(options_of(faux, model, tools)));
        idle = static_cast<double>(live.now() - before) / count;
        agents.clear();
        const std::ptrdiff_t begin = live.now();
        const auto loop = [&]() -> Task<void> {
            for (int i = 0; i < count; ++i) {
                faux.set_responses(steps);
                agents.push_back(std::make_unique<Agent>(options_of(faux, model, tools)));
                RunResult result = co_await agents.back()->prompt("hi");
                benchmark::DoNotOptimize(result);
            }
        };
        run(loop());
        session = static_cast<double>(live.now() - begin) / count;
    }
    state.counters["idle_bytes"] = idle;
    state.counters["session_bytes"] = session;
}
BENCHMARK(memory_of_sessions)->Iterations(1);

}  // namespace
}  // namespace cubepi::bench
