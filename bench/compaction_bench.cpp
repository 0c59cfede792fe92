#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include <benchmark/benchmark.h>
#include <openssl/evp.h>

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/middleware/compaction.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/provider/message_assembler.hpp>

#include "allocation_count.hpp"
#include "two_plus_one.hpp"

// Compaction: the check before each call of a run with a long history, and the compaction of a history of 100 MB.

namespace cubepi::bench {
namespace {

constexpr int calls = 240;    // of a run
constexpr int warm_up = 40;   // of them
constexpr int histories = 5;  // of which the fastest counts

using Clock = std::chrono::steady_clock;

/// The times of the calls of a run.
struct CallTimes {
    int made = 0;
    Clock::time_point first;
    Clock::time_point warm;
    Clock::time_point last;
};

/// An answer with one call of a tool, whose arguments differ from answer to answer.
class CallingAnswer final : public StreamSource {
public:
    CallingAnswer(const ModelRequest& request, int number)
        : assembler_(head_of(request)), number_(number) {}
    Task<StreamEvent> next() override { co_return step(); }
    std::optional<StreamEvent> ready() override { return step(); }

private:
    static AssistantMessage head_of(const ModelRequest& request) {
        AssistantMessage head;
        head.id = request.options.message_id();
        head.model_id = SharedString(request.model.id);
        head.usage = Usage();
        head.usage->input_tokens = static_cast<std::int64_t>(100 * request.messages.size());
        return head;
    }
    StreamEvent step() {
        if (number_ == calls) return step_++ == 0 ? assembler_.start() : assembler_.done("stop");
        ToolCall call;
        call.id = SharedString("call-" + std::to_string(number_));
        call.name = SharedString("echo");
        call.arguments["value"] = std::to_string(number_);
        switch (step_++) {
            case 0: return assembler_.start();
            case 1: return assembler_.toolcall_start(call.id, call.name);
            case 2: return assembler_.toolcall_end(0, std::move(call));
            default: return assembler_.done(stop_reason::tool_use);
        }
    }

