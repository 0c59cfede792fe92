// The database that Python CubePi wrote: it loads with equal content, and can be written on.
#include <cubepi/checkpoint/postgres_checkpointer.hpp>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/message_row_reader_test.hpp>
#include <cubepi/checkpoint/postgres_schema.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/checkpoint/store_fixtures_test.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi {
namespace {

const char* const rows_of_cubepi =
    "SELECT thread_id, seq, role, metadata, encode(payload, 'hex'), run_id, created_at"
    " FROM cubepi_messages WHERE run_id IS DISTINCT FROM 'run-of-ours' ORDER BY thread_id, seq";

class PostgresFixture : public ::testing::Test {
protected:
    void SetUp() override {
        PostgresServer& server = PostgresServer::shared();
        database = server.create_empty_database();
        const std::string command = "psql -q -v ON_ERROR_STOP=1 -U cubepi -h " +
                                    server.socket_directory() + " -d " + database + " -f " +
                                    (databases / "postgres.sql").string() + " > /dev/null";
        ASSERT_EQ(std::system(command.c_str()), 0);
        options.connection = server.connection(database, "options=-csearch_path=public");
        wanted = parse_lenient(read_file(databases / "postgres.json")).at("threads").as_object();
    }

    std::vector<std::string> query(const std::string& sql) const {
        return RawPostgres(options.connection).query(sql);
    }

    std::string database;
    PostgresOptions options;
    JsonObject wanted;
};

TEST_F(PostgresFixture, D71_loads_with_equal_content) {
    const PostgresSchemaStatus before = run(apply_postgres_schema(options));
    EXPECT_EQ(before.version, 5);
    EXPECT_FALSE(before.native_version);
    PostgresCheckpointer store(options);
    EXPECT_EQ(wanted.size(), 20U);
    for (const auto& [key, value] : wanted) {
        const std::string thread_id = key;
        expect_thread(store, thread_id, value.as_object());
        expect_approvers(store, thread_id, value.as_object());
        expect_runs(store, thread_id, value.as_object());
    }
}

TEST_F(PostgresFixture, D71_the_fast_reader_of_rows_agrees_with_the_plain_one) {
    const std::vector<std::string> values = query(
        "SELECT encode(payload, 'hex'), metadata FROM cubepi_messages ORDER BY thread_id, seq");
    EXPECT_GT(values.size(), 100U);
    detail::expect_same_rows(values);
}

TEST_F(PostgresFixture, D65_the_inbox_lists_the_requests_that_cubepi_stored) {
    run(apply_postgres_schema(options));
    PostgresCheckpointer store(options);
    std::vector<std::string> threads;
    for (const InboxEntry& entry : run(store.list_requests(InboxQuery())).entries) {
        EXPECT_TRUE(entry.request) << entry.damage;
        threads.push_back(entry.thread_id);
    }
    std::sort(threads.begin(), threads.end());
    EXPECT_EQ(threads, (std::vector<std::string>{"approve", "ask", "batch"}));
}

TEST_F(PostgresFixture, D21_can_be_written_on_and_no_row_of_cubepi_changes) {
    run(apply_postgres_schema(options));
    const std::vector<std::string> before = query(rows_of_cubepi);
    const char* const extras = "SELECT thread_id, extra FROM cubepi_threads ORDER BY thread_id";
    const std::vector<std::string> extras_before = query(extras);
    PostgresCheckpointer store(options);
    for (const auto& [key, value] : wanted) {
        const std::string thread_id = key;
        const CheckpointData data = run(store.load(thread_id)).value_or(CheckpointData());
        AppendOptions append =
            AppendOptions().expected_position(data.position).extra(JsonObject(data.extra));
        run(store.claim_run(thread_id, "run-of-ours", ClaimOwner(), ClaimKind::new_run));
        run(store.append(thread_id, one(user("written on", "run-of-ours", "id")),
                         std::move(append)));
        run(store.mark_run_complete(thread_id, "run-of-ours"));
        EXPECT_EQ(run(store.load(thread_id))->messages.size(), data.messages.size() + 1);
        EXPECT_TRUE(run(store.find_message(thread_id, "id")));
    }
    EXPECT_EQ(query(rows_of_cubepi), before);
    EXPECT_EQ(query(extras), extras_before);
}

TEST_F(PostgresFixture, D18_an_answer_reaches_the_suspended_run_of_cubepi) {
    run(apply_postgres_schema(options));
    PostgresCheckpointer store(options);
    const PendingRequest pending = run(store.load_pending_requests("approve")).at(0);
    AnswerRecord record;
    record.run_id = pending.run_id;
    record.question_id = pending.request.question_id;
    record.answer = JsonObject{{"decision", "approve"}};
    record.answered_at = pending.request.created_at + 1;
    record.user = "ann";
    run(store.answer_request("approve", record));
    EXPECT_TRUE(run(store.load_pending_requests("approve")).empty());
    EXPECT_EQ(query("SELECT pending_request, run_id FROM cubepi_threads"
                    " WHERE thread_id = 'approve'"),
              (std::vector<std::string>{"NULL", "NULL"}));
    EXPECT_EQ(query("SELECT run_id, answer FROM cubepi_hitl_answers WHERE thread_id = 'approve'"),
              (std::vector<std::string>{pending.run_id, R"({"decision": "approve"})"}));
}

TEST_F(PostgresFixture, D71_our_rows_have_the_form_of_cubepis) {
    run(apply_postgres_schema(options));
    PostgresCheckpointer store(options);
    // A message of CubePi, appended again: the columns and the payload are the same.
    const CheckpointData data = *run(store.load("conversation"));
    run(store.append("copy", data.messages, AppendOptions()));
    const char* const columns =
        "SELECT seq, role, metadata, encode(payload, 'hex'), run_id FROM cubepi_messages"
        " WHERE thread_id = ";
    const std::string order = " ORDER BY seq";
    EXPECT_EQ(query(columns + std::string("'copy'") + order),
              query(columns + std::string("'conversation'") + order));
}

}  // namespace
}  // namespace cubepi
