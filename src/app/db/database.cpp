#include "database.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include <bub/tape/postgres_tape_schema.hpp>
#include <cubepi/checkpoint/mysql_schema.hpp>
#include <cubepi/checkpoint/postgres_schema.hpp>
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>
#include <cubepi/checkpoint/sqlite_schema.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>

namespace cubepi::app {

namespace {

struct Postgres {
    using Options = PostgresOptions;
    static constexpr int version = postgres_schema_version;
    static constexpr int native_version = postgres_native_version;
    static constexpr auto status = postgres_schema_status;
    static constexpr auto apply = apply_postgres_schema;
    static constexpr auto sql = postgres_schema_sql;
    static constexpr auto description = postgres_description;
};

struct MySQL {
    using Options = MySQLOptions;
    static constexpr int version = mysql_schema_version;
    static constexpr int native_version = mysql_native_version;
    static constexpr auto status = mysql_schema_status;
    static constexpr auto apply = apply_mysql_schema;
    static constexpr auto sql = mysql_schema_sql;
    static constexpr auto description = mysql_description;
};

/// The tables of threads in a database on a server.
template <class Server>
class ServerDatabase final : public Database {
public:
    explicit ServerDatabase(typename Server::Options options)
        : options_(std::move(options)), description_(Server::description(options_)) {}

    const std::string& description() const noexcept override { return description_; }
    DatabaseStatus status() override {
        const auto found = run(Server::status(options_));
        DatabaseStatus status;
        status.tables = {{"cubepi_*", found.version, Server::version},
                         {"cubepi_native_*", found.native_version, Server::native_version}};
        return status;
    }
    void migrate() override { (void)run(Server::apply(options_)); }
    std::string sql() override { return Server::sql(run(Server::status(options_))); }

private:
    const typename Server::Options options_;
    const std::string description_;
};

/// The tables of tapes in a PostgreSQL database.
class TapeDatabase final : public Database {
public:
    explicit TapeDatabase(PostgresOptions options)
        : options_(std::move(options)), description_(postgres_description(options_)) {}

    const std::string& description() const noexcept override { return description_; }
    DatabaseStatus status() override {
        DatabaseStatus status;
        status.tables = {
            {"bub_*", run(bub::postgres_tape_status(options_)), bub::postgres_tape_version}};
        return status;
    }
    void migrate() override { (void)run(bub::apply_postgres_tape_schema(options_)); }
    std::string sql() override {
        return status().is_current() ? std::string() : bub::postgres_tape_sql();
    }

private:
    const PostgresOptions options_;
    const std::string description_;
};

class SQLiteFile final : public Database {
public:
    explicit SQLiteFile(std::string path)
        : path_(std::move(path)), description_("SQLite database '" + path_ + "'") {}

    const std::string& description() const noexcept override { return description_; }
    DatabaseStatus status() override {
        const SQLiteSchemaStatus found = sqlite_schema_status(path_);
        DatabaseStatus status;
        status.tables = {{"cubepi_native_*", found.native_version, sqlite_native_version}};
        // Tables of CubePi alone are to be migrated, not to be created.
        if (found.has_shared_tables && !found.native_version) status.tables.front().found = 0;
        return status;
    }
    void migrate() override {
        SQLiteCheckpointer store(path_);
        run(store.open());
    }
    std::string sql() override {
        const DatabaseStatus found = status();
        if (found.is_current()) return {};
        if (found.is_empty()) return sqlite_schema_sql();
        throw Error(ErrorCode::invalid_argument,
                    description_ +
                        " has older tables, which are not migrated by SQL alone; use "
                        "'cubepi db migrate'");
    }

private:
    const std::string path_;
    const std::string description_;
};

}  // namespace

bool DatabaseStatus::is_empty() const {
    return std::none_of(tables.begin(), tables.end(),
                        [](const TableVersion& one) { return one.found.has_value(); });
}

bool DatabaseStatus::is_current() const {
    return std::all_of(tables.begin(), tables.end(),
                       [](const TableVersion& one) { return one.found == one.needed; });
}

std::unique_ptr<Database> open_database(const std::string& target, bool tapes) {
    if (target.empty())
        throw Error(ErrorCode::invalid_argument,
                    "no database; give a URL (postgres://...) or an SQLite file, or set 'database' "
                    "in the configuration file");
    constexpr std::string_view sqlite = "sqlite:///";
    if (target.starts_with("postgres://") || target.starts_with("postgresql://")) {
        PostgresOptions options;
        options.connection = target;
        if (tapes) return std::make_unique<TapeDatabase>(std::move(options));
        return std::make_unique<ServerDatabase<Postgres>>(std::move(options));
    }
    if (tapes)
        throw Error(ErrorCode::invalid_argument,
                    "--tapes needs a PostgreSQL database (postgres://...)");
    if (target.starts_with("mysql://")) {
        MySQLOptions options;
        options.connection = target;
        return std::make_unique<ServerDatabase<MySQL>>(std::move(options));
    }
    if (target.starts_with(sqlite))
        return std::make_unique<SQLiteFile>(target.substr(sqlite.size()));
    const std::size_t scheme = target.find("://");
    if (scheme != std::string::npos)
        // Not the rest of it, which may have a password.
        throw Error(ErrorCode::invalid_argument,
                    "databases of '" + target.substr(0, scheme) +
                        "' are not supported; use postgres://..., mysql://... or "
                        "an SQLite file");
    return std::make_unique<SQLiteFile>(target);
}

namespace {

template <class Server, class Status>
std::string sql_from(int version) {
    Status status;
    if (version > 0) status.version = version;
    return Server::sql(status);
}

}  // namespace

std::optional<std::string> sql_of_kind(const std::string& kind, bool tapes, int from) {
    if (kind == "sqlite" && !tapes) return sqlite_schema_sql();
    if (kind == "postgres" && tapes) return bub::postgres_tape_sql();
    if (kind == "postgres") return sql_from<Postgres, PostgresSchemaStatus>(from);
    if (kind == "mysql" && !tapes) return sql_from<MySQL, MySQLSchemaStatus>(from);
    return std::nullopt;
}

}  // namespace cubepi::app
