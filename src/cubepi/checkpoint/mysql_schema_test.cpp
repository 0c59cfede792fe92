#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/message_row_reader_test.hpp>
#include <cubepi/checkpoint/mysql_checkpointer.hpp>
#include <cubepi/checkpoint/mysql_schema.hpp>
#include <cubepi/checkpoint/mysql_server_test.hpp>
#include <cubepi/checkpoint/store_fixtures_test.hpp>
#include <cubepi/schema/python_json.hpp>

// Versions of the tables; and the database that Python CubePi wrote: it loads with equal content, and can be written on.

namespace cubepi {

namespace {

class MySQLSchema : public ::testing::Test {
protected:
    MySQLSchema() { use(MySQLServer::shared().create_empty_database()); }

    void use(const std::string& name) {
        database = name;
        options.connection = MySQLServer::shared().connection(name);
    }
    std::vector<std::string> query(const std::string& sql) const {
        return RawMySQL(database).query(sql);
    }
    void load_recorded() const {
        MySQLServer::shared().load(database, (databases / "mysql-schema.sql").string());
    }
    /// The columns, indexes and foreign keys of the tables of CubePi.
    std::string shape() const {
        std::string all;
        for (const char* sql :
             {"SELECT table_name, column_name, column_type, is_nullable, column_default,"
              " collation_name, extra FROM information_schema.columns WHERE table_schema ="
              " DATABASE() AND table_name NOT LIKE 'cubepi_native%' ORDER BY 1, 2",
              "SELECT table_name, index_name, seq_in_index, column_name FROM"
              " information_schema.statistics WHERE table_schema = DATABASE() AND index_name NOT"
              " LIKE 'cubepi_native%' AND table_name NOT LIKE 'cubepi_native%'"
              " ORDER BY 1, 2, 3",
              "SELECT table_name, partition_name, partition_method FROM"
              " information_schema.partitions WHERE table_schema = DATABASE()"
              " AND table_name NOT LIKE 'cubepi_native%' ORDER BY 1, 2"}) {
            for (const std::string& value : query(sql)) all += value + "\n";
        }
        return all;
    }
    ErrorCode code_of_open() {
        MySQLCheckpointer store(options);
        const CheckpointerError error = error_of<CheckpointerError>(store.open());
        text = error.what();
        expect_one_line(error);
        return error.code();
    }
    /// The tables as they were in an older version.
    void make_version(int version) const {
        load_recorded();
        query("INSERT INTO cubepi_threads (thread_id) VALUES ('old')");
        query(
            "INSERT INTO cubepi_messages (thread_id, seq, role, payload) VALUES ('old', 1, 'user',"
            " X'82a4726f6c65a475736572a7636f6e74656e7490')");
        if (version < 5) query("DROP TABLE cubepi_hitl_answers");
        if (version < 4) {
            query("DROP TABLE cubepi_runs");
            query("DROP INDEX ix_cubepi_messages_thread_run ON cubepi_messages");
            query("ALTER TABLE cubepi_messages DROP COLUMN run_id");
        }
        if (version < 3) query("ALTER TABLE cubepi_threads DROP COLUMN run_id");
        if (version < 2) query("ALTER TABLE cubepi_threads DROP COLUMN pending_request");
        query("UPDATE cubepi_schema_version SET version = " + std::to_string(version));
    }

