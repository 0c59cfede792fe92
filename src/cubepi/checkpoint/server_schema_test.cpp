#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/message_row_reader_test.hpp>
#include <cubepi/checkpoint/server_checks_test.hpp>
#include <cubepi/checkpoint/store_fixtures_test.hpp>

// The tables that the library makes, the migrations, and databases that Python CubePi wrote.

namespace cubepi {

namespace {

class ServerSchema : public ::testing::Test {
protected:
    std::vector<std::string> query(const std::string& sql) { return database->query(sql); }
    void start_again() { database = ServerDatabase::create(false); }
    void load_recorded() { database->run_file(database->name() + "-schema.sql"); }
    std::shared_ptr<SqlCheckpointer> store() {
        SqlOptions options;
        options.connection = database->connection();
        return ServerDatabase::open(options);
    }
    std::string function_name() const { return "apply_" + database->name() + "_schema"; }
    ErrorCode code_of_open() {
        const auto error = error_of<CheckpointerError>(store()->open());
        text = error.what();
        expect_one_line(error);
        return error.code();
    }
    bool is_current() {
        const SqlSchemaStatus status = database->schema_status();
        return status.version == 5 && status.native_version == 1;
    }
    /// The tables as they were in an older version.
    void make_version(int version) {
        load_recorded();
        query("INSERT INTO cubepi_threads (thread_id) VALUES ('old')");
        query(
            "INSERT INTO cubepi_messages (thread_id, seq, role, payload) VALUES ('old', 1, "
            "'user', " +
            database->bytes("82a4726f6c65a475736572a7636f6e74656e7490") + ")");
        database->make_older(version);
        query("UPDATE cubepi_schema_version SET version = " + std::to_string(version));
    }

    std::unique_ptr<ServerDatabase> database = ServerDatabase::create(false);
    std::string text;
};

TEST_F(ServerSchema, D21_EmptyDatabase_GetsTablesOfCubepi) {
    database->apply_schema();
    const std::string ours = database->shape();
    EXPECT_EQ(query("SELECT version FROM cubepi_schema_version").front(), "5");
    EXPECT_EQ(query("SELECT version FROM cubepi_native_schema").front(), "1");
    run(store()->open());
    start_again();
    load_recorded();
    // In MySQL, ids compare bytes after the migration.
    if (database->name() == "postgres") {
        EXPECT_EQ(ours, database->shape());
    }
    EXPECT_EQ(code_of_open(), ErrorCode::schema_mismatch);
    EXPECT_NE(text.find(function_name()), std::string::npos) << text;
    database->apply_schema();
    EXPECT_EQ(ours, database->shape());
    run(store()->open());
}

TEST_F(ServerSchema, TextForOperators_MakesTheSameTables) {
    query(database->schema_sql({}));
    run(store()->open());
    EXPECT_TRUE(is_current());
    EXPECT_EQ(database->schema_sql(database->schema_status()), "");
    const SqlSchemaStatus before = database->apply_schema();
    EXPECT_EQ(before.version, 5) << "nothing is left to do";
    EXPECT_EQ(before.native_version, 1);
}

TEST_F(ServerSchema, D21_EachVersionOfCubepi_IsMigrated) {
    database->apply_schema();
    const std::string current = database->shape();
    for (int version = 1; version <= 5; ++version) {
        start_again();
        make_version(version);
        EXPECT_EQ(code_of_open(), ErrorCode::schema_mismatch) << version;
        EXPECT_NE(text.find(function_name()), std::string::npos) << text;
        EXPECT_EQ(database->apply_schema().version, version);
        EXPECT_EQ(database->shape(), current) << version;
        const auto migrated = store();
        EXPECT_EQ(run(migrated->load("old"))->messages.size(), 1U) << version;
        run(migrated->append("old", one(user("new", "r1", "id")), AppendOptions()));
    }
}

TEST_F(ServerSchema, NewerVersion_IsRefusedByName) {
    database->apply_schema();
    query("INSERT INTO cubepi_schema_version VALUES (6)");
    EXPECT_EQ(code_of_open(), ErrorCode::schema_mismatch);
    EXPECT_NE(text.find("of version 6"), std::string::npos) << text;
    try {
        database->apply_schema();
        ADD_FAILURE() << "nothing was thrown";
    } catch (const CheckpointerError& error) {
        EXPECT_EQ(error.code(), ErrorCode::schema_mismatch);
    }
    query("DELETE FROM cubepi_schema_version WHERE version = 6");
    query("UPDATE cubepi_native_schema SET version = 9");
    EXPECT_EQ(code_of_open(), ErrorCode::schema_mismatch);
    EXPECT_NE(text.find("cubepi_native_* are of version 9"), std::string::npos) << text;
    SqlSchemaStatus newer;
    newer.version = 6;
    EXPECT_THROW(database->schema_sql(newer), CheckpointerError);
}

TEST_F(ServerSchema, D208_NewerReadableVersion_IsShared) {
    database->apply_schema();
    query("INSERT INTO cubepi_native_schema VALUES (7)");
    run(store()->append("t", one(user("shared", "r1", "id")), AppendOptions()));
    EXPECT_EQ(run(store()->load("t"))->messages.size(), 1U);
    EXPECT_EQ(database->apply_schema().native_version, 7);
    EXPECT_EQ(database->schema_sql(database->schema_status()), "");
    EXPECT_EQ(query("SELECT version FROM cubepi_native_schema ORDER BY version"),
              (std::vector<std::string>{"1", "7"}));
    query("UPDATE cubepi_native_schema SET version = 2 WHERE version = 1");
    EXPECT_EQ(code_of_open(), ErrorCode::schema_mismatch);
    EXPECT_NE(text.find("of version 7, which needs a program that knows version 2"),
              std::string::npos)
        << text;
}

TEST_F(ServerSchema, DatabaseWithoutTables_ErrorNamesTheRemedy) {
    EXPECT_EQ(code_of_open(), ErrorCode::schema_mismatch);
    EXPECT_NE(text.find(function_name()), std::string::npos) << text;
    EXPECT_FALSE(database->schema_status().version);
    EXPECT_FALSE(database->schema_status().native_version);
}

/// A database of CubePi with its content as JSON.
class ServerFixture : public ServerSchema {
protected:
    void SetUp() override {
        database->run_file(database->name() + ".sql");
        const SqlSchemaStatus before = database->apply_schema();
        EXPECT_EQ(before.version, 5);
        EXPECT_FALSE(before.native_version);
        const std::string content = read_file(databases / (database->name() + ".json"));
        wanted = parse_lenient(content).at("threads").as_object();
        EXPECT_GE(wanted.size(), 15U);
    }

