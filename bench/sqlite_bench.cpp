#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include <benchmark/benchmark.h>
#include <simdjson.h>
#include <sqlite3.h>

#include <cubepi/checkpoint/sqlite_checkpointer.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>

// One durable append and one load of 10,000 messages, against the bare statements.

namespace cubepi::bench {
namespace {

constexpr const char* row =
    R"({"role": "user", "content": [{"type": "text", "text": "a message of ordinary length, as users write them"}],)"
    R"( "id": "m", "timestamp": 1795303670.61, "metadata": {}, "run_id": "run-1"})";

class File {
public:
    explicit File(const char* name) : path_(std::filesystem::temp_directory_path() / name) {
        remove();
    }
    ~File() { remove(); }
    std::string path() const { return path_.string(); }

private:
    void remove() const {
        for (const char* suffix : {"", "-journal", "-wal", "-shm"})
            std::filesystem::remove(path_.string() + suffix);
    }
    std::filesystem::path path_;
};

/// Bare SQLite.
class Bare {
public:
    explicit Bare(const std::string& path) {
        sqlite3_open(path.c_str(), &db_);
        run("CREATE TABLE IF NOT EXISTS messages (id INTEGER PRIMARY KEY AUTOINCREMENT, thread_id "
            "TEXT NOT NULL, "
            "message_json TEXT NOT NULL, created_at REAL NOT NULL DEFAULT (julianday('now')), "
            "run_id TEXT)");
        run("CREATE INDEX IF NOT EXISTS bare ON messages (thread_id, id)");
        sqlite3_prepare_v2(
            db_, "INSERT INTO messages (thread_id, message_json, run_id) VALUES ('t', ?1, 'run-1')",
            -1, &insert_, nullptr);
        sqlite3_prepare_v2(db_,
                           "SELECT message_json FROM messages WHERE thread_id = 't' ORDER BY id",
                           -1, &select_, nullptr);
    }
    ~Bare() {
        sqlite3_finalize(insert_);
        sqlite3_finalize(select_);
        sqlite3_close(db_);
    }
    void run(const char* sql) { sqlite3_exec(db_, sql, nullptr, nullptr, nullptr); }
    void insert() {
        sqlite3_bind_text(insert_, 1, row, -1, SQLITE_STATIC);
        sqlite3_step(insert_);
        sqlite3_reset(insert_);
    }
    std::size_t select_and_parse() {
        simdjson::dom::parser parser;
        std::size_t fields = 0;
        while (sqlite3_step(select_) == SQLITE_ROW) {
            const char* text = reinterpret_cast<const char*>(sqlite3_column_text(select_, 0));
            const auto size = static_cast<std::size_t>(sqlite3_column_bytes(select_, 0));
            const simdjson::dom::object object = parser.parse(text, size).get_object();
            fields += object.size();
        }
        sqlite3_reset(select_);
        return fields;
    }

private:
    sqlite3* db_ = nullptr;
    sqlite3_stmt* insert_ = nullptr;
    sqlite3_stmt* select_ = nullptr;
};

void bare_append(benchmark::State& state) {
    const File file("cubepi-bench-bare.db");
    Bare bare(file.path());
    for (auto _ : state) {
        bare.run("BEGIN IMMEDIATE");
        bare.insert();
        bare.run("COMMIT");
    }
}
BENCHMARK(bare_append)->UseRealTime();

Message message() {
    UserMessage made;
    made.content.emplace_back(TextContent{"a message of ordinary length, as users write them"});
    made.id = "m";
    made.timestamp = 1795303670.61;
    made.run_id = "run-1";
    return made;
}

void append(benchmark::State& state) {
    const File file("cubepi-bench.db");
    SQLiteCheckpointer store(file.path());
    const Message one = message();
    const auto loop = [&]() -> Task<void> {
        co_await store.open();
        for (auto _ : state) {
            MessageList list;
            list.push_back(one);
            AppendOptions options;
            co_await store.append("t", std::move(list), std::move(options));
        }
    };
    run(loop());
}
BENCHMARK(append)->UseRealTime();

/// 64 sessions append at once: they share commits.
void append_of_64_sessions(benchmark::State& state) {
    const File file("cubepi-bench-64.db");
    SQLiteCheckpointer store(file.path());
    const Message one = message();
    const auto loop = [&]() -> Task<void> {
        co_await store.open();
        for (auto _ : state) {
            std::vector<Task<std::int64_t>> appends;
            for (int i = 0; i < 64; ++i) {
                MessageList list;
                list.push_back(one);
                AppendOptions options;
                appends.push_back(
                    store.append("t" + std::to_string(i), std::move(list), std::move(options)));
            }
            co_await when_all(std::move(appends));
        }
    };
    run(loop());
    state.SetItemsProcessed(state.iterations() * 64);
    state.counters["us_per_append"] =
        benchmark::Counter(static_cast<double>(state.iterations() * 64) / 1e6,
                           benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(append_of_64_sessions)->UseRealTime();

constexpr int many = 10'000;

void bare_load(benchmark::State& state) {
    const File file("cubepi-bench-bare-load.db");
    Bare bare(file.path());
    bare.run("BEGIN");
    for (int i = 0; i < many; ++i) bare.insert();
    bare.run("COMMIT");
    for (auto _ : state) benchmark::DoNotOptimize(bare.select_and_parse());
}
BENCHMARK(bare_load)->UseRealTime()->Unit(benchmark::kMillisecond);

void load(benchmark::State& state) {
    const File file("cubepi-bench-load.db");
    SQLiteCheckpointer store(file.path());
    const Message one = message();
    const auto loop = [&]() -> Task<void> {
        MessageList list;
        for (int i = 0; i < many; ++i) list.push_back(one);
        AppendOptions options;
        co_await store.append("t", std::move(list), std::move(options));
        for (auto _ : state) {
            std::optional<CheckpointData> data = co_await store.load("t");
            benchmark::DoNotOptimize(data);
            // The floor creates no objects that must be released.
            state.PauseTiming();
            data.reset();
            state.ResumeTiming();
        }
    };
    run(loop());
}
BENCHMARK(load)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace cubepi::bench
