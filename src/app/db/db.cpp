#include "db.hpp"

#include <iostream>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/json.hpp>

#include "../commands.hpp"
#include "../config/tape_place.hpp"
#include "../exit_code.hpp"
#include "../terminal/safe_json.hpp"
#include "../terminal/terminal_stream.hpp"
#include "database.hpp"

namespace cubepi::app {

namespace {

std::string version_text(const std::optional<int>& version) {
    return version ? "version " + std::to_string(*version) : std::string("none");
}

JsonObject to_json(const Database& database, const DatabaseStatus& status) {
    JsonArray tables;
    for (const TableVersion& one : status.tables) {
        JsonObject table;
        table["tables"] = one.name;
        table["version"] = one.found ? Json(*one.found) : Json();
        table["needed"] = one.needed;
        tables.push_back(std::move(table));
    }
    JsonObject object;
    object["database"] = database.description();
    object["current"] = status.is_current();
    object["tables"] = std::move(tables);
    return object;
}

/// Names the tables that are newer than this program. They are not to be changed.
void refuse_newer(const Database& database, const DatabaseStatus& status) {
    for (const TableVersion& one : status.tables) {
        if (one.found.value_or(0) <= one.needed) continue;
        throw CheckpointerError(ErrorCode::schema_mismatch,
                                database.description() + ": the tables " + one.name + " are of " +
                                    version_text(one.found) +
                                    ", which is newer than this program knows (" +
                                    std::to_string(one.needed) + "); update the program");
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
            if (one.found != one.needed)
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

}  // namespace

namespace {

/// Without a database the command is about that of the sessions.
DatabaseArguments with_default(DatabaseArguments arguments) {
    if (!arguments.target.empty()) return arguments;
    arguments.target = tape_place().database;
    arguments.tapes = true;
    return arguments;
}

}  // namespace

int use_database(const DatabaseArguments& given, std::ostream& out, std::ostream& error_output) {
    using What = DatabaseArguments::What;
    const DatabaseArguments arguments = with_default(given);
    TerminalStream err(error_output);
    if (arguments.what == What::sql) return print_sql(arguments, out, err);
    const std::unique_ptr<Database> database = open_database(arguments.target, arguments.tapes);
    switch (arguments.what) {
        case What::status: return show_status(*database, arguments.json, out, err);
        case What::init: return init(*database, err);
        case What::migrate: return migrate(*database, err);
        case What::sql: break;
    }
    return exit_usage;
}

int db_command(const CommandLine& line) { return use_database(line.db, std::cout, std::cerr); }

}  // namespace cubepi::app
