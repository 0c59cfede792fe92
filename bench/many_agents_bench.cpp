#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <malloc.h>
#include <unistd.h>

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/middleware/subagents.hpp>
#include <cubepi/provider/message_assembler.hpp>

#include "allocation_count.hpp"

// 10,000 agents with histories: time of a prompt, and resident memory of an agent. The same work as bench/peers/rust/infinity.

namespace cubepi::bench {
namespace {

constexpr int groups = 20;
constexpr int agents_of_group = 500;
constexpr int prompts = 20;
constexpr int pieces = 12;  // of an answer, 100 bytes each
constexpr std::string_view piece =
    "The parser reads one line at a time, keeps the open blocks on a stack, "
    "and closes them at the end. \n";
constexpr const char* prompt =
    "Read the next source file of the module, and explain which functions another module may call.";
constexpr std::string_view line =
    "void close_block(Stack& open, Line line); // ends the open blocks\n";
constexpr int lines = 5;  // of a tool result

constexpr int subagents = 500;  // of a prompt; 512 calls are the limit of an answer
constexpr int delegations = 2;

/// One answer: a text, with a call of the tool unless the tool has answered. The tool `subagent` is called many times.
class Answer final : public StreamSource {
public:
    explicit Answer(const ModelRequest& request)
        : assembler_(head_of(request)),
          tool_(request.tools && !request.tools->empty() ? request.tools->front().name
                                                         : SharedString("read")),
          calls_(request.messages.back().role() == Role::tool_result ? 0
                 : tool_ == "subagent"                               ? subagents
                                                                     : 1),
          messages_(request.messages.size()) {}

    Task<StreamEvent> next() override { co_return step(); }
    std::optional<StreamEvent> ready() override { return step(); }

private:
    static AssistantMessage head_of(const ModelRequest& request) {
        AssistantMessage head;
        head.id = request.options.message_id();
        head.model_id = SharedString(request.model.id);
        head.usage = Usage();
        return head;
    }

    StreamEvent step() {
        const int at = step_++;
        if (at == 0) return assembler_.start();
        if (at == 1) return assembler_.text_start();
        if (at < 2 + pieces) return assembler_.text_delta(0, piece);
        if (at == 2 + pieces) return assembler_.text_end(0);
        if (calls_ == 0) return assembler_.done(stop_reason::stop);
        const int part = at - 3 - pieces;
        if (part >= 2 * calls_) return assembler_.done(stop_reason::tool_use);
        const int number = part / 2;
        if (part % 2 == 0) return assembler_.toolcall_start(call_id(number), tool_);
        return assembler_.toolcall_end(number + 1, call(number));
    }

    SharedString call_id(int number) const {
        return SharedString("call-" + std::to_string(messages_) + "-" + std::to_string(number));
    }
    ToolCall call(int number) const {
        ToolCall call;
        call.id = call_id(number);
        call.name = tool_;
        call.arguments[tool_ == "read" ? "path" : "prompt"] = "src/parser/blocks.cpp";
        return call;
    }

    MessageAssembler assembler_;
    SharedString tool_;
    int calls_;
    std::size_t messages_;
    int step_ = 0;
};

class Script final : public Provider {
public:
    MessageStream stream(ModelRequest request) override {
        return MessageStream(std::make_unique<Answer>(request));
    }
};

struct ReadArgs {
    std::string path;
};

AgentTool read_tool() {
    return tool<ReadArgs>("read", "Reads a file.", [](ReadArgs) {
        std::string text;
        for (int i = 0; i < lines; ++i) text += line;
        return text;
    });
}

/// Resident bytes of this process, after the allocator has returned its free memory.
double resident() {
    malloc_trim(0);
    std::ifstream file("/proc/self/statm");
    double size = 0;
    double pages = 0;
    file >> size >> pages;
    return pages * static_cast<double>(sysconf(_SC_PAGESIZE));
}

class ManyAgents {
public:
    ManyAgents() {
        Model spec;
        spec.id = "m";
        options_.model = BoundModel(std::make_shared<Script>(), std::move(spec));
        options_.tools = ToolList{read_tool()};
        agents_.reserve(groups * agents_of_group + 1);
    }

    /// Constructs `count` agents, and sends each prompt to all of them at once.
    Task<> run_group(int count) {
        const std::size_t first = agents_.size();
        for (int i = 0; i < count; ++i) {
            agents_.push_back(std::make_unique<Agent>(options_));
            agents_.back()->subscribe([this](const AgentEvent&) { ++events_; });
        }
        for (int i = 0; i < prompts; ++i) {
            TaskScope scope(co_await this_executor);
            for (std::size_t at = first; at < agents_.size(); ++at)
                scope.spawn(agents_[at]->prompt(prompt));
            co_await scope.join();
        }
    }

    Task<> measure(benchmark::State& state) {
        co_await run_group(1);
        events_ = 0;
        const double before = resident();
        double best = std::numeric_limits<double>::max();
        for (int i = 0; i < groups; ++i) {
            const auto wall = std::chrono::steady_clock::now();
            const std::clock_t cpu = std::clock();
            co_await run_group(agents_of_group);
            const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - wall;
            const double used = static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
            best = std::min({best, elapsed.count(), used});
        }
        constexpr double agents = groups * agents_of_group;
        state.counters["us_per_prompt"] = best * 1e6 / (agents_of_group * prompts);
        state.counters["kb_per_agent"] = (resident() - before) / agents / 1024;
        state.counters["events"] = static_cast<double>(events_) / (agents * prompts);
    }

