#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <libpq-fe.h>

#include <cubepi/checkpoint/postgres_checkpointer.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/core/run.hpp>

#include "stored_message.hpp"

// A PostgreSQL database with 10,000 threads of 100 messages and one request each, against a database with 100 such threads.

namespace cubepi::bench {
namespace {

constexpr std::int64_t messages = 100;
const char* const seed = "seed-thread";

HitlRequest request() {
    ApproveRequest payload;
    payload.tool_name = "bash";
    payload.tool_call_id = "call_1";
    payload.args["command"] = "rm -rf build";
    HitlRequest one;
    one.question_id = "call_1";
    one.thread_id = seed;
    one.payload = std::move(payload);
    one.created_at = 1e9;
    one.timeout_seconds = 1e6;
    return one;
}

/// The store writes one thread; the server copies its rows, which takes seconds instead of hours.
class Threads {
public:
    explicit Threads(std::int64_t count)
        : count_(count),
          database_(PostgresServer::shared().create_database()),
          raw_(options().connection) {
        write_seed();
        // Neither foreign keys nor triggers: the rows agree, and the copies of the request are adopted already.
        raw_.query("SET session_replication_role = replica");
        raw_.query(
            "INSERT INTO cubepi_threads (thread_id, pending_request, run_id) SELECT 't' || i,"
            " replace(pending_request::text, thread_id, 't' || i)::jsonb, run_id" +
            copies("cubepi_threads"));
        raw_.query(
            "INSERT INTO cubepi_native_pending (thread_id, run_id, question_id, request_json,"
            " approval_digest, created_at, expires_at) SELECT 't' || i, run_id, question_id,"
            " replace(request_json, thread_id, 't' || i), approval_digest, created_at + i,"
            " expires_at + i" +
            copies("cubepi_native_pending"));
        raw_.query(
            "INSERT INTO cubepi_messages (thread_id, seq, role, metadata, payload, run_id)"
            " SELECT 't' || i, seq, role, metadata, payload, run_id" +
            copies("cubepi_messages"));
        raw_.query(
            "INSERT INTO cubepi_native_message_ids (thread_id, message_id, seq)"
            " SELECT 't' || i, message_id, seq" +
            copies("cubepi_native_message_ids"));
        raw_.query(
            "INSERT INTO cubepi_native_writes (thread_id, write_id) SELECT 't' || i, write_id" +
            copies("cubepi_native_writes"));
        // As the server's autovacuum does later. The listing reads only indexes then.
        raw_.query("VACUUM ANALYZE");
    }

    std::int64_t count() const noexcept { return count_; }
    PostgresOptions options() const {
        PostgresOptions options;
        options.connection = PostgresServer::shared().connection(database_);
        return options;
    }
    /// A thread far from the one before, so that the server's cache does not have only one thread.
    std::string next() {
        number_ = (number_ + 7919) % count_;
        return "t" + std::to_string(number_ + 1);
    }

    /// Adds a thread that was last used long before the others.
    void add_old() {
        raw_.query(
            "INSERT INTO cubepi_threads (thread_id, updated_at) VALUES ('old', '2000-01-01')");
        raw_.query(
            "INSERT INTO cubepi_messages (thread_id, seq, role, metadata, payload, run_id)"
            " SELECT 'old', seq, role, metadata, payload, run_id FROM cubepi_messages"
            " WHERE thread_id = 't1'");
        raw_.query(
            "INSERT INTO cubepi_native_message_ids (thread_id, message_id, seq)"
            " SELECT 'old', message_id, seq FROM cubepi_native_message_ids"
            " WHERE thread_id = 't1'");
        raw_.query("INSERT INTO cubepi_native_writes (thread_id, write_id) VALUES ('old', 'w')");
    }
    /// Selects the threads to remove, as an operator does.
    std::vector<std::string> old() {
        return raw_.query(
            "SELECT thread_id FROM cubepi_threads WHERE updated_at < '2001-01-01'"
            " ORDER BY updated_at LIMIT 1");
    }

private:
    void write_seed() {
        PostgresCheckpointer store(options());
        MessageList list;
        for (std::int64_t i = 1; i <= messages; ++i)
            list.push_back(stored_message("m" + std::to_string(i)));
        run(store.append(seed, std::move(list), AppendOptions()));
        run(store.save_pending_request(seed, "run-1", request()));
    }
    /// The end of a statement that inserts copies of the seed thread's rows. The seed remains as one more thread.
    std::string copies(const std::string& table) const {
        return " FROM generate_series(1, " + std::to_string(count_) + ") AS i, " + table +
               " WHERE thread_id = '" + seed + "'";
    }

