#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <libpq-fe.h>

#include <cubepi/checkpoint/postgres_checkpointer.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>

#include "stored_message.hpp"

// An append and a load of 10,000 messages in PostgreSQL, against the same statements over libpq, pipelined.

namespace cubepi::bench {
namespace {

constexpr int many = 10'000;

PostgresOptions new_database() {
    PostgresOptions options;
    PostgresServer& server = PostgresServer::shared();
    options.connection = server.connection(server.create_database());
    return options;
}

/// Bare libpq in pipeline mode: the statements of the store, in its round trips.
class Bare {
public:
    explicit Bare(const std::string& connection) : handle_(PQconnectdb(connection.c_str())) {
        if (PQstatus(handle_) != CONNECTION_OK) throw std::runtime_error(PQerrorMessage(handle_));
        define("lock", "SELECT pg_advisory_xact_lock(hashtext($1::text))");
        define("before",
               "SELECT (SELECT nullif(write_id, '') FROM cubepi_native_writes WHERE thread_id ="
               " $1), extract(epoch FROM clock_timestamp())::float8");
        define("state",
               "SELECT coalesce((SELECT max(seq) FROM cubepi_messages WHERE thread_id = $1), 0),"
               " (SELECT min(run_id) FROM cubepi_runs WHERE thread_id = $1"
               " AND run_id = ANY ($2::text[]) AND completed_at IS NOT NULL)");
        define("thread",
               "INSERT INTO cubepi_threads (thread_id) VALUES ($1) ON CONFLICT (thread_id) DO"
               " UPDATE SET thread_id = excluded.thread_id, updated_at = now()");
        define("message",
               "INSERT INTO cubepi_messages (thread_id, seq, role, metadata, payload, run_id)"
               " VALUES ($1, $2::bigint, $3, $4::jsonb, $5::bytea, $6)");
        define("id",
               "INSERT INTO cubepi_native_message_ids (thread_id, message_id, seq)"
               " VALUES ($1, $2, $3::bigint) ON CONFLICT DO NOTHING");
        define("write",
               "INSERT INTO cubepi_native_writes (thread_id, write_id) SELECT thread_id, $2 FROM"
               " cubepi_threads WHERE thread_id = $1 ON CONFLICT (thread_id) DO UPDATE SET"
               " write_id = excluded.write_id");
        define("begin", "BEGIN");
        define("commit", "COMMIT");
        define("load",
               "SELECT seq, metadata::text, payload FROM cubepi_messages WHERE thread_id = $1"
               " ORDER BY seq");
        PQenterPipelineMode(handle_);
    }
    ~Bare() { PQfinish(handle_); }
    Bare(const Bare&) = delete;
    Bare& operator=(const Bare&) = delete;

    void append(const std::string& payload) {
        send("begin", {});
        send("lock", {"t"});
        send("before", {"t"});
        send("state", {"t", "{run-1}"});
        receive(4);
        const std::string seq = std::to_string(++seq_);
        send("thread", {"t"});
        send("message", {"t", seq, "user", "{}", payload, "run-1"});
        send("id", {"t", "m", seq});
        send("write", {"t", seq});
        send("commit", {});
        receive(5);
    }
    std::size_t load() {
        send("load", {"t"});
        return receive(1);
    }

private:
    void define(const char* name, const char* sql) { statements_[name] = sql; }
    void send(const char* name, const std::vector<std::string>& values) {
        std::array<const char*, 6> texts{};
        for (std::size_t i = 0; i < values.size(); ++i) texts.at(i) = values[i].c_str();
        PQsendQueryParams(handle_, statements_.at(name).c_str(), static_cast<int>(values.size()),
                          nullptr, texts.data(), nullptr, nullptr, 1);
    }
    std::size_t receive(int count) {
        PQpipelineSync(handle_);
        std::size_t rows = 0;
        for (int i = 0; i < count; ++i) {
            while (PGresult* const result = PQgetResult(handle_)) {
                if (PQresultStatus(result) == PGRES_FATAL_ERROR)
                    throw std::runtime_error(PQerrorMessage(handle_));
                rows += static_cast<std::size_t>(PQntuples(result));
                PQclear(result);
            }
        }
        PQclear(PQgetResult(handle_));  // the sync
        return rows;
    }

    PGconn* handle_;
    std::int64_t seq_ = 0;
    std::map<std::string, std::string> statements_;
};

/// A payload as the store writes it, in hex.
std::string payload_of(const PostgresOptions& options) {
    PostgresCheckpointer store(options);
    MessageList list;
    list.push_back(stored_message());
    run(store.append("payload", std::move(list), AppendOptions()));
    return "\\x" + RawPostgres(options.connection)
                       .query("SELECT encode(payload, 'hex') FROM cubepi_messages LIMIT 1")
                       .front();
}

void bare_pg_append(benchmark::State& state) {
    const PostgresOptions options = new_database();
    const std::string payload = payload_of(options);
    Bare bare(options.connection);
    for (auto _ : state) bare.append(payload);
}
BENCHMARK(bare_pg_append)->UseRealTime();

void pg_append(benchmark::State& state) {
    PostgresCheckpointer store(new_database());
    const Message one = stored_message();
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
BENCHMARK(pg_append)->UseRealTime();

/// 64 sessions append at once, over the connections of one pool.
void pg_append_of_64_sessions(benchmark::State& state) {
    PostgresCheckpointer store(new_database());
    const Message one = stored_message();
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
    state.counters["us_per_append"] =
        benchmark::Counter(static_cast<double>(state.iterations() * 64) / 1e6,
                           benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(pg_append_of_64_sessions)->UseRealTime();

PostgresOptions filled_database() {
    PostgresOptions options = new_database();
    PostgresCheckpointer store(options);
    MessageList list;
    for (int i = 0; i < many; ++i) list.push_back(stored_message());
    run(store.append("t", std::move(list), AppendOptions()));
    return options;
}

void bare_pg_load(benchmark::State& state) {
    Bare bare(filled_database().connection);
    for (auto _ : state) benchmark::DoNotOptimize(bare.load());
}
BENCHMARK(bare_pg_load)->UseRealTime()->Unit(benchmark::kMillisecond);

void pg_load(benchmark::State& state) {
    PostgresCheckpointer store(filled_database());
    const auto loop = [&]() -> Task<void> {
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
BENCHMARK(pg_load)->UseRealTime()->Unit(benchmark::kMillisecond);

/// A claim of a run and its completion.
void pg_claim(benchmark::State& state) {
    PostgresCheckpointer store(new_database());
    ClaimOwner owner;
    owner.owner_id = "bench";
    const auto loop = [&]() -> Task<void> {
        std::int64_t number = 0;
        for (auto _ : state) {
            const std::string run_id = "r" + std::to_string(++number);
            co_await store.claim_run("t", run_id, owner, ClaimKind::new_run);
            co_await store.complete_run("t", run_id, owner.owner_id);
        }
    };
    run(loop());
}
BENCHMARK(pg_claim)->UseRealTime();

}  // namespace
}  // namespace cubepi::bench
