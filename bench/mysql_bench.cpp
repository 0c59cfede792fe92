#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <mysql.h>

#include <cubepi/checkpoint/mysql_checkpointer.hpp>
#include <cubepi/checkpoint/mysql_server_test.hpp>
#include <cubepi/core/run.hpp>

#include "server_store.hpp"
#include "stored_message.hpp"

// Appends, a load of 10,000 messages and a claim in MariaDB, against the same statements over bare libmariadb.

namespace cubepi::bench {
namespace {

MySQLOptions options_of(const std::string& database) {
    MySQLOptions options;
    options.connection = MySQLServer::shared().connection(database);
    return options;
}

MySQLOptions new_database() { return options_of(MySQLServer::shared().create_database()); }

/// The values of a row as the store writes it.
struct StoredRow {
    std::string metadata;
    std::string payload;
};

StoredRow stored_row() {
    const std::string database = MySQLServer::shared().create_database();
    MySQLCheckpointer store(options_of(database));
    MessageList list;
    list.push_back(stored_message());
    run(store.append("row", std::move(list), AppendOptions()));
    // In hex, because the client of the tests reads values up to a NUL.
    const std::vector<std::string> values =
        RawMySQL(database).query("SELECT metadata, hex(payload) FROM cubepi_messages");
    StoredRow row;
    row.metadata = values.at(0);
    for (std::size_t i = 0; i < values.at(1).size(); i += 2)
        row.payload += static_cast<char>(std::stoi(values[1].substr(i, 2), nullptr, 16));
    return row;
}

/// Bare libmariadb, which blocks: the statements of the store, in its round trips.
class Bare {
public:
    explicit Bare(const std::string& database) : handle_(mysql_init(nullptr)) {
        mysql_optionsv(handle_, MYSQL_SET_CHARSET_NAME, "utf8mb4");
        const std::string socket = MySQLServer::shared().socket();
        if (!mysql_real_connect(handle_, nullptr, "cubepi", nullptr, database.c_str(), 0,
                                socket.c_str(), CLIENT_MULTI_STATEMENTS | CLIENT_FOUND_ROWS))
            throw std::runtime_error(mysql_error(handle_));
        add("SET NAMES utf8mb4 COLLATE utf8mb4_bin, time_zone = '+00:00', autocommit = 1,"
            " sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
            {});
        add("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", {});
        add("SET @cubepi_native_writer = 1", {});
        exchange();
    }
    ~Bare() { mysql_close(handle_); }
    Bare(const Bare&) = delete;
    Bare& operator=(const Bare&) = delete;

    void append(const StoredRow& row) {
        begin_write();
        add("SELECT coalesce((SELECT seq FROM cubepi_messages WHERE thread_id = $1"
            " ORDER BY seq DESC LIMIT 1), 0),"
            " (SELECT run_id FROM cubepi_runs WHERE thread_id = $1 AND run_id IN ($2)"
            " AND completed_at IS NOT NULL ORDER BY run_id LIMIT 1)",
            {"t", "run-1"});
        exchange();
        add("INSERT INTO cubepi_threads (thread_id) VALUES ($1)"
            " ON DUPLICATE KEY UPDATE thread_id = VALUES(thread_id), updated_at = now()",
            {"t"});
        const std::string seq = std::to_string(++seq_);
        add("INSERT INTO cubepi_messages (thread_id, seq, role, metadata, payload, run_id)"
            " VALUES ($1, " +
                seq + ", $2, $3, _binary$4, $5)",
            {"t", "user", row.metadata, row.payload, "run-1"});
        add("INSERT INTO cubepi_native_message_ids (thread_id, message_id, seq)"
            " VALUES ($1, $2, " +
                seq + ") ON DUPLICATE KEY UPDATE thread_id = VALUES(thread_id)",
            {"t", "m"});
        end_write();
    }

    std::size_t load() {
        add("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", {});
        add("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY", {});
        add("SELECT extra, parent_thread_id FROM cubepi_threads WHERE thread_id = $1", {"t"});
        add("SELECT json FROM cubepi_native_exact"
            " WHERE thread_id = $1 AND item = 'extra' AND run_id = '' AND question_id = ''",
            {"t"});
        add("SELECT seq, metadata, payload FROM cubepi_messages WHERE thread_id = $1 ORDER BY seq",
            {"t"});
        add("COMMIT", {});
        return exchange();
    }

