#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/message_row_reader_test.hpp>
#include <cubepi/checkpoint/postgres_checkpointer.hpp>
#include <cubepi/checkpoint/postgres_schema.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/checkpoint/store_fixtures_test.hpp>
#include <cubepi/schema/python_json.hpp>

#include "source_tree.hpp"

// Versions of the tables; and the database that Python CubePi wrote: it loads with equal content, and can be written on.

namespace cubepi {

namespace {

class PostgresSchema : public ::testing::Test {
protected:
    PostgresSchema() { options.connection = connection(); }
    static std::string connection() {
        PostgresServer& server = PostgresServer::shared();
        return server.connection(server.create_empty_database());
    }
    std::vector<std::string> query(const std::string& sql) const {
        return RawPostgres(options.connection).query(sql);
    }
    /// The columns, indexes and constraints of the tables of CubePi.
    static std::string shape(const std::string& connection) {
        RawPostgres raw(connection);
        std::string all;
        for (const char* sql :
             {"SELECT table_name, column_name, data_type, is_nullable, column_default"
              " FROM information_schema.columns WHERE table_schema = 'public'"
              " AND table_name NOT LIKE 'cubepi_native%' ORDER BY 1, 2",
              "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'"
              " AND indexname NOT LIKE 'cubepi_native%' ORDER BY 1",
              "SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint"
              " WHERE connamespace = 'public'::regnamespace AND contype <> 't'"
              " AND conrelid::regclass::text NOT LIKE 'cubepi_native%'"
              " AND conrelid::regclass::text NOT LIKE '%\\_p__' ORDER BY 1, 2"}) {
            for (const std::string& value : raw.query(sql)) all += value + "\n";
        }
        return all;
    }
    ErrorCode code_of_open() {
        PostgresCheckpointer store(options);
        const CheckpointerError error = error_of<CheckpointerError>(store.open());
        text = error.what();
        expect_one_line(error);
        return error.code();
    }

    PostgresOptions options;
    std::string text;
};

std::string recorded_schema() {
    std::ifstream file(
        cubepi::testing::source_path("tests/conformance/databases/postgres-schema.sql"));
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST_F(PostgresSchema, D21_makes_the_tables_of_cubepi) {
    run(apply_postgres_schema(options));
    const std::string theirs = connection();
    RawPostgres(theirs).query(recorded_schema());
    EXPECT_EQ(shape(options.connection), shape(theirs));
    EXPECT_EQ(query("SELECT version FROM cubepi_schema_version").front(), "5");
    EXPECT_EQ(query("SELECT version FROM cubepi_native_schema").front(), "1");
    run(PostgresCheckpointer(options).open());
}

TEST_F(PostgresSchema, the_text_for_operators_does_the_same) {
    query(postgres_schema_sql());
    run(PostgresCheckpointer(options).open());
    EXPECT_TRUE(run(postgres_schema_status(options)).is_current());
    EXPECT_EQ(postgres_schema_sql(run(postgres_schema_status(options))), "");
    const PostgresSchemaStatus before = run(apply_postgres_schema(options));
    EXPECT_TRUE(before.is_current()) << "nothing is left to do";
}

TEST_F(PostgresSchema, D21_adds_its_own_tables_to_those_of_cubepi) {
    query(recorded_schema());
    EXPECT_EQ(code_of_open(), ErrorCode::schema_mismatch);
    EXPECT_NE(text.find("apply_postgres_schema"), std::string::npos) << text;
    run(apply_postgres_schema(options));
    run(PostgresCheckpointer(options).open());
}

/// The tables as they were in an older version.
void make_version(const std::string& connection, int version) {
    RawPostgres raw(connection);
    raw.query(recorded_schema());
    raw.query("INSERT INTO cubepi_threads (thread_id) VALUES ('old')");
    raw.query(
        "INSERT INTO cubepi_messages (thread_id, seq, role, payload) VALUES ('old', 1, 'user',"
        " '\\x82a4726f6c65a475736572a7636f6e74656e7490')");
    if (version < 5) raw.query("DROP TABLE cubepi_hitl_answers");
    if (version < 4) {
        raw.query("DROP TABLE cubepi_runs");
        if (version < 3)
            raw.query(
                "ALTER TABLE cubepi_threads DROP COLUMN parent_thread_id, DROP COLUMN "
                "forked_at_seq");
        raw.query("ALTER TABLE cubepi_messages DROP COLUMN run_id");
    }
    if (version < 3) raw.query("ALTER TABLE cubepi_threads DROP COLUMN run_id");
    if (version < 2) raw.query("ALTER TABLE cubepi_threads DROP COLUMN pending_request");
    raw.query("UPDATE cubepi_schema_version SET version = " + std::to_string(version));
}

TEST_F(PostgresSchema, D21_migrates_all_versions_of_cubepi) {
    const std::string current = connection();
    RawPostgres(current).query(recorded_schema());
    for (int version = 1; version <= 5; ++version) {
        options.connection = connection();
        make_version(options.connection, version);
        EXPECT_EQ(code_of_open(), ErrorCode::schema_mismatch) << version;
        const PostgresSchemaStatus before = run(apply_postgres_schema(options));
        EXPECT_EQ(before.version, version);
        EXPECT_EQ(shape(options.connection), shape(current)) << version;
        PostgresCheckpointer store(options);
        EXPECT_EQ(run(store.load("old"))->messages.size(), 1U) << version;
        run(store.append("old", one(user("new", "r1", "id")), AppendOptions()));
    }
}

TEST_F(PostgresSchema, a_newer_version_is_refused_by_name) {
    run(apply_postgres_schema(options));
    query("INSERT INTO cubepi_schema_version VALUES (6)");
    EXPECT_EQ(code_of_open(), ErrorCode::schema_mismatch);
    EXPECT_NE(text.find("of version 6"), std::string::npos) << text;
    EXPECT_EQ(error_of(apply_postgres_schema(options)).code(), ErrorCode::schema_mismatch);
    query("DELETE FROM cubepi_schema_version WHERE version = 6");
    query("UPDATE cubepi_native_schema SET version = 9");
    EXPECT_EQ(code_of_open(), ErrorCode::schema_mismatch);
    EXPECT_NE(text.find("cubepi_native_* are of version 9"), std::string::npos) << text;
    PostgresSchemaStatus newer;
    newer.version = 6;
    EXPECT_THROW(postgres_schema_sql(newer), CheckpointerError);
}

TEST_F(PostgresSchema, a_database_without_tables_says_how_to_make_them) {
    EXPECT_EQ(code_of_open(), ErrorCode::schema_mismatch);
    EXPECT_NE(text.find("apply_postgres_schema"), std::string::npos) << text;
    const PostgresSchemaStatus status = run(postgres_schema_status(options));
    EXPECT_FALSE(status.version);
    EXPECT_FALSE(status.native_version);
}

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
    expect_inbox(store);
}

TEST_F(PostgresFixture, D21_can_be_written_on_and_no_row_of_cubepi_changes) {
    run(apply_postgres_schema(options));
    const std::vector<std::string> before = query(rows_of_cubepi);
    const char* const extras = "SELECT thread_id, extra FROM cubepi_threads ORDER BY thread_id";
    const std::vector<std::string> extras_before = query(extras);
    PostgresCheckpointer store(options);
    for (const auto& [key, value] : wanted) write_on(store, key);
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
