#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include <cubepi/checkpoint/sqlite_checkpointer.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>

// The inbox of 100,000 suspended threads in SQLite, against that of 1,000.

namespace cubepi::bench {
namespace {

Task<> ask(SQLiteCheckpointer& store, int thread, double created_at, double timeout) {
    ApproveRequest payload;
    payload.tool_name = "bash";
    payload.tool_call_id = "call_1";
    payload.args["command"] = "rm -rf build";
    std::string thread_id = "thread-" + std::to_string(thread);
    HitlRequest request;
    request.question_id = "call_1";
    request.thread_id = thread_id;
    request.payload = std::move(payload);
    request.created_at = created_at;
    request.timeout_seconds = timeout;
    return store.save_pending_request(std::move(thread_id), "run-1", std::move(request));
}

/// A database with suspended threads. Not synchronised: the disk would hide the cost of finding the rows.
class Suspended {
public:
    explicit Suspended(int threads)
        : path_((std::filesystem::temp_directory_path() /
                 ("cubepi-bench-inbox-" + std::to_string(threads) + ".db"))
                    .string()) {
        remove_files();
        SQLiteOptions options;
        options.path = path_;
        options.wal = true;
        options.synchronous = SQLiteSynchronous::off;
        store_ = std::make_unique<SQLiteCheckpointer>(std::move(options));
        run(fill(threads));
    }
    ~Suspended() {
        store_.reset();
        remove_files();
    }
    Suspended(const Suspended&) = delete;
    Suspended& operator=(const Suspended&) = delete;

    SQLiteCheckpointer& store() { return *store_; }

private:
    Task<> fill(int threads) {
        constexpr int together = 1000;
        for (int first = 0; first < threads; first += together) {
            std::vector<Task<>> asking;
            for (int i = first; i < first + together; ++i)
                asking.push_back(ask(*store_, i, 1e9 + i, 1e6));
            co_await when_all(std::move(asking));
        }
    }
    void remove_files() const {
        for (const char* suffix : {"", "-journal", "-wal", "-shm"})
            std::filesystem::remove(path_ + suffix);
    }

    const std::string path_;
    std::unique_ptr<SQLiteCheckpointer> store_;
};

Suspended& few() {
    static Suspended suspended(1'000);
    return suspended;
}

Suspended& many() {
    static Suspended suspended(100'000);
    return suspended;
}

void page(benchmark::State& state, Suspended& suspended) {
    const auto loop = [&]() -> Task<void> {
        for (auto _ : state) {
            QuestionQuery query = QuestionQuery().order(QuestionOrder::deadline);
            const QuestionPage page = co_await suspended.store().list_requests(std::move(query));
            if (page.entries.size() != 50) state.SkipWithError("a page of another size");
        }
    };
    run(loop());
}
void inbox_page_of_few(benchmark::State& state) { page(state, few()); }
BENCHMARK(inbox_page_of_few)->UseRealTime();
void inbox_page_of_many(benchmark::State& state) { page(state, many()); }
BENCHMARK(inbox_page_of_many)->UseRealTime();

/// One request is due each time.
void expire(benchmark::State& state, Suspended& suspended) {
    const auto loop = [&]() -> Task<void> {
        for (auto _ : state) {
            state.PauseTiming();
            co_await ask(suspended.store(), -1, 0, 1);
            state.ResumeTiming();
            const std::vector<QuestionEntry> expired =
                co_await suspended.store().expire_due(10, 50);
            if (expired.size() != 1) state.SkipWithError("other requests have expired");
        }
    };
    run(loop());
}
void expire_due_of_few(benchmark::State& state) { expire(state, few()); }
BENCHMARK(expire_due_of_few)->UseRealTime();
void expire_due_of_many(benchmark::State& state) { expire(state, many()); }
BENCHMARK(expire_due_of_many)->UseRealTime();

}  // namespace
}  // namespace cubepi::bench
