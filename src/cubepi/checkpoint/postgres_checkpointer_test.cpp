#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/postgres_checkpointer.hpp>
#include <cubepi/checkpoint/postgres_schema.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/checkpoint/server_checks_test.hpp>
#include <cubepi/core/support/regular_expression.hpp>
#include <cubepi/testing/memory_log.hpp>

// The plans of all statements of the store on a database with 20,000 messages and 20,000 requests, and prepared statements of
// sessions that lose them.

namespace cubepi {

namespace {

void fill(RawPostgres& raw) {
    raw.query(
        "INSERT INTO cubepi_threads (thread_id, extra, pending_request, run_id) SELECT"
        " 't' || i, '{\"a\": 1}', jsonb_build_object('question_id', 'q', 'thread_id', 't' || i,"
        " 'payload', '{\"kind\": \"confirm\", \"prompt\": \"Continue?\", \"details\": "
        "null}'::jsonb,"
        " 'created_at', i, 'timeout_seconds', 100.0), 'r0' FROM generate_series(1, 20000) AS i");
    raw.query(
        "INSERT INTO cubepi_messages (thread_id, seq, role, payload, run_id)"
        " SELECT 't' || (i % 200 + 1), i / 200 + 1, 'user',"
        " '\\x82a4726f6c65a475736572a7636f6e74656e7490', 'r' || (i / 2000)"
        " FROM generate_series(0, 19999) AS i");
    raw.query(
        "INSERT INTO cubepi_runs (thread_id, run_id, completed_at, completion_seq)"
        " SELECT 't' || (i % 200 + 1), 'r' || (i / 200), now(), i / 200 + 1"
        " FROM generate_series(0, 1999) AS i");
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
}

/// Matches a line like "Index Scan using cubepi_runs_p35_pkey on cubepi_runs_p35 cubepi_runs  (cost=...".
bool scans_large_table(const std::string& line) {
    static const detail::RegularExpression scan(
        "Scan .*\\bon (cubepi_(messages|runs)(_p[0-9]+)?|cubepi_threads|cubepi_native_pending)"
        "[_a-z0-9]* ");
    return scan.occurs_in(line);
}

/// The options of a connection whose plans are logged.
std::string logged_connection(PostgresServer& server, const std::string& database) {
    // The partitions of a test are so small that reading them whole is cheaper.
    return server.connection(database,
                             "options='-cenable_seqscan=off"
                             " -csession_preload_libraries=auto_explain"
                             " -cauto_explain.log_min_duration=0"
                             " -cauto_explain.log_nested_statements=on"
                             " -cauto_explain.log_analyze=on -cauto_explain.log_timing=off'");
}

TEST(PostgresPlan, D71_EveryStatement_UsesAnIndex) {
    PostgresServer& server = PostgresServer::shared();
    const std::string database = server.create_database();
    RawPostgres raw(server.connection(database));
    fill(raw);
    PostgresOptions options;
    // The requests of CubePi, as if they had been adopted.
    raw.query(
        "INSERT INTO cubepi_native_pending (thread_id, run_id, question_id, request_json,"
        " created_at, expires_at) SELECT thread_id, run_id, 'q', pending_request::text,"
        " (pending_request->>'created_at')::float8,"
        " (pending_request->>'created_at')::float8 + 100 FROM cubepi_threads");
    raw.query("TRUNCATE cubepi_native_changed_pending");
    raw.query("ANALYZE");
    options.connection = logged_connection(server, database);
    const std::string log = server.log_of([&] {
        PostgresCheckpointer store(options);
        use_store(store);
    });
    std::string query;
    int index_scans = 0;
    const std::vector<std::string> lines = lines_of(log);
    for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
        const std::string& line = lines[i];
        if (line.find("Query Text:") != std::string::npos) query = line;
        if (!scans_large_table(line)) continue;
        EXPECT_EQ(line.find("Seq Scan"), std::string::npos) << line << "\n" << query;
        if (line.find("Index") == std::string::npos) continue;
        ++index_scans;
        EXPECT_NE(lines[i + 1].find("Index Cond:"), std::string::npos) << line << "\n"
                                                                       << lines[i + 1] << "\n"
                                                                       << query;
    }
    EXPECT_GT(index_scans, 50);
}

TEST(PostgresPlan, D71_Listing_LooksUpEachThreadInOnePartition) {
    PostgresServer& server = PostgresServer::shared();
    const std::string database = server.create_database();
    RawPostgres raw(server.connection(database));
    fill(raw);
    // 200 of the threads have messages.
    raw.query("DELETE FROM cubepi_threads WHERE substr(thread_id, 2)::int > 250");
    raw.query("VACUUM ANALYZE");
    PostgresOptions options;
    options.connection = logged_connection(server, database);
    std::vector<ThreadInfo> list;
    const std::string log = server.log_of([&] {
        PostgresCheckpointer store(options);
        list = run(store.list_threads());
    });
    ASSERT_EQ(list.size(), 250U);
    EXPECT_EQ(list.front().message_count, 100);
    EXPECT_EQ(list.back().message_count, 0);
    EXPECT_EQ(log.find("JIT:"), std::string::npos);
    // Each line states how often a partition was visited.
    static const detail::RegularExpression visit(
        "Index (Only )?Scan .* on cubepi_messages_p[0-9]+ .*\\(actual rows=[0-9]+ "
        "loops=[0-9]+\\)");
    const std::string loops = " loops=";
    int visits = 0;
    for (const std::string& line : lines_of(log)) {
        if (line.find("on cubepi_messages_p") == std::string::npos) continue;
        EXPECT_EQ(line.find("Seq Scan"), std::string::npos) << line;
        if (visit.occurs_in(line))
            visits += std::stoi(line.substr(line.rfind(loops) + loops.size()));
    }
    EXPECT_EQ(visits, 250 + 250) << "the count and the date of each thread";
}

class PostgresPrepared : public ::testing::Test {
protected:
    PostgresPrepared() : server(PostgresServer::shared()), database(server.create_database()) {
        // The log names the statement that is executed.
        options.connection = server.connection(database, "options=-clog_statement=all");
        options.runtime = std::make_shared<const Runtime>(Runtime().with_log(log.logger()));
        options.max_connections = 1;
    }

