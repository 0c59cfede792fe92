#include <benchmark/benchmark.h>

#include <cubepi/provider/prefix_guard.hpp>

// Cost of the prompt-prefix guard per turn, which must not depend on the length of the history.

namespace cubepi::bench {
namespace {

void guard_turns(benchmark::State& state, int length) {
    ModelRequest request;
    request.model.id = "m";
    request.system_prompt = "You are helpful.";
    const Message message = user_message("hello");
    constexpr int turns = 256;
    const auto turn = [&](PrefixGuard& guard) {
        request.messages.push_back(message);
        benchmark::DoNotOptimize(guard.check(request));
    };
    for (auto _ : state) {
        // A list that grew message by message, as in an agent, and a guard that has seen it. The preparation evicts other data
        // from the caches, so the first turns after it are part of the preparation and are not timed.
        state.PauseTiming();
        request.messages.clear();
        for (int i = 0; i < length; ++i) request.messages.push_back(message);
        PrefixGuard guard;
        for (int i = 0; i < 64; ++i) turn(guard);
        state.ResumeTiming();
        for (int i = 0; i < turns; ++i) turn(guard);
    }
    state.counters["ns_per_turn"] =
        benchmark::Counter(static_cast<double>(state.iterations()) * turns / 1e9,
                           benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void guard_short(benchmark::State& state) { guard_turns(state, 100); }
BENCHMARK(guard_short);
void guard_long(benchmark::State& state) { guard_turns(state, 100'000); }
// The preparation takes longer than the measurement.
BENCHMARK(guard_long)->Iterations(50);

}  // namespace
}  // namespace cubepi::bench