    std::vector<std::string> rows_of_cubepi() {
        return query("SELECT thread_id, seq, role, metadata, " + database->hex_of("payload") +
                     ", run_id, created_at FROM cubepi_messages"
                     " WHERE run_id IS NULL OR run_id <> 'run-of-ours' ORDER BY thread_id, seq");
    }

    JsonObject wanted;
};

TEST_F(ServerFixture, D71_ThreadsOfCubepi_LoadWithEqualContent) {
    const auto opened = store();
    for (const auto& [key, value] : wanted) {
        const std::string thread_id = key;
        expect_thread(*opened, thread_id, value.as_object());
        expect_approvers(*opened, thread_id, value.as_object());
        expect_runs(*opened, thread_id, value.as_object());
    }
}

TEST_F(ServerFixture, D71_FastReader_AgreesWithPlainReader) {
    const std::vector<std::string> values =
        query("SELECT " + database->hex_of("payload") +
              ", metadata FROM cubepi_messages ORDER BY thread_id, seq");
    EXPECT_GT(values.size(), 100U);
    detail::expect_same_rows(values);
}

TEST_F(ServerFixture, D65_RequestsOfCubepi_AreListed) {
    const auto opened = store();
    expect_inbox(*opened);
}

TEST_F(ServerFixture, D21_Append_ChangesNoRowOfCubepi) {
    const std::vector<std::string> before = rows_of_cubepi();
    const char* const extras = "SELECT thread_id, extra FROM cubepi_threads ORDER BY thread_id";
    const std::vector<std::string> extras_before = query(extras);
    const auto opened = store();
    for (const auto& [key, value] : wanted) write_on(*opened, key);
    EXPECT_EQ(rows_of_cubepi(), before);
    EXPECT_EQ(query(extras), extras_before);
}

TEST_F(ServerFixture, D71_OurRows_HaveTheFormOfCubepis) {
    const auto opened = store();
    // Messages of CubePi, appended again: the columns and the payload are the same.
    const CheckpointData data = *run(opened->load("conversation"));
    run(opened->append("copy", data.messages, AppendOptions()));
    const std::string columns = "SELECT seq, role, metadata, " + database->hex_of("payload") +
                                ", run_id FROM cubepi_messages WHERE thread_id = ";
    EXPECT_EQ(query(columns + "'copy' ORDER BY seq"),
              query(columns + "'conversation' ORDER BY seq"));
}

TEST_F(ServerFixture, D18_Answer_ReachesSuspendedRunOfCubepi) {
    const auto opened = store();
    const PendingRequest pending = run(opened->load_pending_requests("approve")).at(0);
    AnswerRecord record;
    record.run_id = pending.run_id;
    record.question_id = pending.request.question_id;
    record.answer = JsonObject{{"decision", "approve"}};
    record.answered_at = pending.request.created_at + 1;
    record.user = "ann";
    run(opened->answer_request("approve", record));
    EXPECT_TRUE(run(opened->load_pending_requests("approve")).empty());
    EXPECT_EQ(query("SELECT pending_request, run_id FROM cubepi_threads"
                    " WHERE thread_id = 'approve'"),
              (std::vector<std::string>{"NULL", "NULL"}));
    EXPECT_EQ(query("SELECT run_id, answer FROM cubepi_hitl_answers WHERE thread_id = 'approve'"),
              (std::vector<std::string>{pending.run_id, R"({"decision": "approve"})"}));
}

}  // namespace

}  // namespace cubepi