    std::vector<std::string> query(const std::string& sql) {
        return RawPostgres(server.connection(database)).query(sql);
    }
    static void append(PostgresCheckpointer& store) {
        run(store.append("t", one(user("hello", "r", "id")), AppendOptions()));
    }
    /// How many statements that are prepared were executed.
    std::size_t prepared_in(const std::function<void()>& work) {
        const std::string text = server.log_of(work);
        std::size_t count = 0;
        for (std::size_t at = text.find("execute cubepi_"); at != std::string::npos;
             at = text.find("execute cubepi_", at + 1))
            ++count;
        return count;
    }
    /// The session loses its prepared statements during each append, as if a pooler assigned another one.
    void lose_statements() {
        query(
            "CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN DEALLOCATE ALL; RETURN NULL; END $$");
        query(
            "CREATE TRIGGER lose AFTER INSERT ON cubepi_messages FOR EACH ROW EXECUTE FUNCTION"
            " lose()");
    }

    PostgresServer& server;
    std::string database;
    PostgresOptions options;
    const cubepi::testing::MemoryLog log;
};

TEST_F(PostgresPrepared, SecondUse_PreparesTheStatement) {
    PostgresCheckpointer store(options);
    EXPECT_EQ(prepared_in([&] { run(store.load("t")); }), 0U);
    EXPECT_EQ(prepared_in([&] { run(store.load("t")); }), 3U);
    EXPECT_EQ(prepared_in([&] { run(store.load("u")); }), 3U);
}

TEST_F(PostgresPrepared, WithoutOption_NothingIsPrepared) {
    options.prepare_statements = false;
    PostgresCheckpointer store(options);
    lose_statements();
    EXPECT_EQ(prepared_in([&] {
                  for (int i = 0; i < 3; ++i) append(store);
              }),
              0U);
    EXPECT_EQ(log.text(), "");
}

TEST_F(PostgresPrepared, MessageList_UsesAStatementBeingPrepared) {
    PostgresCheckpointer store(options);
    MessageList list;
    for (int i = 0; i < 4; ++i) list.push_back(user("hello", "r", std::to_string(i)));
    run(store.append("t", std::move(list), AppendOptions()));
    append(store);
    EXPECT_EQ(run(store.load("t"))->messages.size(), 5U);
}

TEST_F(PostgresPrepared, FailureDuringPreparation_IsReportedByTheCall) {
    PostgresCheckpointer store(options);
    append(store);
    for (int i = 0; i < 2; ++i) {
        AppendOptions stale = AppendOptions().expected_position(7);
        EXPECT_THROW(run(store.append("t", one(user("x")), std::move(stale))), StaleAppendError);
    }
    query("ALTER TABLE cubepi_messages ADD CONSTRAINT none CHECK (seq < 2)");
    for (int i = 0; i < 2; ++i) {
        Task<std::int64_t> refused = store.append("t", one(user("x")), AppendOptions());
        EXPECT_EQ(error_of<CheckpointerError>(std::move(refused)).code(), ErrorCode::storage);
    }
    query("ALTER TABLE cubepi_messages DROP CONSTRAINT none");
    append(store);
    EXPECT_EQ(run(store.load("t"))->position, 2);
}

TEST_F(PostgresPrepared, LostStatements_RepeatTheCall) {
    PostgresCheckpointer store(options);
    for (int i = 0; i < 3; ++i) append(store);
    EXPECT_EQ(log.text(), "");
    lose_statements();
    const std::string repeated =
        "<4>store.failed store=postgres error=server sqlstate=26000 repeated=true\n";
    append(store);
    EXPECT_EQ(log.text(), repeated);
    append(store);
    EXPECT_EQ(log.text(), repeated + repeated);
    EXPECT_EQ(query("SELECT count(*), max(seq) FROM cubepi_messages"),
              (std::vector<std::string>{"5", "5"}))
        << "each is stored once";
    // The session is not this one's alone, so it prepares nothing any longer.
    EXPECT_EQ(prepared_in([&] {
                  for (int i = 0; i < 3; ++i) append(store);
              }),
              0U);
    EXPECT_EQ(log.text(), repeated + repeated);
}

TEST_F(PostgresPrepared, AlteredTable_IsPreparedForAgain) {
    PostgresCheckpointer store(options);
    append(store);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(run(store.load("t")));
    query("ALTER TABLE cubepi_native_exact ALTER COLUMN json TYPE VARCHAR");
    EXPECT_TRUE(run(store.load("t")));
    EXPECT_EQ(log.text(),
              "<4>store.failed store=postgres error=server sqlstate=0A000 repeated=true\n");
    EXPECT_EQ(prepared_in([&] { EXPECT_TRUE(run(store.load("t"))); }), 3U);
}

}  // namespace

}  // namespace cubepi