    MessageAssembler assembler_;
    int number_;
    int step_ = 0;
};

class CallingModel final : public Provider {
public:
    explicit CallingModel(std::shared_ptr<CallTimes> times) : times_(std::move(times)) {}
    MessageStream stream(ModelRequest request) override {
        const int number = times_->made++;
        times_->last = Clock::now();
        if (number == 0) times_->first = times_->last;
        if (number == warm_up) times_->warm = times_->last;
        return MessageStream(std::make_unique<CallingAnswer>(request, number));
    }

private:
    std::shared_ptr<CallTimes> times_;
};

/// An answer for each question; the same text, which they share.
MessageList history_of(int messages) {
    const Message question = user_message("What does the next function return?");
    const Message answer(faux_assistant_message("It returns the number of open blocks."));
    MessageList history;
    for (int i = 0; i < messages; ++i) history.push_back(i % 2 == 0 ? question : answer);
    return history;
}

/// A run with a history of this length, whose model calls a tool again and again. The limit of the compaction is out of reach.
void calls_with_history(benchmark::State& state, int messages, bool compacts) {
    double best = 1e18;
    double best_first = 1e18;
    for (auto _ : state) {
        for (int i = 0; i < histories; ++i) {
            const auto times = std::make_shared<CallTimes>();
            Model spec;
            spec.id = "m";
            const BoundModel model(std::make_shared<CallingModel>(times), std::move(spec));
            CompactionOptions options;
            options.summary_model = model;
            options.max_tokens_before_compact = 1'000'000'000;
            AgentOptions how{.model = model, .tools = {echo_tool()}};
            if (compacts) how.middleware.emplace_back(CompactionMiddleware(std::move(options)));
            how.messages = history_of(messages);
            Agent agent(std::move(how));
            const Clock::time_point start = Clock::now();
            RunResult result = run(agent.prompt("begin"));
            benchmark::DoNotOptimize(result);
            if (times->made != calls + 1) state.SkipWithError("a call is missing");
            const std::chrono::duration<double, std::nano> all = times->last - times->warm;
            best = std::min(best, all.count() / (calls - warm_up));
            const std::chrono::duration<double, std::micro> first = times->first - start;
            best_first = std::min(best_first, first.count());
        }
    }
    state.counters["ns_per_call"] = best;
    state.counters["us_of_first"] = best_first;
}

void compaction_check_short(benchmark::State& state) { calls_with_history(state, 100, true); }
BENCHMARK(compaction_check_short)->Iterations(1)->Unit(benchmark::kMillisecond);
void compaction_check_long(benchmark::State& state) { calls_with_history(state, 10'000, true); }
BENCHMARK(compaction_check_long)->Iterations(1)->Unit(benchmark::kMillisecond);

/// Without compaction, for the first call of a run.
void plain_calls_long(benchmark::State& state) { calls_with_history(state, 10'000, false); }
BENCHMARK(plain_calls_long)->Iterations(1)->Unit(benchmark::kMillisecond);

constexpr std::size_t large = 100'000'000;
constexpr std::size_t large_message = 10'000;

/// Prompts, and calls with results of 10 KB.
MessageList large_history() {
    MessageList history;
    for (std::size_t bytes = 0; bytes < large; bytes += large_message) {
        const std::string number = std::to_string(bytes / large_message);
        history.push_back(user_message("Read file " + number));
        ToolCall call = faux_tool_call("read", {{"path", number}}, "c" + number);
        history.push_back(
            Message(faux_assistant_message(AssistantContent(std::move(call)), "tool_use")));
        ToolResultMessage result;
        result.tool_call_id = "c" + number;
        result.tool_name = SharedString("read");
        std::string text = "File " + number + ": ";
        while (text.size() < large_message) text += "the next line of it; ";
        result.content.emplace_back(TextContent{std::move(text)});
        history.push_back(Message(std::move(result)));
    }
    return history;
}

/// The compaction of 100 MB by hand; its model answers at once.
void compact_100_mb(benchmark::State& state) {
    const MessageList history = large_history();
    FauxProvider faux;
    CompactionOptions options;
    options.summary_model = faux.model("m");
    CompactionMiddleware middleware(std::move(options));
    for (auto _ : state) {
        faux.set_responses({"The files have lines."});
        const auto account = std::make_shared<RunAccount>(RunInfo());
        const ManualCompaction done =
            run(middleware.compact_now(history, JsonObject(), "", account, Runtime::standard()));
        if (!done.report.compacted) state.SkipWithError(done.report.error.c_str());
    }
}
BENCHMARK(compact_100_mb)->Iterations(1)->Unit(benchmark::kMillisecond);

/// Memory, which is not measured together with the time.
void memory_of_100_mb(benchmark::State& state) {
    const LiveBytes live;
    const MessageList history = large_history();
    FauxProvider faux;
    std::ptrdiff_t peak = 0;
    std::ptrdiff_t before = 0;
    CompactionOptions options;
    options.summary_model = faux.model("m");
    CompactionMiddleware middleware(std::move(options));
    for (auto _ : state) {
        faux.set_responses({"The files have lines."});
        const auto account = std::make_shared<RunAccount>(RunInfo());
        before = live.now();
        live.reset_peak();
        const ManualCompaction done =
            run(middleware.compact_now(history, JsonObject(), "", account, Runtime::standard()));
        peak = live.peak();
        if (!done.report.compacted) state.SkipWithError(done.report.error.c_str());
    }
    state.counters["peak_bytes"] = static_cast<double>(peak - before);
}
BENCHMARK(memory_of_100_mb)->Iterations(1)->Unit(benchmark::kMillisecond);

/// The digest of as many bytes: a record refers to each message that it stands for by its digest.
void bare_digest_of_100_mb(benchmark::State& state) {
    const std::string text(large, 'a');
    std::array<unsigned char, EVP_MAX_MD_SIZE> bytes = {};
    for (auto _ : state) {
        for (std::size_t at = 0; at < text.size(); at += large_message) {
            unsigned int size = 0;
            EVP_Digest(text.data() + at, large_message, bytes.data(), &size, EVP_sha256(), nullptr);
            benchmark::DoNotOptimize(bytes);
        }
    }
}
BENCHMARK(bare_digest_of_100_mb)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace cubepi::bench
