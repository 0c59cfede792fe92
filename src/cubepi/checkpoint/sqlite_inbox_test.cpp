#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cubepi/checkpoint/sqlite_checkpointer.hpp>
#include <cubepi/checkpoint/store_support_test.hpp>

// The inbox of a file that CubePi writes too, damaged requests, the plans of its statements on a file with 20,000 suspended
// threads, and pending requests when CubePi, which knows one request per thread, works on the file in between.

namespace cubepi {

namespace {

using EntryPoint = void (*)();

HitlRequest question(std::string thread_id, std::string question_id, double created_at,
                     double timeout) {
    ConfirmRequest payload;
    payload.prompt = "Continue?";
    HitlRequest request;
    request.question_id = std::move(question_id);
    request.thread_id = std::move(thread_id);
    request.payload = std::move(payload);
    request.created_at = created_at;
    if (timeout > 0) request.timeout_seconds = timeout;
    return request;
}

AnswerRecord yes(std::string question_id) {
    AnswerRecord record;
    record.run_id = "r";
    record.question_id = std::move(question_id);
    record.answer = true;
    record.answered_at = 20;
    return record;
}

class SQLiteQuestions : public ::testing::Test {
protected:
    void ask(const std::string& thread_id, const std::string& question_id, double created_at = 10,
             double timeout = 0) {
        run(store.save_pending_request(thread_id, "r",
                                       question(thread_id, question_id, created_at, timeout)));
    }
    void cubepi_asks(const std::string& thread_id, const std::string& question_id,
                     const std::string& timeout = "null") {
        raw().query(
            "INSERT OR REPLACE INTO thread_pending_request (thread_id, request_json, run_id) "
            "VALUES ('" +
            thread_id + "', '{\"question_id\": \"" + question_id + "\", \"thread_id\": \"" +
            thread_id +
            "\", \"payload\": {\"kind\": \"confirm\", \"prompt\": \"Continue?\", "
            "\"details\": null}, \"created_at\": 15.5, \"timeout_seconds\": " +
            timeout + "}', 'r')");
    }
    static std::string text_of(const std::vector<QuestionEntry>& entries) {
        std::string text;
        for (const QuestionEntry& entry : entries) {
            text += entry.thread_id + ":" + entry.question_id;
            if (!entry.damage.empty()) text += "(damaged)";
            text += " ";
        }
        return text;
    }
    std::string listed(SQLiteCheckpointer& from, QuestionOrder order = QuestionOrder::age) {
        std::string text;
        std::string cursor;
        do {
            QuestionQuery query = QuestionQuery().order(order).limit(2).after(cursor);
            QuestionPage page = run(from.list_requests(std::move(query)));
            text += text_of(page.entries);
            cursor = page.next;
        } while (!cursor.empty());
        return text;
    }
    std::string listed() { return listed(store); }
    std::string pending(const std::string& thread_id) {
        std::string ids;
        for (const PendingRequest& one : run(store.load_pending_requests(thread_id)))
            ids += one.request.question_id + (one.expired ? "(expired) " : " ");
        return ids;
    }
    void damage(const std::string& question_id) {
        raw().query("UPDATE cubepi_native_pending SET request_json = '{' WHERE question_id = '" +
                    question_id + "'");
    }
    SQLiteOptions read_only() const {
        SQLiteOptions options;
        options.path = path;
        options.read_only = true;
        return options;
    }
    RawDatabase& raw() {
        if (!raw_) raw_.emplace(path);
        return *raw_;
    }

