// Pending requests when CubePi works on the same file in between: it knows one request per thread.
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>

#include <string>
#include <utility>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/store_support_test.hpp>

namespace cubepi {
namespace {

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

TEST_F(SQLitePending, D21_the_row_of_cubepi_holds_the_first_as_it_writes_it) {
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

TEST_F(SQLitePending, D17_the_digest_is_stored_with_the_request) {
    ask("a");
    EXPECT_EQ(raw().query("SELECT approval_digest FROM cubepi_native_pending").front(),
              "digest of a");
    EXPECT_EQ(run(store.load_pending_requests("t")).at(0).request.extra.at("approval_digest"),
              "digest of a");
    EXPECT_EQ(theirs().find("digest"), std::string::npos);
}

TEST_F(SQLitePending, D21_what_cubepi_asked_first_stays_first) {
    run(store.open());
    cubepi_asks("a");
    ask("b");
    EXPECT_EQ(pending(), "r:a r:b ");
    EXPECT_NE(theirs().find(R"("question_id":)"), std::string::npos);
    EXPECT_TRUE(run(store.clear_pending_request("t", "r", "a")));
    EXPECT_EQ(pending(), "r:b ");
}

TEST_F(SQLitePending, D21_after_cubepi_reached_the_second_gate_the_first_is_not_pending) {
    ask("a");
    ask("b");
    ask("c");
    cubepi_asks("b");
    EXPECT_EQ(pending(), "r:b r:c ");
    EXPECT_FALSE(run(store.clear_pending_request("t", "r", "a")));
}

TEST_F(SQLitePending, D21_when_cubepi_finished_nothing_is_pending) {
    ask("a");
    ask("b");
    raw().query("DELETE FROM thread_pending_request");
    EXPECT_EQ(pending(), "");
    ask("c");
    EXPECT_EQ(pending(), "r:c ");
}

TEST_F(SQLitePending, D17_the_same_question_id_with_other_arguments_is_another_request) {
    ask("a");
    raw().query(
        "UPDATE thread_pending_request SET request_json = replace(request_json, '\"path\": \"a\"', "
        "'\"path\": \"/\"')");
    const PendingRequest entry = run(store.load_pending_requests("t")).at(0);
    EXPECT_EQ(std::get<ApproveRequest>(entry.request.payload).args.at("path"), "/");
    EXPECT_FALSE(entry.request.extra.contains("approval_digest"));
}

TEST_F(SQLitePending, D62_a_used_answer_leaves_the_table_of_cubepi) {
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

TEST_F(SQLitePending, D62_a_file_of_version_1_is_migrated) {
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

TEST_F(SQLitePending, a_broken_request_names_its_row) {
    run(store.open());
    raw().query("INSERT INTO thread_pending_request (thread_id, request_json) VALUES ('t', '{')");
    const auto error = error_of<CheckpointCorruptionError>(store.load_pending_requests("t"));
    EXPECT_EQ(error.row_ref(), "thread_pending_request.thread_id=t");
}

}  // namespace
}  // namespace cubepi
