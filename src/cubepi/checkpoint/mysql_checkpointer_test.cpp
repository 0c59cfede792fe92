#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/mysql_checkpointer.hpp>
#include <cubepi/checkpoint/mysql_server_test.hpp>
#include <cubepi/checkpoint/server_checks_test.hpp>

// The plans of all statements of the store on a database with 20,000 messages and 20,000 requests.

namespace cubepi {

namespace {

/// 200 of the 20,000 threads have 100 messages each.
void fill(RawMySQL& raw) {
    raw.query("SET @cubepi_native_writer = 1");
    raw.query(
        "INSERT INTO cubepi_threads (thread_id, extra, pending_request, run_id) SELECT"
        " concat('t', seq), '{\"a\": 1}', concat('{\"question_id\": \"q\", \"thread_id\": \"t', "
        "seq,"
        " '\", \"payload\": {\"kind\": \"confirm\", \"prompt\": \"Continue?\", \"details\": null},"
        " \"created_at\": ', seq, ', \"timeout_seconds\": 100.0}'), 'r0' FROM seq_1_to_20000");
    raw.query(
        "INSERT INTO cubepi_messages (thread_id, seq, role, payload, run_id)"
        " SELECT concat('t', seq % 200 + 1), seq DIV 200 + 1, 'user',"
        " X'82a4726f6c65a475736572a7636f6e74656e7490', concat('r', seq DIV 2000)"
        " FROM seq_0_to_19999");
    raw.query(
        "INSERT INTO cubepi_native_message_ids (thread_id, message_id, seq)"
        " SELECT thread_id, concat('m', seq), seq FROM cubepi_messages");
    raw.query(
        "INSERT INTO cubepi_runs (thread_id, run_id, completed_at, completion_seq)"
        " SELECT concat('t', seq % 200 + 1), concat('r', seq DIV 200), now(), seq DIV 200 + 1"
        " FROM seq_0_to_1999");
    // The requests of CubePi, as if they had been adopted.
    raw.query(
        "INSERT INTO cubepi_native_pending (thread_id, run_id, question_id, request_json,"
        " created_at, expires_at) SELECT thread_id, run_id, 'q', pending_request,"
        " json_value(pending_request, '$.created_at'),"
        " json_value(pending_request, '$.created_at') + 100 FROM cubepi_threads");
    raw.query(
        "ANALYZE TABLE cubepi_threads, cubepi_messages, cubepi_runs, cubepi_native_pending,"
        " cubepi_native_message_ids");
}

class MySQLPlan : public ::testing::Test {
protected:
    MySQLPlan() : server(MySQLServer::shared()), database(filled_database()), raw(database) {}

    /// The tests share it, because filling takes seconds.
    static const std::string& filled_database() {
        static const std::string filled = [] {
            std::string name = MySQLServer::shared().create_database();
            RawMySQL connection(name);
            fill(connection);
            return name;
        }();
        return filled;
    }

    /// Returns the different statements that the server executes during `work`.
    std::set<std::string> statements_of(const std::function<void(MySQLCheckpointer&)>& work) {
        raw.query("SET GLOBAL log_output = 'TABLE'; TRUNCATE mysql.general_log");
        raw.query("SET GLOBAL general_log = ON");
        {
            MySQLCheckpointer store(server.connection(database));
            work(store);
        }
        raw.query("SET GLOBAL general_log = OFF");
        const std::vector<std::string> texts = raw.query(
            "SELECT DISTINCT argument FROM mysql.general_log WHERE command_type = 'Query'"
            " AND thread_id <> connection_id()");
        std::set<std::string> statements;
        for (const std::string& text : texts) {
            for (std::string& sql : split(text)) statements.insert(std::move(sql));
        }
        return statements;
    }
    /// Returns the statements of a packet.
    static std::vector<std::string> split(const std::string& text) {
        std::vector<std::string> parts(1);
        bool quoted = false;
        for (std::size_t i = 0; i < text.size(); ++i) {
            if (text[i] == '\'') quoted = !quoted;
            if (!quoted && text.compare(i, 2, "; ") == 0) {
                parts.emplace_back();
                ++i;
                continue;
            }
            parts.back() += text[i];
            if (text[i] == '\\' && i + 1 < text.size()) parts.back() += text[++i];
        }
        return parts;
    }
    /// Calls `check` for each table that the statement reads.
    void explain(const std::string& sql,
                 const std::function<void(const std::string& table, const std::string& access,
                                          const std::string& index)>& check) {
        constexpr std::size_t columns = 10;
        const std::vector<std::string> plan = raw.query("EXPLAIN " + sql);
        for (std::size_t row = 0; row + columns <= plan.size(); row += columns)
            check(plan[row + 2], plan[row + 3], plan[row + 5]);
    }
    static bool has_plan(const std::string& sql) {
        // Of a trigger.
        if (sql.find("NEW.") != std::string::npos) return false;
        return sql.starts_with("SELECT ") || sql.starts_with("UPDATE ") ||
               sql.starts_with("DELETE ") ||
               (sql.starts_with("INSERT ") && sql.find(" SELECT ") != std::string::npos);
    }