    /// A claim of a run and its completion.
    void claim(const std::string& run_id) {
        begin_claim(run_id);
        add("INSERT INTO cubepi_threads (thread_id) VALUES ($1)"
            " ON DUPLICATE KEY UPDATE thread_id = VALUES(thread_id)",
            {"t"});
        add("INSERT INTO cubepi_runs (thread_id, run_id) VALUES ($1, $2)", {"t", run_id});
        add("INSERT INTO cubepi_native_claims (thread_id, run_id, owner_id, host, boot_id, pid,"
            " process_start, description, lease_until) VALUES ($1, $2, $3, '', '', 0, 0, '',"
            " 4e9) ON DUPLICATE KEY UPDATE owner_id = VALUES(owner_id), host = VALUES(host),"
            " boot_id = VALUES(boot_id), pid = VALUES(pid), process_start = VALUES(process_start),"
            " description = VALUES(description), lease_until = VALUES(lease_until)",
            {"t", run_id, "bench"});
        end_write();
        begin_claim(run_id);
        add("DELETE FROM cubepi_native_claims WHERE thread_id = $1 AND run_id IN ($2)",
            {"t", run_id});
        add("UPDATE cubepi_runs SET completed_at = now(), completion_seq = (SELECT next FROM"
            " (SELECT coalesce(max(completion_seq), 0) + 1 AS next FROM cubepi_runs"
            " WHERE thread_id = $1) AS last) WHERE thread_id = $1 AND run_id = $2",
            {"t", run_id});
        for (const char* table :
             {"cubepi_native_started", "cubepi_native_used_answers", "cubepi_hitl_answers"}) {
            add(std::string("DELETE FROM ") + table + " WHERE thread_id = $1 AND run_id = $2",
                {"t", run_id});
        }
        add("DELETE FROM cubepi_native_exact WHERE thread_id = $1 AND item = 'answer'"
            " AND run_id = $2",
            {"t", run_id});
        end_write();
    }

private:
    /// The statements before those of an operation.
    void begin_write() {
        add("START TRANSACTION", {});
        add("INSERT INTO cubepi_native_writes (thread_id, write_id) VALUES ($1, '')"
            " ON DUPLICATE KEY UPDATE write_id = write_id",
            {"t"});
        add("SELECT 1 FROM cubepi_threads WHERE thread_id = $1 FOR UPDATE", {"t"});
        add("SELECT (SELECT nullif(write_id, '') FROM cubepi_native_writes WHERE thread_id = $1),"
            " UNIX_TIMESTAMP(NOW(6))",
            {"t"});
    }
    void begin_claim(const std::string& run_id) {
        begin_write();
        add("SELECT run_id, owner_id, host, boot_id, pid, process_start, description, lease_until"
            " FROM cubepi_native_claims WHERE thread_id = $1 ORDER BY run_id",
            {"t"});
        add("SELECT run_id, completed_at IS NOT NULL FROM cubepi_runs WHERE thread_id = $1"
            " AND (run_id = $2 OR run_id IN"
            " (SELECT run_id FROM cubepi_native_claims WHERE thread_id = $1))",
            {"t", run_id});
        exchange();
    }
    void end_write() {
        add("INSERT INTO cubepi_native_writes (thread_id, write_id) SELECT thread_id, $2 FROM"
            " cubepi_threads WHERE thread_id = $1 ON DUPLICATE KEY UPDATE"
            " write_id = VALUES(write_id)",
            {"t", "write-" + std::to_string(++writes_)});
        add("DELETE FROM cubepi_native_writes WHERE thread_id = $1 AND write_id = ''", {"t"});
        add("COMMIT", {});
        exchange();
    }

    /// Adds a statement to the packet. $1 to $9 are replaced by the quoted values.
    void add(const std::string& sql, const std::vector<std::string>& values) {
        if (!packet_.empty()) packet_ += "; ";
        for (std::size_t i = 0; i < sql.size(); ++i) {
            if (sql[i] != '$') {
                packet_ += sql[i];
                continue;
            }
            const std::string& value = values.at(static_cast<std::size_t>(sql[++i] - '1'));
            std::string quoted(value.size() * 2 + 1, '\0');
            quoted.resize(
                mysql_real_escape_string(handle_, quoted.data(), value.data(), value.size()));
            packet_ += "'" + quoted + "'";
        }
    }
    /// Sends the packet, and returns the number of rows of all its results.
    std::size_t exchange() {
        const std::string packet = std::exchange(packet_, {});
        std::size_t rows = 0;
        int next = mysql_real_query(handle_, packet.data(), packet.size());
        for (; next == 0; next = mysql_next_result(handle_)) {
            MYSQL_RES* const result = mysql_store_result(handle_);
            if (!result) continue;
            rows += mysql_num_rows(result);
            mysql_free_result(result);
        }
        if (next > 0) throw std::runtime_error(mysql_error(handle_));
        return rows;
    }

    MYSQL* handle_;
    std::string packet_;
    std::int64_t seq_ = 0;
    std::int64_t writes_ = 0;
};

void bare_my_append(benchmark::State& state) {
    const StoredRow row = stored_row();
    Bare bare(MySQLServer::shared().create_database());
    for (auto _ : state) bare.append(row);
}
BENCHMARK(bare_my_append)->UseRealTime();

void my_append(benchmark::State& state) {
    MySQLCheckpointer store(new_database());
    measure_append(state, store);
}
BENCHMARK(my_append)->UseRealTime();

void my_append_of_64_sessions(benchmark::State& state) {
    MySQLCheckpointer store(new_database());
    measure_append_of_64(state, store);
}
BENCHMARK(my_append_of_64_sessions)->UseRealTime();

std::string filled_database() {
    const std::string database = MySQLServer::shared().create_database();
    MySQLCheckpointer store(options_of(database));
    fill(store);
    return database;
}

void bare_my_load(benchmark::State& state) {
    Bare bare(filled_database());
    for (auto _ : state) {
        if (bare.load() < many_messages) state.SkipWithError("messages are missing");
    }
}
BENCHMARK(bare_my_load)->UseRealTime()->Unit(benchmark::kMillisecond);

void my_load(benchmark::State& state) {
    MySQLCheckpointer store(options_of(filled_database()));
    measure_load(state, store);
}
BENCHMARK(my_load)->UseRealTime()->Unit(benchmark::kMillisecond);

void bare_my_claim(benchmark::State& state) {
    Bare bare(MySQLServer::shared().create_database());
    std::int64_t number = 0;
    for (auto _ : state) bare.claim("r" + std::to_string(++number));
}
BENCHMARK(bare_my_claim)->UseRealTime();

void my_claim(benchmark::State& state) {
    MySQLCheckpointer store(new_database());
    measure_claim(state, store);
}
BENCHMARK(my_claim)->UseRealTime();

}  // namespace
}  // namespace cubepi::bench
