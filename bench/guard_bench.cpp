#include <benchmark/benchmark.h>

#include <cubepi/provider/prefix_guard.hpp>

// What the prompt-prefix guard adds to a turn: the same for a short history and a long one.

namespace cubepi::bench {
namespace {

void guard_turns(benchmark::State& state, int length) {
    ModelRequest request;
    request.model.id = "m";
    request.system_prompt = "You are helpful.";
    const Message said = user_message("hello");
    constexpr int turns = 256;
    const auto turn = [&](PrefixGuard& guard) {
        request.messages.push_back(said);
        benchmark::DoNotOptimize(guard.check(request));
    };
    for (auto _ : state) {
        // A list that has grown by itself, as an agent's does, and a guard that has seen it. The first turns after that find
        // what is theirs pushed out of the caches: they are the preparation's, not the guard's.
        state.PauseTiming();
        request.messages.clear();
        for (int i = 0; i < length; ++i) request.messages.push_back(said);
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
// Preparing it takes longer than it does.
BENCHMARK(guard_long)->Iterations(50);

}  // namespace
}  // namespace cubepi::bench
