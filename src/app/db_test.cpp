#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cubepi/checkpoint/mysql_server_test.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/scoped_test_directory.hpp>

#include "failure.hpp"
#include "program.hpp"

namespace cubepi::app {
namespace {

using What = DatabaseArguments::What;

class DbCommand : public ::testing::Test {
protected:
    /// Returns the exit status. The outputs are in `out` and `err`.
    int use(What what, const std::string& target, bool json = false, int from = 0) {
        DatabaseArguments arguments;
        arguments.what = what;
        arguments.target = target;
        arguments.json = json;
        arguments.from = from;
        arguments.tapes = tapes;
        std::ostringstream output;
        std::ostringstream errors;
        const int status = use_database(arguments, output, errors);
        out = output.str();
        err = errors.str();
        return status;
    }
    std::string error_of(What what, const std::string& target) {
        try {
            use(what, target);
        } catch (const Error& error) {
            return error.what();
        }
        return "(none)";
    }
    std::string file(const char* name) const { return (directory_.path() / name).string(); }
    /// A URL of a new database without tables.
    static std::string empty_database() {
        PostgresServer& server = PostgresServer::shared();
        std::string host;
        for (const char c : server.socket_directory()) {
            if (c == '/') {
                host += "%2F";
            } else {
                host += c;
            }
        }
        const std::string connection = server.connection(server.create_empty_database());
        const std::size_t name = connection.find("dbname=") + 7;
        const std::size_t user = connection.find("user=");
        const auto word = [&connection](std::size_t at) {
            return connection.substr(at, connection.find(' ', at) - at);
        };
        const std::string who = user == std::string::npos ? "postgres" : word(user + 5);
        return "postgres://" + who + ":hidden-word@" + host + "/" + word(name);
    }

