#include <algorithm>
#include <array>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/channel/postgres_delivery_schema.hpp>
#include <bub/limits/postgres_usage_store.hpp>
#include <bub/schedule/postgres_schedule_store.hpp>
#include <bub/tape/postgres_tape_schema.hpp>
#include <cubepi/checkpoint/mysql_schema.hpp>
#include <cubepi/checkpoint/postgres_schema.hpp>
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>
#include <cubepi/checkpoint/sqlite_schema.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/format_version.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/run.hpp>

#include "config/tape_place.hpp"
#include "db_check.hpp"
#include "db_divide.hpp"
#include "failure.hpp"
#include "program.hpp"
#include "terminal/terminal_stream.hpp"
#include "terminal/terminal_text.hpp"

namespace cubepi::app {

namespace {

/// A part of the tables of a database.
struct TableVersion {
    std::string name = {};
    std::optional<FormatVersion> found = {};  ///< absent: there are none
    int needed = 0;

    bool is_current() const noexcept { return is_usable(found, needed); }
};

/// The tables of a database.
struct DatabaseStatus {
    std::vector<TableVersion> tables = {};

    bool is_empty() const;
    bool is_current() const;
};

/// A database whose tables `cubepi db` reads and changes.
class Database {
public:
    virtual ~Database() = default;
    /// The name of the database for messages, without a password.
    virtual const std::string& description() const noexcept = 0;
    /// Throws CheckpointerError, as the other functions do.
    virtual DatabaseStatus status() = 0;
    /// Creates the tables, or migrates them.
    virtual void migrate() = 0;
    /// Returns the SQL that migrate() executes. Empty if the tables are current.
    virtual std::string sql() = 0;
};

/// The version of tables whose row only their own version may use.
std::optional<FormatVersion> only(std::optional<int> version) {
    std::optional<FormatVersion> found;
    if (version) found = FormatVersion{*version, *version};
    return found;
}

struct Postgres {
    using Options = PostgresOptions;
    static constexpr auto status = postgres_schema_status;
    static constexpr auto apply = apply_postgres_schema;
    static constexpr auto sql = postgres_schema_sql;
    static constexpr auto description = postgres_description;
};

struct MySQL {
    using Options = MySQLOptions;
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
        const SqlSchemaStatus found = run(Server::status(options_));
        DatabaseStatus status;
        status.tables = {{"cubepi_*", only(found.version), sql_schema_version},
                         {"cubepi_native_*", found.native(), sql_native_version}};
        return status;
    }
    void migrate() override { (void)run(Server::apply(options_)); }
    std::string sql() override { return Server::sql(run(Server::status(options_))); }

private:
    const typename Server::Options options_;
    const std::string description_;
};

/// The tables of tapes, deliveries, schedules and usage in a PostgreSQL database.
class TapeDatabase final : public Database {
public:
    explicit TapeDatabase(PostgresOptions options)
        : options_(std::move(options)), description_(postgres_description(options_)) {}

