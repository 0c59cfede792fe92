// The plans of all statements of the store, on a database with 20,000 messages and 20,000 requests.
#include <cubepi/checkpoint/postgres_checkpointer.hpp>

#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/checkpoint/store_calls_test.hpp>

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
    static const std::regex scan(
        "Scan .*\\bon (cubepi_(messages|runs)(_p[0-9]+)?|cubepi_threads|cubepi_native_pending)"
        "[_a-z0-9]* ");
    return std::regex_search(line, scan);
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

TEST(PostgresPlan, D71_every_statement_uses_an_index) {
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

TEST(PostgresPlan, D71_a_listing_looks_up_each_thread_in_one_partition) {
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
    static const std::regex visit(
        "Index (Only )?Scan .* on cubepi_messages_p[0-9]+ .*\\(actual rows=[0-9]+ "
        "loops=([0-9]+)\\)");
    int visits = 0;
    for (const std::string& line : lines_of(log)) {
        if (line.find("on cubepi_messages_p") == std::string::npos) continue;
        EXPECT_EQ(line.find("Seq Scan"), std::string::npos) << line;
        std::smatch match;
        if (std::regex_search(line, match, visit)) visits += std::stoi(match[2]);
    }
    EXPECT_EQ(visits, 250 + 250) << "the count and the date of each thread";
}

}  // namespace
}  // namespace cubepi
