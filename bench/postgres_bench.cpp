#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <libpq-fe.h>

#include <cubepi/checkpoint/format/message_row.hpp>
#include <cubepi/checkpoint/postgres_checkpointer.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/core/run.hpp>

#include "server_store.hpp"
#include "stored_message.hpp"

// Appends, a load of 10,000 messages and a claim in PostgreSQL, against the same statements over bare libpq.

namespace cubepi::bench {
namespace {

PostgresOptions new_database() {
    PostgresOptions options;
    PostgresServer& server = PostgresServer::shared();
    options.connection = server.connection(server.create_database());
    return options;
}

/// Bare libpq in pipeline mode, which blocks: the statements of the store, in its round trips. As in the store, those with
/// parameters are prepared.
class Bare {
public:
    explicit Bare(const std::string& connection) : handle_(PQconnectdb(connection.c_str())) {
        if (PQstatus(handle_) != CONNECTION_OK) throw std::runtime_error(PQerrorMessage(handle_));
        // The settings of a session of the store.
        PQclear(PQexec(handle_,
                       "SET jit = off; SET lock_timeout = 5000; SET statement_timeout = 60000;"
                       " SET idle_in_transaction_session_timeout = 60000;"
                       " SET cubepi_native.writer = '1'"));
        define_transaction();
        define_append();
        define_load();
        define_claim();
        PQenterPipelineMode(handle_);
    }
    ~Bare() { PQfinish(handle_); }
    Bare(const Bare&) = delete;
    Bare& operator=(const Bare&) = delete;

    void append(const std::string& payload) {
        begin_write();
        send("state", {"t", "{run-1}"});
        receive();
        const std::string seq = std::to_string(++seq_);
        send("thread", {"t"});
        send("message", {"t", seq, "user", "{}", payload, "run-1"});
        send("id", {"t", "m", seq});
        end_write();
    }