    /// Four messages for each prompt, the last one with the whole text.
    bool complete() const {
        return std::all_of(agents_.begin(), agents_.end(), [](const std::unique_ptr<Agent>& agent) {
            const MessageList& messages = agent->state().messages;
            return messages.size() == 4 * prompts &&
                   messages.back().text().size() == pieces * piece.size();
        });
    }

private:
    AgentOptions options_;
    std::vector<std::unique_ptr<Agent>> agents_;
    std::size_t events_ = 0;
};

void prompts_of_many_agents(benchmark::State& state) {
    for (auto _ : state) {
        ManyAgents agents;
        run(agents.measure(state));
        if (!agents.complete()) state.SkipWithError("a message is missing");
    }
}
BENCHMARK(prompts_of_many_agents)->Iterations(1)->Unit(benchmark::kMillisecond);

BoundModel scripted() {
    Model spec;
    spec.id = "m";
    return BoundModel(std::make_shared<Script>(), std::move(spec));
}

void note_time(benchmark::State& state, std::chrono::steady_clock::time_point start) {
    const std::chrono::duration<double, std::micro> elapsed =
        std::chrono::steady_clock::now() - start;
    state.counters["us_per_agent"] = elapsed.count() / (subagents * delegations);
}

/// The options of a parent of sub-agents, which count in `ended`.
AgentOptions parent_of_subagents(std::size_t& ended) {
    SubagentOptions options;
    options.default_model = scripted();
    options.shared_tools = {read_tool()};
    options.limits.max_running = subagents;
    options.on_event = [&ended](const AgentEvent& event) {
        const auto* const end = event.get_if<AgentEndEvent>();
        if (end && end->outcome == RunOutcome::completed) ++ended;
    };
    AgentOptions parent{.model = scripted(),
                        .middleware = {SubagentMiddleware(std::move(options))}};
    parent.limits.parallel_tools = subagents;
    return parent;
}

/// 1,000 sub-agents with a tool call each, 500 at once.
void many_subagents(benchmark::State& state) {
    std::size_t ended = 0;
    const AgentOptions parent = parent_of_subagents(ended);
    for (auto _ : state) {
        Agent agent(parent);
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < delegations; ++i) run(agent.prompt(prompt));
        note_time(state, start);
    }
    if (ended != subagents * delegations) state.SkipWithError("a sub-agent is missing");
}
BENCHMARK(many_subagents)->Iterations(1)->Unit(benchmark::kMillisecond);

Task<> prompt_all(std::vector<std::unique_ptr<Agent>>& agents) {
    TaskScope scope(co_await this_executor);
    for (const std::unique_ptr<Agent>& agent : agents) scope.spawn(agent->prompt(prompt));
    co_await scope.join();
}

/// The same runs without a parent.
void many_plain_agents(benchmark::State& state) {
    AgentOptions options{.model = scripted(), .tools = {read_tool()}};
    std::size_t events = 0;
    for (auto _ : state) {
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < delegations; ++i) {
            std::vector<std::unique_ptr<Agent>> agents;
            for (int k = 0; k < subagents; ++k) {
                agents.push_back(std::make_unique<Agent>(options));
                agents.back()->subscribe([&events](const AgentEvent&) { ++events; });
            }
            run(prompt_all(agents));
        }
        note_time(state, start);
    }
}
BENCHMARK(many_plain_agents)->Iterations(1)->Unit(benchmark::kMillisecond);

/// Bytes for each of 1,000 sub-agents: at most while 500 run, and those that remain after they have ended, with the history of
/// the parent.
void memory_of_subagents(benchmark::State& state) {
    const LiveBytes live;
    std::size_t ended = 0;
    const AgentOptions parent = parent_of_subagents(ended);
    for (auto _ : state) {
        Agent agent(parent);
        const std::ptrdiff_t before = live.now();
        live.reset_peak();
        for (int i = 0; i < delegations; ++i) run(agent.prompt(prompt));
        state.counters["running_bytes"] = static_cast<double>(live.peak() - before) / subagents;
        state.counters["ended_bytes"] =
            static_cast<double>(live.now() - before) / (subagents * delegations);
    }
    if (ended != subagents * delegations) state.SkipWithError("a sub-agent is missing");
}
BENCHMARK(memory_of_subagents)->Iterations(1)->Unit(benchmark::kMillisecond);

/// Bytes for each of 500 agents without a parent, at most while they run.
void memory_of_plain_agents(benchmark::State& state) {
    const LiveBytes live;
    AgentOptions options{.model = scripted(), .tools = {read_tool()}};
    for (auto _ : state) {
        const std::ptrdiff_t before = live.now();
        live.reset_peak();
        std::vector<std::unique_ptr<Agent>> agents;
        for (int k = 0; k < subagents; ++k) agents.push_back(std::make_unique<Agent>(options));
        run(prompt_all(agents));
        state.counters["running_bytes"] = static_cast<double>(live.peak() - before) / subagents;
    }
}
BENCHMARK(memory_of_plain_agents)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace cubepi::bench