    TempDirectory directory;
    std::string path = directory.file("sessions.db");
    SQLiteCheckpointer store{path};
    std::optional<RawDatabase> raw_;
};

TEST_F(SQLiteQuestions, D21_RequestsOfCubePi_AreListedDuringWrites) {
    ask("a", "1", 10);
    ask("a", "2", 11);
    ask("b", "3", 12);
    EXPECT_EQ(listed(), "a:1 a:2 b:3 ");
    cubepi_asks("c", "4");
    EXPECT_EQ(listed(), "a:1 a:2 b:3 c:4 ");
    cubepi_asks("a", "9");
    raw().query("DELETE FROM thread_pending_request WHERE thread_id = 'b'");
    EXPECT_EQ(listed(), "a:9 c:4 ") << "CubePi has continued both threads";
    EXPECT_EQ(raw().query("SELECT count(*) FROM cubepi_native_pending").front(), "2");
    const std::vector<std::string> noted =
        raw().query("SELECT thread_id FROM cubepi_native_changed_pending");
    EXPECT_TRUE(noted.empty());
}

TEST_F(SQLiteQuestions, D21_ReadOnlyStore_ListsRequestsOfCubePi) {
    ask("a", "1", 10);
    ask("b", "2", 20);
    cubepi_asks("c", "3");
    raw().query("DELETE FROM thread_pending_request WHERE thread_id = 'b'");
    SQLiteCheckpointer reader(read_only());
    EXPECT_EQ(listed(reader), "a:1 c:3 ");
    EXPECT_EQ(listed(reader, QuestionOrder::deadline), "a:1 c:3 ");
    EXPECT_EQ(raw().query("SELECT count(*) FROM cubepi_native_changed_pending").front(), "2");
}

TEST_F(SQLiteQuestions, D65_RequestsOfCubePi_ExpireAndAreAnswered) {
    run(store.open());
    cubepi_asks("a", "1", "60.0");
    cubepi_asks("b", "2", "3600.0");
    std::vector<QuestionEntry> expired = run(store.expire_due(100, 10));
    EXPECT_EQ(text_of(expired), "a:1 ");
    EXPECT_EQ(expired.front().expires_at, 75.5);
    EXPECT_EQ(pending("a"), "1(expired) ");
    run(store.answer_request("b", yes("2")));
    EXPECT_EQ(listed(), "");
    const std::vector<std::string> left = {"a"};
    EXPECT_EQ(raw().query("SELECT thread_id FROM thread_pending_request"), left)
        << "CubePi finds the answer, and no question";
    EXPECT_EQ(raw().query("SELECT answer_json FROM thread_hitl_answers").front(), "true");
}

TEST_F(SQLiteQuestions, D18_AnswerToClearedRequest_IsStale) {
    ask("a", "1");
    raw().query("DELETE FROM thread_pending_request");
    const Error error = error_of(store.answer_request("a", yes("1")));
    EXPECT_EQ(error.code(), ErrorCode::stale_answer);
    EXPECT_TRUE(run(store.load_answer_records("a", "")).empty());
}

TEST_F(SQLiteQuestions, D21_OtherPrograms_MayUseAnyConflictClause) {
    run(store.open());
    for (const char* clause : {"OR ABORT", "OR FAIL", "OR REPLACE", "OR IGNORE"}) {
        raw().query("DELETE FROM thread_pending_request");
        raw().query(std::string("INSERT ") + clause +
                    " INTO thread_pending_request (thread_id, request_json) VALUES ('t', '{}')");
    }
    EXPECT_EQ(listed(), "t:(damaged) ");
}

TEST_F(SQLiteQuestions, D65_FileOfVersion2_IsMigrated) {
    ask("a", "1", 10, 60);
    ask("b", "2", 5.5);
    ask("b", "3", 20);
    damage("3");
    const std::vector<std::string> old = {
        "DROP TRIGGER cubepi_native_pending_inserted",
        "DROP TRIGGER cubepi_native_pending_updated",
        "DROP TRIGGER cubepi_native_pending_deleted",
        "DROP INDEX cubepi_native_ix_pending",
        "DROP INDEX cubepi_native_ix_pending_age",
        "DROP INDEX cubepi_native_ix_pending_deadline",
        "DROP TABLE cubepi_native_answers",
        "DROP TABLE cubepi_native_changed_pending",
        "ALTER TABLE cubepi_native_pending DROP COLUMN created_at",
        "ALTER TABLE cubepi_native_pending DROP COLUMN expires_at",
        "ALTER TABLE cubepi_native_pending DROP COLUMN expired",
        "UPDATE cubepi_native_schema SET version = 2",
    };
    for (const std::string& sql : old) raw().query(sql);
    cubepi_asks("c", "4");
    SQLiteCheckpointer migrated(path);
    EXPECT_EQ(listed(migrated), "b:2 a:1 c:4 b:3(damaged) ");
    EXPECT_EQ(listed(migrated, QuestionOrder::deadline), "a:1 b:2 b:3(damaged) c:4 ");
    EXPECT_EQ(text_of(run(migrated.expire_due(100, 10))), "a:1 ");
    EXPECT_EQ(raw().query("SELECT version FROM cubepi_native_schema").front(), "3");
}

// A damaged request concerns itself only.

TEST_F(SQLiteQuestions, DamagedRequest_IsListedAndNamed) {
    ask("a", "1", 10);
    ask("a", "2", 11);
    ask("b", "3", 12);
    damage("2");
    EXPECT_EQ(listed(), "a:1 a:2(damaged) b:3 ");
    const auto error = error_of<CheckpointCorruptionError>(store.load_pending_requests("a"));
    EXPECT_EQ(error.row_ref(), "cubepi_native_pending.id=2");
    EXPECT_NE(std::string(error.what()).find("discard_requests"), std::string::npos)
        << error.what();
    expect_one_line(error);
    EXPECT_EQ(pending("b"), "3 ");
}

TEST_F(SQLiteQuestions, DamagedThread_KeepsItsOtherRequestsUsable) {
    for (const char* id : {"1", "2", "3", "4"}) ask("a", id);
    damage("2");
    ask("a", "5");
    run(store.answer_request("a", yes("1")));
    EXPECT_TRUE(run(store.clear_pending_request("a", "r", "3")));
    AppendOptions settling = AppendOptions().settle("r", {"4"});
    run(store.append("a", one(user("result", "r")), std::move(settling)));
    EXPECT_EQ(listed(), "a:2(damaged) a:5 ");
    Task<void> answering = store.answer_request("a", yes("2"));
    EXPECT_EQ(error_of<CheckpointCorruptionError>(std::move(answering)).row_ref(),
              "cubepi_native_pending.id=2");
    EXPECT_TRUE(run(store.clear_pending_request("a", "r", "2")));
    EXPECT_EQ(pending("a"), "5 ");
}

TEST_F(SQLiteQuestions, DiscardedRequests_LeaveDamagedThreadUsable) {
    ask("a", "1");
    ask("a", "2");
    ask("b", "3");
    damage("1");
    EXPECT_EQ(run(store.discard_requests("a")), 2u);
    EXPECT_EQ(pending("a"), "");
    EXPECT_EQ(raw().query("SELECT thread_id FROM thread_pending_request").front(), "b");
    ask("a", "4");
    EXPECT_EQ(listed(), "a:4 b:3 ");
}

TEST_F(SQLiteQuestions, DamagedRequest_Expires) {
    ask("a", "1", 10, 60);
    damage("1");
    const std::vector<QuestionEntry> expired = run(store.expire_due(100, 10));
    EXPECT_EQ(text_of(expired), "a:1(damaged) ");
    EXPECT_EQ(listed(), "");
}

TEST_F(SQLiteQuestions, DamagedRowOfCubePi_KeepsRequestsVisible) {
    ask("a", "1");
    ask("a", "2");
    raw().query("UPDATE thread_pending_request SET request_json = '{' WHERE thread_id = 'a'");
    EXPECT_EQ(pending("a"), "1 2 ");
    EXPECT_EQ(listed(), "a:1 a:2 ");
    EXPECT_TRUE(run(store.clear_pending_request("a", "r", "1")));
    EXPECT_NE(raw().query("SELECT request_json FROM thread_pending_request").front().find("\"2\""),
              std::string::npos);
}

TEST_F(SQLiteQuestions, LoneDamagedCubePiRow_CanBeDiscarded) {
    run(store.open());
    raw().query(
        "INSERT INTO thread_pending_request (thread_id, request_json, run_id) VALUES ('a', '{',"
        " 'r')");
    EXPECT_EQ(listed(), "a:(damaged) ");
    EXPECT_EQ(run(store.discard_requests("a")), 1u);
    EXPECT_TRUE(raw().query("SELECT thread_id FROM thread_pending_request").empty());
    EXPECT_EQ(listed(), "");
}

TEST_F(SQLiteQuestions, D63_AnswerRecord_OmitsTheToolSchema) {
    HitlRequest request = question("a", "1", 10, 0);
    request.extra["approval_digest"] = "sha256:00";
    request.extra["input_schema"] = JsonObject{{"type", "object"}};
    run(store.save_pending_request("a", "r", std::move(request)));
    run(store.answer_request("a", yes("1")));
    const JsonObject extra = run(store.load_answer_records("a", "")).at(0).request.value().extra;
    EXPECT_EQ(extra, (JsonObject{{"approval_digest", "sha256:00"}}));
}

TEST_F(SQLiteQuestions, DamagedAnswerRecord_DoesNotHideTheOthers) {
    ask("a", "1");
    ask("a", "2");
    run(store.answer_request("a", yes("1")));
    run(store.answer_request("a", yes("2")));
    raw().query("UPDATE cubepi_native_answers SET request_json = '{' WHERE question_id = '1'");
    const std::vector<AnswerRecord> records = run(store.load_answer_records("a", ""));
    ASSERT_EQ(records.size(), 2u);
    EXPECT_FALSE(records.front().request);
    EXPECT_NE(records.front().damage.find("cubepi_native_answers.id=1"), std::string::npos)
        << records.front().damage;
    EXPECT_TRUE(records.back().request && records.back().damage.empty());
}

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
    for (const QuestionOrder order : {QuestionOrder::age, QuestionOrder::deadline}) {
        QuestionQuery query = QuestionQuery().order(order);
        const QuestionPage page = run(store.list_requests(std::move(query)));
        QuestionQuery rest = QuestionQuery().order(order).after(page.next);
        EXPECT_EQ(run(store.list_requests(std::move(rest))).entries.size(), 50u);
    }
    EXPECT_EQ(run(store.expire_due(200, 1000)).size(), 100u);
    cubepi_asks_again(raw, "t000300");
    EXPECT_EQ(run(store.list_requests(QuestionQuery())).entries.size(), 50u);
    AnswerRecord record;
    record.run_id = "r";
    record.question_id = "q";
    record.answer = true;
    run(store.answer_request("t000400", std::move(record)));
    EXPECT_EQ(run(store.load_answer_records("t000400", "")).size(), 1u);
    EXPECT_EQ(run(store.discard_requests("t000500")), 1u);
    std::vector<std::string> statements = executed();
    std::sort(statements.begin(), statements.end());
    statements.erase(std::unique(statements.begin(), statements.end()), statements.end());
    return statements;
}

TEST(SQLiteInboxPlan, D65_EveryStatement_UsesAnIndex) {
    TempDirectory directory;
    const std::string path = directory.file("sessions.db");
    SQLiteCheckpointer store(path);
    run(store.open());
    RawDatabase raw(path);
    fill(raw, 20'000);
    EXPECT_EQ(run(store.list_requests(QuestionQuery())).entries.size(), 50u);
    const std::vector<std::string> statements = statements_of_an_inbox(path, raw);
    EXPECT_GT(statements.size(), 10u);
    for (const std::string& sql : statements) {
        for (const std::string& step : raw.query("EXPLAIN QUERY PLAN " + sql)) {
            EXPECT_EQ(step.find("SCAN"), std::string::npos) << step << "\n" << sql;
            EXPECT_EQ(step.find("TEMP B-TREE"), std::string::npos) << step << "\n" << sql;
        }
    }
}

class SQLitePending : public ::testing::Test {
protected:
    void ask(const std::string& call_id) {
        ApproveRequest payload;
        payload.tool_name = "rm";
        payload.tool_call_id = call_id;
        payload.args["path"] = call_id;
        HitlRequest request;
        request.question_id = call_id;
        request.thread_id = "t";
        request.payload = std::move(payload);
        request.created_at = 1700000003.0;
        request.extra["approval_digest"] = "digest of " + call_id;
        run(store.save_pending_request("t", "r", std::move(request)));
    }
    std::string pending() {
        std::string ids;
        for (const PendingRequest& entry : run(store.load_pending_requests("t"))) {
            ids += entry.run_id + ":" + entry.request.question_id + " ";
        }
        return ids;
    }
    std::string theirs() {
        const auto row = raw().query("SELECT request_json, run_id FROM thread_pending_request");
        return row.empty() ? std::string() : row.at(0) + " " + row.at(1);
    }
    void cubepi_asks(const std::string& call_id) {
        raw().query(
            "INSERT OR REPLACE INTO thread_pending_request (thread_id, request_json, run_id) "
            "VALUES ('t', "
            "'{\"question_id\":\"" +
            call_id +
            "\",\"thread_id\":\"t\",\"payload\":{\"kind\":\"approve\","
            "\"tool_name\":\"rm\",\"tool_call_id\":\"" +
            call_id + "\",\"args\":{\"path\":\"" + call_id +
            "\"},\"details\":null},\"created_at\":1700000003.0,\"timeout_seconds\":null}', 'r')");
    }
    RawDatabase& raw() {
        if (!raw_) raw_.emplace(directory.file("sessions.db"));
        return *raw_;
    }

    TempDirectory directory;
    SQLiteCheckpointer store{directory.file("sessions.db")};
    std::optional<RawDatabase> raw_;
};

TEST_F(SQLitePending, D21_RowOfCubePi_HoldsTheFirstRequest) {
    ask("a");
    ask("b");
    EXPECT_EQ(
        theirs(),
        R"({"question_id": "a", "thread_id": "t", "payload": {"kind": "approve", "tool_name": "rm", )"
        R"("tool_call_id": "a", "args": {"path": "a"}, "details": null}, "created_at": 1700000003.0, )"
        R"("timeout_seconds": null} r)");
    EXPECT_TRUE(run(store.clear_pending_request("t", "r", "a")));
    EXPECT_NE(theirs().find(R"("question_id": "b")"), std::string::npos);
    EXPECT_TRUE(run(store.clear_pending_request("t", "r", "b")));
    EXPECT_EQ(theirs(), "");
}

TEST_F(SQLitePending, D17_Digest_IsStoredWithTheRequest) {
    ask("a");
    EXPECT_EQ(raw().query("SELECT approval_digest FROM cubepi_native_pending").front(),
              "digest of a");
    EXPECT_EQ(run(store.load_pending_requests("t")).at(0).request.extra.at("approval_digest"),
              "digest of a");
    EXPECT_EQ(theirs().find("digest"), std::string::npos);
}

TEST_F(SQLitePending, D21_FirstRequestOfCubePi_StaysFirst) {
    run(store.open());
    cubepi_asks("a");
    ask("b");
    EXPECT_EQ(pending(), "r:a r:b ");
    EXPECT_NE(theirs().find(R"("question_id":)"), std::string::npos);
    EXPECT_TRUE(run(store.clear_pending_request("t", "r", "a")));
    EXPECT_EQ(pending(), "r:b ");
}

TEST_F(SQLitePending, D21_SecondGateReached_FirstIsNotPending) {
    ask("a");
    ask("b");
    ask("c");
    cubepi_asks("b");
    EXPECT_EQ(pending(), "r:b r:c ");
    EXPECT_FALSE(run(store.clear_pending_request("t", "r", "a")));
}

TEST_F(SQLitePending, D21_CubePiFinished_NothingIsPending) {
    ask("a");
    ask("b");
    raw().query("DELETE FROM thread_pending_request");
    EXPECT_EQ(pending(), "");
    ask("c");
    EXPECT_EQ(pending(), "r:c ");
}

TEST_F(SQLitePending, D17_SameIdWithOtherArguments_IsAnotherRequest) {
    ask("a");
    raw().query(
        "UPDATE thread_pending_request SET request_json = replace(request_json, '\"path\": \"a\"', "
        "'\"path\": \"/\"')");
    const PendingRequest entry = run(store.load_pending_requests("t")).at(0);
    EXPECT_EQ(std::get<ApproveRequest>(entry.request.payload).args.at("path"), "/");
    EXPECT_FALSE(entry.request.extra.contains("approval_digest"));
}

TEST_F(SQLitePending, D62_UsedAnswer_LeavesTheTableOfCubePi) {
    HitlAnswer answer;
    answer.run_id = "r";
    answer.question_id = "a";
    answer.answer = true;
    run(store.save_hitl_answer("t", answer));
    BatchStart start;
    start.run_id = "r";
    start.batch_id = "m1";
    start.tool_call_ids = {"a"};
    start.question_ids = {"a"};
    run(store.mark_batch_started("t", start));
    EXPECT_EQ(raw().query("SELECT count(*) FROM thread_hitl_answers").front(), "0");
    raw().query("UPDATE cubepi_native_used_answers SET answer_json = '{'");
    const auto error = error_of<CheckpointCorruptionError>(store.load_started_batch("t", "r"));
    EXPECT_EQ(error.row_ref(), "cubepi_native_used_answers.question_id=a");
    run(store.delete_thread("t"));
    EXPECT_FALSE(run(store.load_started_batch("t", "r")).has_value());
}

TEST_F(SQLitePending, D62_FileOfVersion1_IsMigrated) {
    ask("a");
    raw().query("DROP TABLE cubepi_native_started");
    raw().query("DROP TABLE cubepi_native_used_answers");
    raw().query("UPDATE cubepi_native_schema SET version = 1");
    SQLiteCheckpointer migrated(directory.file("sessions.db"));
    BatchStart start;
    start.run_id = "r";
    start.batch_id = "m1";
    start.tool_call_ids = {"a"};
    run(migrated.mark_batch_started("t", start));
    EXPECT_EQ(run(migrated.load_started_batch("t", "r"))->tool_call_ids, start.tool_call_ids);
    EXPECT_EQ(run(migrated.load_pending_requests("t")).size(), 1u);
    const std::vector<std::string> versions = {"3"};
    EXPECT_EQ(raw().query("SELECT version FROM cubepi_native_schema"), versions);
}

TEST_F(SQLitePending, BrokenRequest_NamesItsRow) {
    run(store.open());
    raw().query("INSERT INTO thread_pending_request (thread_id, request_json) VALUES ('t', '{')");
    const auto error = error_of<CheckpointCorruptionError>(store.load_pending_requests("t"));
    EXPECT_EQ(error.row_ref(), "thread_pending_request.thread_id=t");
}

}  // namespace

}  // namespace cubepi