    ScopedTestDirectory directory_;
    bool tapes = false;
    std::string out;
    std::string err;
};

void execute(const std::string& path, const std::string& sql) {
    sqlite3* handle = nullptr;
    ASSERT_EQ(sqlite3_open(path.c_str(), &handle), SQLITE_OK);
    char* text = nullptr;
    EXPECT_EQ(sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, &text), SQLITE_OK) << text;
    sqlite3_free(text);
    sqlite3_close(handle);
}

/// The tables, columns, indexes and triggers of a file.
std::string shape(const std::string& path) {
    sqlite3* handle = nullptr;
    EXPECT_EQ(sqlite3_open(path.c_str(), &handle), SQLITE_OK);
    std::string all;
    const auto add = [](void* to, int, char** values, char**) {
        *static_cast<std::string*>(to) += std::string(values[0] ? values[0] : "NULL") + "\n";
        return 0;
    };
    sqlite3_exec(handle, "SELECT sql FROM sqlite_master ORDER BY name", add, &all, nullptr);
    sqlite3_close(handle);
    return all;
}

TEST_F(DbCommand, SQLiteFile_GetsTablesThatAreShown) {
    const std::string path = file("threads.db");
    EXPECT_EQ(use(What::status, path), exit_failed);
    EXPECT_NE(err.find("cubepi db init"), std::string::npos) << err;
    EXPECT_FALSE(std::ifstream(path)) << "status must not create the file";
    EXPECT_NE(error_of(What::migrate, path).find("cubepi db init"), std::string::npos);
    EXPECT_EQ(use(What::init, "sqlite:///" + path), exit_ok);
    EXPECT_EQ(use(What::status, path), exit_ok);
    EXPECT_NE(out.find("version 3"), std::string::npos) << out;
    EXPECT_EQ(use(What::init, path), exit_ok);
    EXPECT_EQ(use(What::migrate, path), exit_ok);
}

TEST_F(DbCommand, Sql_MakesTheTablesOfTheStore) {
    const std::string by_store = file("store.db");
    run(SQLiteCheckpointer(by_store).open());
    const std::string by_sql = file("sql.db");
    EXPECT_EQ(use(What::sql, by_sql), exit_ok);
    execute(by_sql, out);
    EXPECT_EQ(shape(by_sql), shape(by_store));
    EXPECT_EQ(use(What::status, by_sql), exit_ok);
    EXPECT_EQ(use(What::sql, by_sql), exit_ok);
    EXPECT_EQ(out, "");
}

TEST_F(DbCommand, CubePiTablesInSQLite_AreMigrated) {
    const std::string path = file("python.db");
    execute(path,
            "CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, thread_id TEXT NOT NULL,"
            " message_json TEXT NOT NULL, created_at REAL)");
    EXPECT_EQ(use(What::status, path), exit_failed);
    EXPECT_NE(err.find("cubepi db migrate"), std::string::npos) << err;
    EXPECT_NE(error_of(What::init, path).find("cubepi db migrate"), std::string::npos);
    EXPECT_NE(error_of(What::sql, path).find("cubepi db migrate"), std::string::npos);
    EXPECT_EQ(use(What::migrate, path), exit_ok);
    EXPECT_EQ(use(What::status, path), exit_ok);
}

TEST_F(DbCommand, PostgresInit_CreatesTheTables) {
    const std::string url = empty_database();
    EXPECT_EQ(use(What::status, url), exit_failed);
    EXPECT_NE(out.find("cubepi_*\tnone (needed: 5)"), std::string::npos) << out;
    EXPECT_NE(error_of(What::migrate, url).find("cubepi db init"), std::string::npos);
    EXPECT_EQ(use(What::init, url), exit_ok);
    EXPECT_EQ(err.find("hidden-word"), std::string::npos) << err;
    EXPECT_EQ(use(What::status, url, true), exit_ok);
    EXPECT_NE(out.find("\"current\":true"), std::string::npos) << out;
    EXPECT_EQ(out.find("hidden-word"), std::string::npos) << out;
}

TEST_F(DbCommand, PostgresSql_MakesTheTables) {
    const std::string url = empty_database();
    EXPECT_EQ(use(What::sql, url), exit_ok);
    const std::string connected = out;
    EXPECT_EQ(use(What::sql, "postgres"), exit_ok);
    EXPECT_EQ(out, connected);
    RawPostgres(url).query(out);
    EXPECT_EQ(use(What::status, url), exit_ok);
    RawPostgres(url).query("DROP TABLE cubepi_hitl_answers");
    RawPostgres(url).query("UPDATE cubepi_schema_version SET version = 4");
    EXPECT_EQ(use(What::status, url), exit_failed);
    EXPECT_NE(error_of(What::init, url).find("cubepi db migrate"), std::string::npos);
    EXPECT_EQ(use(What::sql, url), exit_ok);
    RawPostgres(url).query(out);
    EXPECT_EQ(use(What::status, url), exit_ok);
}

TEST_F(DbCommand, MySqlInit_CreatesTheTables) {
    MySQLServer& server = MySQLServer::shared();
    const std::string url = server.connection(server.create_empty_database());
    EXPECT_EQ(use(What::status, url), exit_failed);
    EXPECT_EQ(use(What::init, url), exit_ok);
    EXPECT_EQ(use(What::status, url), exit_ok);
    EXPECT_NE(out.find("cubepi_*\tversion 5"), std::string::npos) << out;
    EXPECT_EQ(use(What::sql, url), exit_ok);
    EXPECT_EQ(out, "");
    EXPECT_EQ(use(What::sql, "mysql"), exit_ok);
    EXPECT_NE(out.find("CREATE TABLE"), std::string::npos);
    EXPECT_EQ(error_of(What::status, "mysql://u:hidden-word@/?socket=/nowhere").find("hidden-word"),
              std::string::npos);
}

TEST_F(DbCommand, TapeInit_CreatesTheTables) {
    tapes = true;
    const std::string url = empty_database();
    EXPECT_EQ(use(What::status, url), exit_failed);
    EXPECT_EQ(use(What::init, url), exit_ok);
    EXPECT_EQ(use(What::status, url), exit_ok);
    EXPECT_NE(out.find("bub_*\tversion 3, for programs from version 2"), std::string::npos) << out;
    EXPECT_NE(out.find("bub_delivery_*\tversion 3, for programs from version 1"), std::string::npos)
        << out;
    EXPECT_EQ(use(What::sql, "postgres"), exit_ok);
    const std::string other = empty_database();
    RawPostgres(other).query(out);
    EXPECT_EQ(use(What::status, other), exit_ok);
    EXPECT_NE(error_of(What::status, file("x.db")).find("--tapes needs"), std::string::npos);
    tapes = false;
    EXPECT_EQ(use(What::status, url), exit_ok) << out << err;
    EXPECT_NE(out.find("bub_delivery_*\tversion 3"), std::string::npos) << out;
    EXPECT_EQ(out.find("cubepi_*"), std::string::npos) << out;
    EXPECT_EQ(use(What::init, url), exit_ok);
    EXPECT_EQ(use(What::status, url), exit_ok);
    EXPECT_NE(out.find("cubepi_*\tversion 5"), std::string::npos) << out;
    EXPECT_NE(out.find("bub_delivery_*\tversion 3"), std::string::npos) << out;
    RawPostgres(url).query("DROP TABLE bub_usage_schema");
    EXPECT_EQ(use(What::status, url), exit_failed);
    EXPECT_NE(err.find("'cubepi db migrate --tapes'"), std::string::npos) << err;
}

TEST_F(DbCommand, NewerVersion_IsRefusedByNumber) {
    const std::string url = empty_database();
    use(What::init, url);
    RawPostgres(url).query("INSERT INTO cubepi_schema_version VALUES (7)");
    for (const What what : {What::status, What::init, What::migrate, What::sql}) {
        const std::string text = error_of(what, url);
        EXPECT_NE(text.find("version 7"), std::string::npos) << text;
        EXPECT_EQ(text.find("hidden-word"), std::string::npos) << text;
    }
}

TEST_F(DbCommand, UnknownDatabase_IsRefused) {
    EXPECT_NE(error_of(What::status, "oracle://u:hidden-word@host/x").find("oracle"),
              std::string::npos);
    EXPECT_EQ(error_of(What::status, "oracle://u:hidden-word@host/x").find("hidden-word"),
              std::string::npos);
    EXPECT_NE(error_of(What::status, "").find("no database"), std::string::npos);
    std::ofstream(file("text.db")) << "This is not a database, but a text that is long enough.";
    EXPECT_NE(error_of(What::status, file("text.db")), "(none)");
    EXPECT_EQ(use(What::sql, "postgres", false, 4), exit_ok);
    EXPECT_NE(out.find("cubepi_hitl_answers"), std::string::npos);
    EXPECT_EQ(out.find("CREATE TABLE IF NOT EXISTS cubepi_threads"), std::string::npos);
}

}  // namespace
}  // namespace cubepi::app
