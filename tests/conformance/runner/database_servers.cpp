#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/run.hpp>

#include "database_copy.hpp"
#include "scenario.hpp"

#ifdef CONFORMANCE_SERVERS
#include <cubepi/checkpoint/mysql_checkpointer.hpp>
#include <cubepi/checkpoint/mysql_schema.hpp>
#include <cubepi/checkpoint/mysql_server_test.hpp>
#include <cubepi/checkpoint/postgres_checkpointer.hpp>
#include <cubepi/checkpoint/postgres_schema.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#endif

namespace conformance {

#ifdef CONFORMANCE_SERVERS

namespace {

/// The rows of a table as one text each, by an expression that has the text of a column.
template <class TextOf>
std::string select_rows(const std::string& table, const std::vector<std::string>& columns,
                        TextOf text_of) {
    std::string list;
    for (const std::string& column : columns) list += ", '" + column + "=', " + text_of(column);
    return "SELECT CONCAT(' '" + list + ") FROM " + table;
}

class PostgresCopy final : public DatabaseCopy {
public:
    explicit PostgresCopy(const std::filesystem::path& dump)
        : connection_(server().connection(server().create_empty_database())) {
        std::ifstream file(dump);
        const std::string text{std::istreambuf_iterator<char>(file),
                               std::istreambuf_iterator<char>()};
        cubepi::RawPostgres(connection_).query(text);
    }
    std::shared_ptr<cubepi::Checkpointer> open() override {
        cubepi::PostgresOptions options;
        options.connection = connection_;
        cubepi::run(cubepi::apply_postgres_schema(options));
        return std::make_shared<cubepi::PostgresCheckpointer>(std::move(options));
    }

private:
    static cubepi::PostgresServer& server() { return cubepi::PostgresServer::shared(); }
    std::vector<std::string> query(const std::string& sql) {
        return cubepi::RawPostgres(connection_).query(sql);
    }
    std::vector<std::string> table_names() override {
        return query(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind "
            "IN ('r', 'p') AND NOT relispartition ORDER BY 1");
    }
    std::vector<std::string> columns(const std::string& table) override {
        return query(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = 'public' AND "
            "table_name = '" +
            table + "' ORDER BY ordinal_position");
    }
    std::vector<std::string> rows(const std::string& table,
                                  const std::vector<std::string>& columns) override {
        return query(select_rows('"' + table + '"', columns, [](const std::string& column) {
            return "coalesce(\"" + column + "\"::text, 'NULL')";
        }));
    }

    const std::string connection_;
};

class MySQLCopy final : public DatabaseCopy {
public:
    explicit MySQLCopy(const std::filesystem::path& dump)
        : database_(server().create_empty_database()) {
        server().load(database_, dump.string());
    }
    std::shared_ptr<cubepi::Checkpointer> open() override {
        cubepi::MySQLOptions options;
        options.connection = server().connection(database_);
        cubepi::run(cubepi::apply_mysql_schema(options));
        return std::make_shared<cubepi::MySQLCheckpointer>(std::move(options));
    }

private:
    static cubepi::MySQLServer& server() { return cubepi::MySQLServer::shared(); }
    std::vector<std::string> query(const std::string& sql) {
        return cubepi::RawMySQL(database_).query(sql);
    }
    std::vector<std::string> table_names() override {
        return query(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() "
            "ORDER BY 1");
    }
    std::vector<std::string> columns(const std::string& table) override {
        return query(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() "
            "AND table_name = '" +
            table + "' ORDER BY ordinal_position");
    }
    std::vector<std::string> rows(const std::string& table,
                                  const std::vector<std::string>& columns) override {
        return query(select_rows('`' + table + '`', columns, [](const std::string& column) {
            return "COALESCE(HEX(`" + column + "`), 'NULL')";
        }));
    }

    const std::string database_;
};

}  // namespace

std::unique_ptr<DatabaseCopy> copy_on_server(const std::string& server,
                                             const std::filesystem::path& dump) {
    if (server == "postgres") return std::make_unique<PostgresCopy>(dump);
    if (server == "mysql") return std::make_unique<MySQLCopy>(dump);
    throw Unsupported("a database of " + server);
}

#else

std::unique_ptr<DatabaseCopy> copy_on_server(const std::string& server,
                                             const std::filesystem::path&) {
    throw Unsupported("a database of " + server + " in this build");
}

#endif

}  // namespace conformance