    std::string database;
    MySQLOptions options;
    std::string text;
};

TEST_F(MySQLSchema, D21_makes_the_tables_of_cubepi) {
    run(apply_mysql_schema(options));
    const std::string ours = shape();
    EXPECT_EQ(query("SELECT version FROM cubepi_schema_version").front(), "5");
    EXPECT_EQ(query("SELECT version FROM cubepi_native_schema").front(), "1");
    run(MySQLCheckpointer(options).open());
    use(MySQLServer::shared().create_empty_database());
    load_recorded();
    run(apply_mysql_schema(options));
    EXPECT_EQ(ours, shape());
}

TEST_F(MySQLSchema, the_text_for_operators_does_the_same_and_can_be_repeated) {
    query(mysql_schema_sql());
    query(mysql_schema_sql());
    run(MySQLCheckpointer(options).open());
    EXPECT_TRUE(run(mysql_schema_status(options)).is_current());
    EXPECT_EQ(mysql_schema_sql(run(mysql_schema_status(options))), "");
    EXPECT_TRUE(run(apply_mysql_schema(options)).is_current()) << "nothing is left to do";
}

TEST_F(MySQLSchema, D21_migrates_all_versions_of_cubepi) {
    load_recorded();
    run(apply_mysql_schema(options));
    const std::string current = shape();
    for (int version = 1; version <= 5; ++version) {
        use(MySQLServer::shared().create_empty_database());
        make_version(version);
        EXPECT_EQ(code_of_open(), ErrorCode::schema_mismatch) << version;
        EXPECT_NE(text.find("apply_mysql_schema"), std::string::npos) << text;
        EXPECT_EQ(run(apply_mysql_schema(options)).version, version);
        EXPECT_EQ(shape(), current) << version;
        MySQLCheckpointer store(options);
        EXPECT_EQ(run(store.load("old"))->messages.size(), 1U) << version;
        run(store.append("old", one(user("new", "r1", "id")), AppendOptions()));
    }
}

TEST_F(MySQLSchema, a_newer_version_is_refused_by_name) {
    run(apply_mysql_schema(options));
    query("INSERT INTO cubepi_schema_version VALUES (6)");
    EXPECT_EQ(code_of_open(), ErrorCode::schema_mismatch);
    EXPECT_NE(text.find("of version 6"), std::string::npos) << text;
    EXPECT_EQ(error_of(apply_mysql_schema(options)).code(), ErrorCode::schema_mismatch);
    query("DELETE FROM cubepi_schema_version WHERE version = 6");
    query("UPDATE cubepi_native_schema SET version = 9");
    EXPECT_EQ(code_of_open(), ErrorCode::schema_mismatch);
    EXPECT_NE(text.find("cubepi_native_* are of version 9"), std::string::npos) << text;
    MySQLSchemaStatus newer;
    newer.version = 6;
    EXPECT_THROW(mysql_schema_sql(newer), CheckpointerError);
}

TEST_F(MySQLSchema, a_database_without_tables_says_how_to_make_them) {
    EXPECT_EQ(code_of_open(), ErrorCode::schema_mismatch);
    EXPECT_NE(text.find("apply_mysql_schema"), std::string::npos) << text;
    EXPECT_FALSE(run(mysql_schema_status(options)).version);
    EXPECT_FALSE(run(mysql_schema_status(options)).native_version);
}

const char* const rows_of_cubepi =
    "SELECT thread_id, seq, role, metadata, hex(payload), run_id, created_at"
    " FROM cubepi_messages WHERE NOT run_id <=> 'run-of-ours' ORDER BY thread_id, seq";

class MySQLFixture : public ::testing::Test {
protected:
    void SetUp() override {
        MySQLServer& server = MySQLServer::shared();
        database = server.create_empty_database();
        server.load(database, (databases / "mysql.sql").string());
        options.connection = server.connection(database);
        const MySQLSchemaStatus before = run(apply_mysql_schema(options));
        EXPECT_EQ(before.version, 5);
        EXPECT_FALSE(before.native_version);
        wanted = parse_lenient(read_file(databases / "mysql.json")).at("threads").as_object();
    }

    std::vector<std::string> query(const std::string& sql) const {
        return RawMySQL(database).query(sql);
    }

    std::string database;
    MySQLOptions options;
    JsonObject wanted;
};

TEST_F(MySQLFixture, D71_loads_with_equal_content) {
    MySQLCheckpointer store(options);
    EXPECT_GE(wanted.size(), 15U);
    for (const auto& [key, value] : wanted) {
        const std::string thread_id = key;
        expect_thread(store, thread_id, value.as_object());
        expect_approvers(store, thread_id, value.as_object());
        expect_runs(store, thread_id, value.as_object());
    }
}

TEST_F(MySQLFixture, D71_the_fast_reader_of_rows_agrees_with_the_plain_one) {
    const std::vector<std::string> values =
        query("SELECT hex(payload), metadata FROM cubepi_messages ORDER BY thread_id, seq");
    EXPECT_GT(values.size(), 100U);
    detail::expect_same_rows(values);
}

TEST_F(MySQLFixture, D65_the_inbox_lists_the_requests_that_cubepi_stored) {
    MySQLCheckpointer store(options);
    expect_inbox(store);
}

TEST_F(MySQLFixture, D21_can_be_written_on_and_no_row_of_cubepi_changes) {
    const std::vector<std::string> before = query(rows_of_cubepi);
    const char* const extras = "SELECT thread_id, extra FROM cubepi_threads ORDER BY thread_id";
    const std::vector<std::string> extras_before = query(extras);
    MySQLCheckpointer store(options);
    for (const auto& [key, value] : wanted) write_on(store, key);
    EXPECT_EQ(query(rows_of_cubepi), before);
    EXPECT_EQ(query(extras), extras_before);
}

TEST_F(MySQLFixture, D71_our_rows_have_the_form_of_cubepis) {
    MySQLCheckpointer store(options);
    const CheckpointData data = *run(store.load("conversation"));
    run(store.append("copy", data.messages, AppendOptions()));
    const std::string columns =
        "SELECT seq, role, metadata, hex(payload), run_id FROM cubepi_messages WHERE thread_id = ";
    EXPECT_EQ(query(columns + "'copy' ORDER BY seq"),
              query(columns + "'conversation' ORDER BY seq"));
}

}  // namespace

}  // namespace cubepi
