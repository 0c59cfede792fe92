#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include <bub/framework.hpp>
#include <cubepi/core/run.hpp>

#include "allocation_count.hpp"

// One turn of the pipeline with three plugins that have load_state, save_state and render_outbound, and a constant model.
// bench/peers/python/bub_turns.py measures the same in Bub.

namespace cubepi::bench {
namespace {

bub::Plugin three_hooks(std::string name) {
    bub::Plugin plugin;
    plugin.name = name;
    plugin.load_state = [name](bub::LoadStateCall&) {
        JsonObject values;
        values[name] = 1;
        return values;
    };
    plugin.save_state = [](bub::SaveStateCall& call) { benchmark::DoNotOptimize(&call); };
    plugin.render_outbound = [](bub::RenderOutboundCall& call) {
        bub::Envelope made(call.model_output);
        made.session_id = call.session_id;
        return made;
    };
    return plugin;
}

void add_plugins(bub::Framework& framework, bool streams) {
    for (const char* name : {"a", "b", "c"}) framework.add(three_hooks(name));
    bub::Plugin model;
    model.name = "model";
    if (streams) {
        model.run_model_stream = [](bub::RunModelCall&) {
            return bub::EventStream::of_text("constant");
        };
    } else {
        model.run_model = [](bub::RunModelCall&) { return "constant"; };
    }
    framework.add(std::move(model));
}

void turns(benchmark::State& state, bool streams) {
    bub::Framework framework;
    add_plugins(framework, streams);
    std::size_t allocated = 0;
    std::size_t count = 0;
    const auto loop = [&]() -> Task<void> {
        for (auto _ : state) {
            const std::size_t before = allocations();
            bub::Envelope inbound("hello");
            inbound.channel = "cli";
            inbound.chat_id = "chat";
            Task<bub::TurnResult> turn = framework.process_inbound(std::move(inbound), streams);
            const bub::TurnResult result = co_await std::move(turn);
            benchmark::DoNotOptimize(result.outbounds.size());
            allocated += allocations() - before;
            ++count;
        }
    };
    run(loop());
    state.counters["allocations"] = static_cast<double>(allocated) / static_cast<double>(count);
}

void turn_of_three_plugins(benchmark::State& state) { turns(state, false); }
BENCHMARK(turn_of_three_plugins);

void streamed_turn_of_three_plugins(benchmark::State& state) { turns(state, true); }
BENCHMARK(streamed_turn_of_three_plugins);

/// Memory of 10,000 idle sessions after one turn each.
void idle_pipeline_sessions(benchmark::State& state) {
    constexpr std::size_t sessions = 10'000;
    for (auto _ : state) {
        const LiveBytes live;
        bub::Framework framework;
        add_plugins(framework, false);
        const std::ptrdiff_t before = live.now();
        const auto loop = [&framework]() -> Task<void> {
            for (std::size_t i = 0; i < sessions; ++i) {
                bub::Envelope inbound("hello");
                inbound.channel = "cli";
                inbound.chat_id = "chat" + std::to_string(i);
                Task<bub::TurnResult> turn = framework.process_inbound(std::move(inbound));
                (void)co_await std::move(turn);
            }
        };
        run(loop());
        const auto left = static_cast<double>(live.now() - before);
        state.counters["bytes_per_session"] = left / static_cast<double>(sessions);
    }
}
BENCHMARK(idle_pipeline_sessions)->Iterations(1);

}  // namespace
}  // namespace cubepi::bench
