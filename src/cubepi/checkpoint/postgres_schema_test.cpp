#include <cubepi/checkpoint/postgres_schema.hpp>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/postgres_checkpointer.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>

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
    std::ifstream file(CUBEPI_TEST_DATABASES "/postgres-schema.sql");
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

}  // namespace
}  // namespace cubepi
