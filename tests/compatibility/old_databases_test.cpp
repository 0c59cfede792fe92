// Databases on servers that an earlier version wrote (write_stores.cpp): each test loads a dump and continues it.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include <bub/tape/postgres_tape_schema.hpp>
#include <bub/tape/postgres_tape_store.hpp>
#include <cubepi/checkpoint/mysql_checkpointer.hpp>
#include <cubepi/checkpoint/mysql_schema.hpp>
#include <cubepi/checkpoint/mysql_server_test.hpp>
#include <cubepi/checkpoint/postgres_checkpointer.hpp>
#include <cubepi/checkpoint/postgres_schema.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/checkpoint/store_check_test.hpp>

#include "old_stores_test.hpp"
#include "source_tree.hpp"

namespace cubepi {
namespace {

std::filesystem::path dump(const std::string& name) {
    return cubepi::testing::source_path("tests/compatibility/stores-0ec8b38a/" + name);
}

std::string text_of(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

PostgresOptions postgres(const std::string& name) {
    PostgresServer& server = PostgresServer::shared();
    PostgresOptions options;
    options.connection = server.connection(server.create_empty_database());
    const std::string sql = "SET client_min_messages = warning;\n" + text_of(dump(name));
    (void)RawPostgres(options.connection).query(sql);
    return options;
}

MySQLOptions mysql() {
    MySQLServer& server = MySQLServer::shared();
    const std::string database = server.create_empty_database();
    server.load(database, dump("mysql-threads.sql").string());
    MySQLOptions options;
    options.connection = server.connection(database);
    return options;
}

/// Tapes of version 2, to which version 3 adds a table.
PostgresOptions migrated_tapes() {
    PostgresOptions options = postgres("postgres-tapes.sql");
    EXPECT_EQ(run(bub::postgres_tape_tables().apply(options)), (FormatVersion{2, 2}));
    return options;
}

std::shared_ptr<bub::PostgresTapeStore> postgres_tapes() {
    return std::make_shared<bub::PostgresTapeStore>(migrated_tapes());
}

TEST(OldDatabases, PostgresThreads_AreListedAndContinued) {
    const PostgresOptions options = postgres("postgres-threads.sql");
    EXPECT_TRUE(run(postgres_schema_status(options)).is_current());
    PostgresCheckpointer store(options);
    continue_conversation(store);
}

TEST(OldDatabases, PostgresQuestion_IsAnswered) {
    PostgresCheckpointer store(postgres("postgres-threads.sql"));
    answer_question(store);
}

/// The columns of CubePi in its tables.
TEST(OldDatabases, D21_CubePisRows_StayAsTheyWere) {
    const PostgresOptions options = postgres("postgres-threads.sql");
    RawPostgres raw(options.connection);
    const char* const rows =
        "SELECT thread_id, seq, role, metadata, encode(payload, 'hex'), run_id, created_at"
        " FROM cubepi_messages WHERE run_id <> 'run-3' ORDER BY thread_id, seq";
    const Texts before = raw.query(rows);
    EXPECT_EQ(before.size(), 4U * 7U);
    PostgresCheckpointer store(options);
    continue_conversation(store);
    EXPECT_EQ(raw.query(rows), before);
    EXPECT_EQ(raw.query("SELECT version FROM cubepi_schema_version"), (Texts{"5"}));
    EXPECT_EQ(raw.query("SELECT pending_request->>'question_id', run_id FROM cubepi_threads"
                        " WHERE thread_id = 'asks'"),
              (Texts{"call-1", "run-2"}));
}

TEST(OldDatabases, D209_Check_FindsThemSound) {
    const StoreReport rows = run(check_postgres(postgres("postgres-threads.sql")));
    EXPECT_EQ(damage_in(rows) + repairs_in(rows), "");
    const StoreReport tapes = run(bub::check_postgres_tapes(migrated_tapes()));
    EXPECT_EQ(damage_in(tapes), "");
    EXPECT_EQ(repairs_in(tapes),
              "tape 'open': the process of a turn has ended without closing it\n");
    const StoreReport mysql_rows = run(check_mysql(mysql()));
    EXPECT_EQ(damage_in(mysql_rows) + repairs_in(mysql_rows), "");
}

TEST(OldDatabases, MySqlThreads_AreListedAndContinued) {
    const MySQLOptions options = mysql();
    EXPECT_TRUE(run(mysql_schema_status(options)).is_current());
    MySQLCheckpointer store(options);
    continue_conversation(store);
}

TEST(OldDatabases, MySqlQuestion_IsAnswered) {
    MySQLCheckpointer store(mysql());
    answer_question(store);
}

TEST(OldDatabases, PostgresTapeThreads_AreListedAndContinued) {
    bub::TapeCheckpointer store(postgres_tapes());
    continue_conversation(store);
}

TEST(OldDatabases, PostgresTapeQuestion_IsAnswered) {
    bub::TapeCheckpointer store(postgres_tapes());
    answer_question(store);
}

TEST(OldDatabases, B9_OpenTurnOnServer_IsClosedAsInterrupted) {
    const auto tapes = postgres_tapes();
    const bub::Tape tape(tapes, "open");
    EXPECT_EQ(shape(tape), "first|second|unclosed|half an ans|interrupted|");
    EXPECT_FALSE(run(tapes->has_open_turn("open")));
    run(tape.append(bub::message_entry("user", "next")));
    EXPECT_EQ(shape(tape), "first|second|unclosed|half an ans|interrupted|next|");
}

}  // namespace
}  // namespace cubepi
