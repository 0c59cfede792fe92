#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <cubepi/core/run.hpp>

// The inbox of 10,000 suspended tapes, against that of 100.

namespace cubepi::bench {
namespace {

Task<> ask(bub::TapeCheckpointer& tapes, std::string tape, double created_at, double timeout) {
    ApproveRequest payload;
    payload.tool_name = "bash";
    payload.tool_call_id = "call_1";
    payload.args["command"] = "rm -rf build";
    HitlRequest request;
    request.question_id = "call_1";
    request.thread_id = tape;
    request.payload = std::move(payload);
    request.created_at = created_at;
    request.timeout_seconds = timeout;
    co_await tapes.save_pending_request(std::move(tape), "run-1", std::move(request));
}

/// A directory of suspended tapes. Not synced: the disk would hide the cost of finding the requests.
class SuspendedTapes {
public:
    explicit SuspendedTapes(int count)
        : path_(std::filesystem::temp_directory_path() /
                ("cubepi-bench-tape-inbox-" + std::to_string(count))) {
        std::filesystem::remove_all(path_);
        run(fill(count));
    }
    ~SuspendedTapes() { std::filesystem::remove_all(path_); }
    SuspendedTapes(const SuspendedTapes&) = delete;
    SuspendedTapes& operator=(const SuspendedTapes&) = delete;

    /// The store of a process that has just started.
    std::unique_ptr<bub::TapeCheckpointer> open() const {
        bub::FileTapeOptions options;
        options.directory = path_;
        options.sync = bub::TapeSync::never;
        return std::make_unique<bub::TapeCheckpointer>(
            std::make_shared<bub::FileTapeStore>(std::move(options)));
    }

private:
    Task<> fill(int count) const {
        const std::unique_ptr<bub::TapeCheckpointer> tapes = open();
        for (int i = 0; i < count; ++i) {
            std::string tape = "0123456789abcdef__" + std::to_string(1'000'000 + i);
            co_await ask(*tapes, std::move(tape), 1e9 + i, 1e6);
        }
        QuestionQuery query;
        (void)co_await tapes->list_requests(std::move(query));  // creates the index
    }

    const std::filesystem::path path_;
};

const SuspendedTapes& few() {
    static const SuspendedTapes suspended(100);
    return suspended;
}

const SuspendedTapes& many() {
    static const SuspendedTapes suspended(10'000);
    return suspended;
}

void page(benchmark::State& state, const SuspendedTapes& suspended) {
    const auto loop = [&]() -> Task<void> {
        for (auto _ : state) {
            const std::unique_ptr<bub::TapeCheckpointer> tapes = suspended.open();
            QuestionQuery query = QuestionQuery().order(QuestionOrder::deadline);
            const QuestionPage page = co_await tapes->list_requests(std::move(query));
            if (page.entries.size() != 50) state.SkipWithError("a page of another size");
        }
    };
    run(loop());
}
void tape_inbox_page_of_few(benchmark::State& state) { page(state, few()); }
BENCHMARK(tape_inbox_page_of_few)->UseRealTime();
void tape_inbox_page_of_many(benchmark::State& state) { page(state, many()); }
BENCHMARK(tape_inbox_page_of_many)->UseRealTime();

/// One request is due each time.
void expire(benchmark::State& state, const SuspendedTapes& suspended) {
    const auto loop = [&]() -> Task<void> {
        for (auto _ : state) {
            const std::unique_ptr<bub::TapeCheckpointer> tapes = suspended.open();
            state.PauseTiming();
            co_await ask(*tapes, "w__due", 0, 1);
            state.ResumeTiming();
            const std::vector<QuestionEntry> expired = co_await tapes->expire_due(10, 50);
            if (expired.size() != 1) state.SkipWithError("other requests have expired");
        }
    };
    run(loop());
}
void tape_expire_due_of_few(benchmark::State& state) { expire(state, few()); }
BENCHMARK(tape_expire_due_of_few)->UseRealTime();
void tape_expire_due_of_many(benchmark::State& state) { expire(state, many()); }
BENCHMARK(tape_expire_due_of_many)->UseRealTime();

}  // namespace
}  // namespace cubepi::bench
