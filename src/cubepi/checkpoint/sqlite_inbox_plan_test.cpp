// The plans of the statements that an inbox executes on a file with 20,000 suspended threads.
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cubepi/checkpoint/store_support_test.hpp>

namespace cubepi {
namespace {

std::vector<std::string>& executed() {
    static std::vector<std::string> statements;
    return statements;
}

int note_statement(unsigned, void*, void*, void* sql) {
    const std::string text = static_cast<const char*>(sql);
    for (const char* verb : {"SELECT", "INSERT", "UPDATE", "DELETE"}) {
        if (text.starts_with(verb)) executed().push_back(text);
    }
    return 0;
}

int trace_connection(sqlite3* connection, const char**, const sqlite3_api_routines*) {
    return sqlite3_trace_v2(connection, SQLITE_TRACE_STMT, note_statement, nullptr);
}

using EntryPoint = void (*)();

/// Notes the statements of connections that are opened in its lifetime.
class StatementTrace {
public:
    StatementTrace() {
        executed().clear();
        sqlite3_auto_extension(reinterpret_cast<EntryPoint>(trace_connection));
    }
    ~StatementTrace() { sqlite3_reset_auto_extension(); }
    StatementTrace(const StatementTrace&) = delete;
    StatementTrace& operator=(const StatementTrace&) = delete;
};

void fill(RawDatabase& raw, int threads) {
    raw.query("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < " +
              std::to_string(threads) +
              ") INSERT INTO thread_pending_request (thread_id, request_json, run_id) SELECT"
              " printf('t%06d', i), printf('{\"question_id\": \"q\", \"thread_id\": \"t%06d\","
              " \"payload\": {\"kind\": \"confirm\", \"prompt\": \"Continue?\", \"details\": null},"
              " \"created_at\": %d.0, \"timeout_seconds\": 100.0}', i, i), 'r' FROM n");
}

/// CubePi continues the run and asks something else.
void cubepi_asks_again(RawDatabase& raw, const std::string& thread_id) {
    raw.query(
        "UPDATE thread_pending_request SET request_json = replace(request_json, 'Continue?', "
        "'Why?')"
        " WHERE thread_id = '" +
        thread_id + "'");
}

/// Returns the statements of all functions of an inbox.
std::vector<std::string> statements_of_an_inbox(const std::string& path, RawDatabase& raw) {
    const StatementTrace trace;
    SQLiteCheckpointer store(path);
    run(store.open());
    executed().clear();
    for (const InboxOrder order : {InboxOrder::age, InboxOrder::deadline}) {
        InboxQuery query = InboxQuery().order(order);
        const InboxPage page = run(store.list_requests(std::move(query)));
        InboxQuery rest = InboxQuery().order(order).after(page.next);
        EXPECT_EQ(run(store.list_requests(std::move(rest))).entries.size(), 50u);
    }
    EXPECT_EQ(run(store.expire_due(200, 1000)).size(), 100u);
    cubepi_asks_again(raw, "t000300");
    EXPECT_EQ(run(store.list_requests(InboxQuery())).entries.size(), 50u);
    AnswerRecord record;
    record.run_id = "r";
    record.question_id = "q";
    record.answer = true;
    run(store.answer_request("t000400", std::move(record)));
    EXPECT_EQ(run(store.load_answer_records("t000400")).size(), 1u);
    EXPECT_EQ(run(store.discard_requests("t000500")), 1u);
    std::vector<std::string> statements = executed();
    std::sort(statements.begin(), statements.end());
    statements.erase(std::unique(statements.begin(), statements.end()), statements.end());
    return statements;
}

TEST(SQLiteInboxPlan, D65_every_statement_uses_an_index) {
    TempDirectory directory;
    const std::string path = directory.file("sessions.db");
    SQLiteCheckpointer store(path);
    run(store.open());
    RawDatabase raw(path);
    fill(raw, 20'000);
    EXPECT_EQ(run(store.list_requests(InboxQuery())).entries.size(), 50u);
    const std::vector<std::string> statements = statements_of_an_inbox(path, raw);
    EXPECT_GT(statements.size(), 10u);
    for (const std::string& sql : statements) {
        for (const std::string& step : raw.query("EXPLAIN QUERY PLAN " + sql)) {
            EXPECT_EQ(step.find("SCAN"), std::string::npos) << step << "\n" << sql;
            EXPECT_EQ(step.find("TEMP B-TREE"), std::string::npos) << step << "\n" << sql;
        }
    }
}

}  // namespace
}  // namespace cubepi