    /// `messages`: receives the decoded rows; null: they are not decoded.
    std::size_t load(MessageList* messages = nullptr) {
        send_plain("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
        send("extra", {"t"});
        send("exact", {"t"});
        send("load", {"t"});
        send_plain("COMMIT");
        return receive(messages);
    }

    /// A claim of a run and its completion.
    void claim(const std::string& run_id) {
        begin_write();
        send("claims", {"t"});
        send("runs", {"t", run_id});
        receive();
        send("new thread", {"t"});
        send("new run", {"t", run_id});
        send("claim", {"t", run_id, "bench"});
        end_write();
        begin_write();
        send("claims", {"t"});
        send("runs", {"t", run_id});
        receive();
        send("unclaim", {"t", "{" + run_id + "}"});
        send("complete", {"t", run_id});
        for (const char* name : {"started", "used", "answers", "answer"}) send(name, {"t", run_id});
        end_write();
    }

private:
    void define_transaction() {
        define("lock", "SELECT pg_advisory_xact_lock(hashtext($1::text))");
        define("before",
               "SELECT (SELECT nullif(write_id, '') FROM cubepi_native_writes WHERE thread_id ="
               " $1), extract(epoch FROM clock_timestamp())::float8");
        define("write",
               "INSERT INTO cubepi_native_writes (thread_id, write_id) SELECT thread_id, $2 FROM"
               " cubepi_threads WHERE thread_id = $1 ON CONFLICT (thread_id) DO UPDATE SET"
               " write_id = excluded.write_id");
    }
    void define_append() {
        define("state",
               "SELECT coalesce((SELECT seq FROM cubepi_messages WHERE thread_id = $1"
               " ORDER BY seq DESC LIMIT 1), 0),"
               " (SELECT run_id FROM cubepi_runs WHERE thread_id = $1 AND run_id = ANY ($2::text[])"
               " AND completed_at IS NOT NULL ORDER BY run_id LIMIT 1)");
        define("thread",
               "INSERT INTO cubepi_threads (thread_id) VALUES ($1) ON CONFLICT (thread_id) DO"
               " UPDATE SET thread_id = excluded.thread_id, updated_at = now()");
        define("message",
               "INSERT INTO cubepi_messages (thread_id, seq, role, metadata, payload, run_id)"
               " VALUES ($1, $2::bigint, $3, $4::jsonb, $5::bytea, $6)");
        define("id",
               "INSERT INTO cubepi_native_message_ids (thread_id, message_id, seq)"
               " VALUES ($1, $2, $3::bigint) ON CONFLICT DO NOTHING");
    }
    void define_load() {
        define("extra",
               "SELECT extra::text, parent_thread_id FROM cubepi_threads WHERE thread_id = $1");
        define("exact",
               "SELECT json FROM cubepi_native_exact"
               " WHERE thread_id = $1 AND item = 'extra' AND run_id = '' AND question_id = ''");
        define("load",
               "SELECT seq, metadata::text, payload FROM cubepi_messages WHERE thread_id = $1"
               " ORDER BY seq");
    }
    void define_claim() {
        define("claims",
               "SELECT run_id, owner_id, host, boot_id, pid, process_start, description,"
               " lease_until FROM cubepi_native_claims WHERE thread_id = $1 ORDER BY run_id");
        define("runs",
               "SELECT runs.run_id, runs.completed_at IS NOT NULL FROM (SELECT $2 AS run_id UNION"
               " SELECT run_id FROM cubepi_native_claims WHERE thread_id = $1) AS wanted JOIN"
               " cubepi_runs AS runs ON runs.thread_id = $1 AND runs.run_id = wanted.run_id");
        define("new thread",
               "INSERT INTO cubepi_threads (thread_id) VALUES ($1) ON CONFLICT DO NOTHING");
        define("new run", "INSERT INTO cubepi_runs (thread_id, run_id) VALUES ($1, $2)");
        define("claim",
               "INSERT INTO cubepi_native_claims (thread_id, run_id, owner_id, host, boot_id, pid,"
               " process_start, description, lease_until) VALUES ($1, $2, $3, '', '', 0, 0, '',"
               " 4e9) ON CONFLICT (thread_id, run_id) DO UPDATE SET owner_id = excluded.owner_id,"
               " host = excluded.host, boot_id = excluded.boot_id, pid = excluded.pid,"
               " process_start = excluded.process_start, description = excluded.description,"
               " lease_until = excluded.lease_until");
        define("unclaim",
               "DELETE FROM cubepi_native_claims WHERE thread_id = $1"
               " AND run_id = ANY ($2::text[])");
        define("complete",
               "UPDATE cubepi_runs SET completed_at = now(), completion_seq = (SELECT next FROM"
               " (SELECT coalesce(max(completion_seq), 0) + 1 AS next FROM cubepi_runs"
               " WHERE thread_id = $1) AS last) WHERE thread_id = $1 AND run_id = $2");
        const std::string rows = " WHERE thread_id = $1 AND run_id = $2";
        define("started", "DELETE FROM cubepi_native_started" + rows);
        define("used", "DELETE FROM cubepi_native_used_answers" + rows);
        define("answers", "DELETE FROM cubepi_hitl_answers" + rows);
        define("answer", "DELETE FROM cubepi_native_exact" + rows + " AND item = 'answer'");
    }
    void define(const char* name, const std::string& sql) {
        PGresult* const result = PQprepare(handle_, name, sql.c_str(), 0, nullptr);
        const bool prepared = PQresultStatus(result) == PGRES_COMMAND_OK;
        PQclear(result);
        if (!prepared) throw std::runtime_error(PQerrorMessage(handle_));
    }

    /// The statements before and after those of an operation.
    void begin_write() {
        send_plain("BEGIN");
        send("lock", {"t"});
        send("before", {"t"});
    }
    void end_write() {
        send("write", {"t", "write-" + std::to_string(++writes_)});
        send_plain("COMMIT");
        receive();
    }

    void send_plain(const char* sql) {
        PQsendQueryParams(handle_, sql, 0, nullptr, nullptr, nullptr, nullptr, 1);
        ++sent_;
    }
    void send(const char* name, const std::vector<std::string>& values) {
        std::array<const char*, 6> texts{};
        for (std::size_t i = 0; i < values.size(); ++i) texts.at(i) = values[i].c_str();
        PQsendQueryPrepared(handle_, name, static_cast<int>(values.size()), texts.data(), nullptr,
                            nullptr, 1);
        ++sent_;
    }
    /// Waits for the results of all statements, and returns the number of their rows.
    std::size_t receive(MessageList* messages = nullptr) {
        PQpipelineSync(handle_);
        std::size_t rows = 0;
        for (; sent_ > 0; --sent_) {
            while (PGresult* const result = PQgetResult(handle_)) {
                if (PQresultStatus(result) == PGRES_FATAL_ERROR)
                    throw std::runtime_error(PQerrorMessage(handle_));
                rows += static_cast<std::size_t>(PQntuples(result));
                if (messages && PQnfields(result) == 3) decode(result, *messages);
                PQclear(result);
            }
        }
        PQclear(PQgetResult(handle_));  // the sync
        return rows;
    }

    static void decode(const PGresult* result, MessageList& messages) {
        const auto value = [result](int row, int column) {
            return std::string_view(PQgetvalue(result, row, column),
                                    static_cast<std::size_t>(PQgetlength(result, row, column)));
        };
        detail::MessageRowReader reader;
        for (int row = 0; row < PQntuples(result); ++row)
            messages.push_back(reader.read(value(row, 2), value(row, 1)));
    }

    PGconn* handle_;
    int sent_ = 0;
    std::int64_t seq_ = 0;
    std::int64_t writes_ = 0;
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
    measure_append(state, store);
}
BENCHMARK(pg_append)->UseRealTime();

void pg_append_of_64_sessions(benchmark::State& state) {
    PostgresCheckpointer store(new_database());
    measure_append_of_64(state, store);
}
BENCHMARK(pg_append_of_64_sessions)->UseRealTime();

PostgresOptions filled_database() {
    PostgresOptions options = new_database();
    PostgresCheckpointer store(options);
    fill(store);
    return options;
}

void bare_pg_load(benchmark::State& state) {
    Bare bare(filled_database().connection);
    for (auto _ : state) {
        if (bare.load() < many_messages) state.SkipWithError("messages are missing");
    }
}
BENCHMARK(bare_pg_load)->UseRealTime()->Unit(benchmark::kMillisecond);

/// The same, and decodes the messages as the store does.
void bare_pg_load_decoded(benchmark::State& state) {
    Bare bare(filled_database().connection);
    for (auto _ : state) {
        MessageList messages;
        (void)bare.load(&messages);
        if (messages.size() != many_messages) state.SkipWithError("messages are missing");
        state.PauseTiming();
        messages = MessageList();
        state.ResumeTiming();
    }
}
BENCHMARK(bare_pg_load_decoded)->UseRealTime()->Unit(benchmark::kMillisecond);

void pg_load(benchmark::State& state) {
    PostgresCheckpointer store(filled_database());
    measure_load(state, store);
}
BENCHMARK(pg_load)->UseRealTime()->Unit(benchmark::kMillisecond);

void bare_pg_claim(benchmark::State& state) {
    Bare bare(new_database().connection);
    std::int64_t number = 0;
    for (auto _ : state) bare.claim("r" + std::to_string(++number));
}
BENCHMARK(bare_pg_claim)->UseRealTime();

void pg_claim(benchmark::State& state) {
    PostgresCheckpointer store(new_database());
    measure_claim(state, store);
}
BENCHMARK(pg_claim)->UseRealTime();

}  // namespace
}  // namespace cubepi::bench
