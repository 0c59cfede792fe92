#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/hitl/confirm_tool_calls.hpp>
#include <cubepi/hitl/in_memory_channel.hpp>
#include <cubepi/provider/faux.hpp>

#include "two_plus_one.hpp"

// The cost of human in the loop for a run: the "2+1" run without a gate, with a gate whose policy allows the call, and with one
// whose request a host approves as soon as it sees it.

namespace cubepi::bench {
namespace {

constexpr int batch = 100;

Task<> approve_all(std::shared_ptr<HitlChannel> channel, HitlRequestStream requests) {
    while (std::optional<HitlRequest> request = co_await requests.next()) {
        Json answer(to_json(ApproveAnswer()));
        co_await channel->answer(request->question_id, std::move(answer));
    }
}

Task<ApprovalDecision> allow(const BeforeToolCallContext&) {
    co_return ApprovalDecision(Approve());
}
Task<ApprovalDecision> ask(const BeforeToolCallContext&) { co_return ApprovalDecision(AskUser()); }

Task<> measure(benchmark::State& state, std::shared_ptr<HitlChannel> channel,
               ApprovalPolicy policy) {
    FauxProvider faux(ten_deltas());
    const ToolList tools = {echo_tool()};
    const std::vector<FauxStep> steps = two_plus_one_script();
    std::vector<std::unique_ptr<Agent>> agents(batch);
    for (auto _ : state) {
        state.PauseTiming();
        std::vector<FauxStep> all;
        for (int i = 0; i < batch; ++i) all.insert(all.end(), steps.begin(), steps.end());
        faux.set_responses(std::move(all));
        for (auto& agent : agents) {
            AgentOptions options;
            options.model = faux.model("m");
            options.tools = tools;
            options.channel = channel;
            if (policy) options.middleware.emplace_back(ApprovalPolicyMiddleware(channel, policy));
            agent = std::make_unique<Agent>(std::move(options));
        }
        state.ResumeTiming();
        for (auto& agent : agents) {
            RunResult result = co_await agent->prompt("hi");
            if (!result) state.SkipWithError("the run failed");
        }
    }
}

void runs_of(benchmark::State& state, ApprovalPolicy policy) {
    const auto body = [&]() -> Task<void> {
        auto channel = std::make_shared<InMemoryChannel>();
        BackgroundScope host(co_await this_executor);
        host.spawn(approve_all(channel, channel->subscribe()));
        co_await measure(state, channel, std::move(policy));
        co_await host.close();
    };
    run(body());
    state.counters["us_per_run"] =
        benchmark::Counter(static_cast<double>(state.iterations() * batch) / 1e6,
                           benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void runs_without_a_gate(benchmark::State& state) { runs_of(state, nullptr); }
BENCHMARK(runs_without_a_gate);
void runs_with_a_policy(benchmark::State& state) { runs_of(state, allow); }
BENCHMARK(runs_with_a_policy);
void runs_with_an_approval(benchmark::State& state) { runs_of(state, ask); }
BENCHMARK(runs_with_an_approval);

}  // namespace
}  // namespace cubepi::bench