    MySQLServer& server;
    std::string database;
    RawMySQL raw;
};

TEST_F(MySQLPlan, D71_EveryStatement_UsesAnIndex) {
    const std::set<std::string> large = {"cubepi_messages", "cubepi_runs", "cubepi_threads",
                                         "cubepi_native_pending", "cubepi_native_message_ids"};
    int lookups = 0;
    for (const std::string& sql : statements_of(use_store)) {
        if (!has_plan(sql)) continue;
        explain(sql,
                [&](const std::string& table, const std::string& access, const std::string& index) {
                    if (!large.contains(table)) return;
                    EXPECT_NE(access, "ALL") << table << ": " << sql;
                    EXPECT_NE(access, "index") << table << " by " << index << ": " << sql;
                    ++lookups;
                });
    }
    EXPECT_GT(lookups, 20);
}

TEST_F(MySQLPlan, D71_Listing_LooksUpEachThreadByIndex) {
    std::vector<ThreadInfo> list;
    const std::set<std::string> statements =
        statements_of([&](MySQLCheckpointer& store) { list = run(store.list_threads()); });
    ASSERT_GT(list.size(), 19'000U);
    EXPECT_GT(list.front().message_count, 0);
    EXPECT_EQ(list.back().message_count, 0);
    int lookups = 0;
    for (const std::string& sql : statements) {
        if (!has_plan(sql) || sql.find("cubepi_messages") == std::string::npos) continue;
        explain(sql,
                [&](const std::string& table, const std::string& access, const std::string& index) {
                    if (table != "m") return;
                    EXPECT_EQ(access, "ref") << index << ": " << sql;
                    ++lookups;
                });
    }
    EXPECT_EQ(lookups, 2) << "the count and the date of a thread";
}

TEST_F(MySQLPlan, D71_Retention_SelectsThreadsByTheirAge) {
    explain(
        "SELECT thread_id FROM cubepi_threads WHERE updated_at < '2001-01-01'"
        " ORDER BY updated_at LIMIT 1",
        [&](const std::string& table, const std::string& access, const std::string& index) {
            EXPECT_EQ(table, "cubepi_threads");
            EXPECT_EQ(access, "range");
            EXPECT_EQ(index, "cubepi_native_ix_threads_updated");
        });
}

TEST_F(MySQLPlan, D65_Inbox_IsReadByItsIndexes) {
    for (const char* time : {"created_at", "expires_at"}) {
        const std::string key = std::string(time) + ", thread_id, run_id, question_id";
        const std::string plan =
            raw.query(
                   "EXPLAIN FORMAT=JSON SELECT id FROM cubepi_native_pending WHERE expired = false"
                   " AND " +
                   std::string(time) + " >= 5e0 AND (" + key +
                   ") > (5e0, 'a', 'b', 'c') ORDER BY " + key + " LIMIT 10")
                .front();
        EXPECT_NE(plan.find("cubepi_native_ix_pending"), std::string::npos) << plan;
        EXPECT_EQ(plan.find("filesort"), std::string::npos) << plan;
    }
}

}  // namespace

}  // namespace cubepi