    const std::string& description() const noexcept override { return description_; }
    DatabaseStatus status() override {
        DatabaseStatus status;
        for (const PostgresTables* const one : sets())
            status.tables.push_back({one->names(), run(one->status(options_)), one->version()});
        return status;
    }
    void migrate() override {
        for (const PostgresTables* const one : sets()) (void)run(one->apply(options_));
    }
    std::string sql() override { return status().is_current() ? std::string() : new_sql(); }
    /// Returns the SQL that creates or migrates the tables.
    static std::string new_sql() {
        std::string text;
        for (const PostgresTables* const one : sets()) text += one->sql();
        return text;
    }

private:
    static std::array<const PostgresTables*, 4> sets() {
        return {&bub::postgres_tape_tables(), &bub::postgres_delivery_tables(),
                &bub::postgres_schedule_tables(), &bub::postgres_usage_tables()};
    }

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
        status.tables = {{"cubepi_native_*", found.native(), sqlite_native_version}};
        // Tables of CubePi alone are to be migrated, not to be created.
        if (found.has_shared_tables && !found.native_version)
            status.tables.front().found = FormatVersion();
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

bool DatabaseStatus::is_empty() const {
    return std::none_of(tables.begin(), tables.end(),
                        [](const TableVersion& one) { return one.found.has_value(); });
}

bool DatabaseStatus::is_current() const {
    return std::all_of(tables.begin(), tables.end(),
                       [](const TableVersion& one) { return one.is_current(); });
}

/// Returns the database that a URL (postgres://..., mysql://...) or a path of an SQLite file names, with the tables of threads, or with those
/// of tapes. Does not connect. Throws Error(invalid_argument) for a server that this program does not support.
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

/// Returns the SQL for a database of this kind ("postgres", "mysql", "sqlite"), without connecting to one. `from`: the version of CubePi's
/// tables; 0: there are none. Empty if there is no such kind.
std::optional<std::string> sql_of_kind(const std::string& kind, bool tapes, int from) {
    if (kind == "sqlite" && !tapes) return sqlite_schema_sql();
    if (kind == "postgres" && tapes) return TapeDatabase::new_sql();
    SqlSchemaStatus status;
    if (from > 0) status.version = from;
    if (kind == "postgres") return postgres_schema_sql(status);
    if (kind == "mysql" && !tapes) return mysql_schema_sql(status);
    return std::nullopt;
}

std::string version_text(const std::optional<FormatVersion>& found) {
    if (!found) return "none";
    std::string text = "version " + std::to_string(found->version);
    if (found->readable_from == found->version) return text;
    return text + ", for programs from version " + std::to_string(found->readable_from);
}

JsonObject to_json(const Database& database, const DatabaseStatus& status) {
    JsonArray tables;
    for (const TableVersion& one : status.tables) {
        JsonObject table;
        table["tables"] = one.name;
        table["version"] = one.found ? Json(one.found->version) : Json();
        table["readable_from"] = one.found ? Json(one.found->readable_from) : Json();
        table["needed"] = one.needed;
        tables.push_back(std::move(table));
    }
    JsonObject object;
    object["database"] = database.description();
    object["current"] = status.is_current();
    object["tables"] = std::move(tables);
    return object;
}

/// Names the tables that this program is too old for. They are not to be changed.
void refuse_newer(const Database& database, const DatabaseStatus& status) {
    for (const TableVersion& one : status.tables) {
        if (!one.found || !one.found->is_refused_by(one.needed)) continue;
        throw CheckpointerError(ErrorCode::schema_mismatch,
                                database.description() + ": the tables " + one.name + " are " +
                                    refusal_text(*one.found, one.needed));
    }
}

int show_status(Database& database, bool json, std::ostream& data, TerminalStream& err) {
    const DatabaseStatus status = database.status();
    if (json) {
        data_output(data, safe_json(to_json(database, status)) + "\n");
    } else {
        TerminalStream out(data);
        out << for_terminal(database.description()) << "\n";
        for (const TableVersion& one : status.tables) {
            out << "  " << for_terminal(one.name) << "\t" << for_terminal(version_text(one.found));
            if (!one.is_current())
                out << " (needed: " << for_terminal(std::to_string(one.needed)) << ")";
            out << "\n";
        }
    }
    if (status.is_current()) return exit_ok;
    refuse_newer(database, status);
    if (status.is_empty()) {
        err << "There are no tables. Create them with 'cubepi db init'.\n";
    } else {
        err << "The tables are older. Migrate them with 'cubepi db migrate'.\n";
    }
    return exit_failed;
}

int change(Database& database, TerminalView verb, TerminalStream& err) {
    database.migrate();
    err << verb << " the tables of " << for_terminal(database.description()) << ".\n";
    return exit_ok;
}

int init(Database& database, TerminalStream& err) {
    const DatabaseStatus status = database.status();
    refuse_newer(database, status);
    if (status.is_empty()) return change(database, "Created", err);
    if (status.is_current()) {
        err << for_terminal(database.description()) << " has its tables already.\n";
        return exit_ok;
    }
    throw Error(ErrorCode::invalid_argument,
                database.description() +
                    " has older tables; back it up, then migrate it with 'cubepi db migrate'");
}

int migrate(Database& database, TerminalStream& err) {
    const DatabaseStatus status = database.status();
    refuse_newer(database, status);
    if (status.is_current()) {
        err << "The tables of " << for_terminal(database.description()) << " are current.\n";
        return exit_ok;
    }
    if (!status.is_empty()) return change(database, "Migrated", err);
    throw Error(ErrorCode::invalid_argument,
                database.description() + " has no tables; create them with 'cubepi db init'");
}

int print_sql(const DatabaseArguments& arguments, std::ostream& data, TerminalStream& err) {
    std::optional<std::string> sql = sql_of_kind(arguments.target, arguments.tapes, arguments.from);
    if (!sql) {
        if (arguments.from != 0)
            throw Error(ErrorCode::invalid_argument,
                        "--from is for 'postgres' and 'mysql'; the versions of a database are read "
                        "from it");
        sql = open_database(arguments.target, arguments.tapes)->sql();
    }
    if (sql->empty()) err << "The tables are current: there is nothing to execute.\n";
    data_output(data, *sql);
    return exit_ok;
}

int use_one(const DatabaseArguments& arguments, std::ostream& out, TerminalStream& err) {
    using What = DatabaseArguments::What;
    const std::unique_ptr<Database> database = open_database(arguments.target, arguments.tapes);
    switch (arguments.what) {
        case What::status: return show_status(*database, arguments.json, out, err);
        case What::init: return init(*database, err);
        case What::migrate: return migrate(*database, err);
        case What::check:
        case What::divide:
        case What::sql: break;
    }
    return exit_usage;
}

}  // namespace

int use_database(const DatabaseArguments& given, std::ostream& out, std::ostream& error_output) {
    using What = DatabaseArguments::What;
    DatabaseArguments arguments = given;
    TerminalStream err(error_output);
    if (arguments.what == What::divide) return divide_sessions(arguments.move, err);
    if (arguments.what == What::sql) return print_sql(arguments, out, err);
    if (arguments.what == What::check)
        return show_checks(check_stores(given.target, given.tapes), given.json, out, err);
    if (!arguments.target.empty()) return use_one(arguments, out, err);
    // Without a database the command is about those of the sessions.
    arguments.tapes = true;
    std::vector<std::string> urls = tape_place().urls();
    if (urls.empty()) urls.emplace_back();
    int status = exit_ok;
    for (std::string& url : urls) {
        arguments.target = std::move(url);
        status = std::max(status, use_one(arguments, out, err));
    }
    return status;
}

int db_command(const CommandLine& line) { return use_database(line.db, std::cout, std::cerr); }

}  // namespace cubepi::app