    const std::int64_t count_;
    const std::string database_;
    RawPostgres raw_;
    std::int64_t number_ = 0;
};

Threads& few() {
    static Threads threads(100);
    return threads;
}

Threads& many() {
    static Threads threads(10'000);
    return threads;
}

void load(benchmark::State& state, Threads& threads) {
    PostgresCheckpointer store(threads.options());
    const auto loop = [&]() -> Task<void> {
        co_await store.open();
        for (auto _ : state) {
            std::string thread_id = threads.next();
            const std::optional<CheckpointData> data = co_await store.load(std::move(thread_id));
            if (!data || data->position != messages) state.SkipWithError("messages are missing");
        }
    };
    run(loop());
}
void large_load_of_few(benchmark::State& state) { load(state, few()); }
BENCHMARK(large_load_of_few)->UseRealTime();
void large_load_of_many(benchmark::State& state) { load(state, many()); }
BENCHMARK(large_load_of_many)->UseRealTime();

void find(benchmark::State& state, Threads& threads) {
    PostgresCheckpointer store(threads.options());
    const auto loop = [&]() -> Task<void> {
        co_await store.open();
        for (auto _ : state) {
            std::string thread_id = threads.next();
            const std::optional<Message> found =
                co_await store.find_message(std::move(thread_id), "m50");
            if (!found) state.SkipWithError("the message is missing");
        }
    };
    run(loop());
}
void large_find_of_few(benchmark::State& state) { find(state, few()); }
BENCHMARK(large_find_of_few)->UseRealTime();
void large_find_of_many(benchmark::State& state) { find(state, many()); }
BENCHMARK(large_find_of_many)->UseRealTime();

void page(benchmark::State& state, Threads& threads) {
    PostgresCheckpointer store(threads.options());
    const auto loop = [&]() -> Task<void> {
        co_await store.open();
        for (auto _ : state) {
            QuestionQuery query = QuestionQuery().order(QuestionOrder::deadline);
            const QuestionPage page = co_await store.list_requests(std::move(query));
            if (page.entries.size() != 50) state.SkipWithError("a page of another size");
        }
    };
    run(loop());
}
void large_page_of_few(benchmark::State& state) { page(state, few()); }
BENCHMARK(large_page_of_few)->UseRealTime();
void large_page_of_many(benchmark::State& state) { page(state, many()); }
BENCHMARK(large_page_of_many)->UseRealTime();

/// The listing has all threads, so the time of one thread is counted.
void listing(benchmark::State& state, Threads& threads) {
    PostgresCheckpointer store(threads.options());
    const auto loop = [&]() -> Task<void> {
        co_await store.open();
        for (auto _ : state) {
            const std::vector<ThreadInfo> list = co_await store.list_threads();
            if (list.size() <= static_cast<std::size_t>(threads.count()))
                state.SkipWithError("threads are missing");
        }
    };
    run(loop());
    state.counters["us_per_thread"] = benchmark::Counter(
        static_cast<double>(state.iterations()) * static_cast<double>(threads.count()) / 1e6,
        benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
void large_listing_of_few(benchmark::State& state) { listing(state, few()); }
BENCHMARK(large_listing_of_few)->UseRealTime();
void large_listing_of_many(benchmark::State& state) { listing(state, many()); }
BENCHMARK(large_listing_of_many)->UseRealTime();

/// Finds the one thread that is old enough, and deletes it with its messages.
void retention(benchmark::State& state, Threads& threads) {
    PostgresCheckpointer store(threads.options());
    const auto loop = [&]() -> Task<void> {
        co_await store.open();
        for (auto _ : state) {
            state.PauseTiming();
            threads.add_old();
            state.ResumeTiming();
            std::vector<std::string> old = threads.old();
            if (old.size() != 1) {
                state.SkipWithError("the old thread is missing");
                break;
            }
            co_await store.delete_thread(std::move(old.front()));
        }
    };
    run(loop());
}
void large_retention_of_few(benchmark::State& state) { retention(state, few()); }
BENCHMARK(large_retention_of_few)->UseRealTime();
void large_retention_of_many(benchmark::State& state) { retention(state, many()); }
BENCHMARK(large_retention_of_many)->UseRealTime();

}  // namespace
}  // namespace cubepi::bench
