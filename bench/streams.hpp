#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <benchmark/benchmark.h>

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/provider.hpp>

#include "allocation_count.hpp"

// Long answers of each protocol, as endpoints stream them, and shared code of their measurements.

namespace cubepi::bench {

enum class Wire { chat, responses, anthropic };

/// The events of an answer of `deltas` pieces of text: " word0", " word1", ... The texts were taken from recorded answers;
/// only ids and words were changed.
std::vector<std::string> payloads(Wire wire, int deltas);
/// One event in its wire format.
std::string framed(Wire wire, const std::string& payload);
/// The whole body of the answer.
std::string body_of(Wire wire, int deltas);
/// A model that is called with this protocol at a base URL.
BoundModel model_at(Wire wire, const std::string& url);

/// Puts time and allocations of one delta into the counters; `seen` deltas went by in all rounds, `allocated` is of one.
void report_deltas(benchmark::State& state, std::size_t seen, std::size_t allocated, int deltas);

/// Rounds of one prompt whose answer has `deltas` pieces, delivered to one listener. `prepare` runs before each round.
template <class Prepare>
void deltas_to_listener(benchmark::State& state, const BoundModel& model,
                        const std::shared_ptr<const Runtime>& runtime, int deltas,
                        Prepare prepare) {
    std::size_t seen = 0;
    std::size_t allocated = 0;
    const auto rounds = [&]() -> Task<void> {
        for (auto _ : state) {
            prepare();
            AgentOptions options;
            options.model = model;
            options.runtime = runtime;
            Agent agent(std::move(options));
            agent.subscribe([&](const AgentEvent& event) { seen += event.text_delta() ? 1 : 0; });
            const std::size_t before = allocations();
            RunResult result = co_await agent.prompt("hi");
            allocated = allocations() - before;
            if (!result) state.SkipWithError(result.error().what());
        }
    };
    run(rounds());
    report_deltas(state, seen, allocated, deltas);
}

}  // namespace cubepi::bench
