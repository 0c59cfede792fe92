#include <benchmark/benchmark.h>

#include <cubepi/provider/prefix_guard.hpp>

// What the prompt-prefix guard adds to a turn: the same for a short history and a long one.

namespace cubepi::bench {
namespace {

void guard_turns(benchmark::State& state, int length) {
    ModelRequest request;
    request.model.id = "m";
    request.system_prompt = "You are helpful.";
    for (int i = 0; i < length; ++i) request.messages.push_back(user_message("hello"));
    const MessageList history = request.messages;
    PrefixGuard guard;
    (void)guard.check(request);
    constexpr int turns = 64;
    for (auto _ : state) {
        request.messages = history;
        for (int i = 0; i < turns; ++i) {
            request.messages.push_back(user_message("more"));
            benchmark::DoNotOptimize(guard.check(request));
        }
        state.PauseTiming();
        guard.reset();
        request.messages = history;
        (void)guard.check(request);
        state.ResumeTiming();
    }
    state.counters["ns_per_turn"] =
        benchmark::Counter(static_cast<double>(state.iterations()) * turns / 1e9,
                           benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void guard_short(benchmark::State& state) { guard_turns(state, 100); }
BENCHMARK(guard_short);
void guard_long(benchmark::State& state) { guard_turns(state, 100'000); }
BENCHMARK(guard_long);

}  // namespace
}  // namespace cubepi::bench
