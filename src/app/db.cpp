#include <algorithm>
#include <array>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/channel/postgres_delivery_schema.hpp>
#include <bub/limits/postgres_usage_store.hpp>
#include <bub/schedule/postgres_schedule_store.hpp>
#include <bub/tape/copy_tape.hpp>
#include <bub/tape/postgres/division.hpp>
#include <bub/tape/postgres_tape_schema.hpp>
#include <bub/tape/postgres_tape_store.hpp>
#include <bub/tape/tape_session.hpp>
#include <cubepi/checkpoint/mysql_schema.hpp>
#include <cubepi/checkpoint/postgres_schema.hpp>
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>
#include <cubepi/checkpoint/sqlite_schema.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/format_version.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/run.hpp>

#include "config/config_file.hpp"
#include "config/paths.hpp"
#include "config/store_locations.hpp"
#include "db_check.hpp"
#include "failure.hpp"
#include "program.hpp"
#include "saved_sessions.hpp"
#include "terminal/terminal_stream.hpp"
#include "terminal/terminal_text.hpp"

namespace cubepi::app {

namespace {

using StorePtr = std::shared_ptr<bub::SessionTapeStore>;

/// Returns the session of a channel whose sub-agent has this session; else the session itself.
std::string_view main_session(std::string_view session) {
    for (const std::string_view mark : {"/agent/", "/call/"})
        session = session.substr(0, session.find(mark));
    return session;
}

/// Returns the name of the main tape of a sidecar, else the name itself.
std::string main_tape(const std::string& tape) {
    const std::size_t first = tape.find("__");
    return tape.substr(0, first == std::string::npos ? first : tape.find("__", first + 2));
}

/// A record of a database (DatabaseMap::record()), in its parts.
struct ReadRecord {
    explicit ReadRecord(std::string_view text) {
        const std::string_view mark = bub::detail::being_divided;
        if (text.starts_with(mark)) {
            is_interrupted = true;
            text.remove_prefix(mark.size());
        }
        const std::size_t own = text.find(" of ");
        if (own == std::string_view::npos) return;
        name = text.substr(0, own);
        text.remove_prefix(own + std::string_view(" of ").size());
        while (!text.empty()) {
            const std::string_view one = text.substr(0, text.find("; "));
            const std::size_t colon = one.find(": ");
            if (colon != std::string_view::npos)
                ranges[std::string(one.substr(0, colon))] = one.substr(colon + 2);
            text.remove_prefix(std::min(text.size(), one.size() + 2));
        }
    }

    bool is_interrupted = false;
    std::string name = {};                           ///< of the database itself
    std::map<std::string, std::string> ranges = {};  ///< by name
};

/// The databases of the configuration, without a check of what they have recorded.
class Division {
public:
    explicit Division(std::vector<DatabasePart> parts)
        : parts_(std::move(parts)), map_(database_map(parts_)) {
        for (std::size_t at = 0; at < parts_.size(); ++at)
            stores_.push_back(std::make_shared<bub::PostgresTapeStore>(options(at)));
    }

    std::size_t size() const noexcept { return parts_.size(); }
    const std::string& name(std::size_t at) const { return parts_[at].name; }
    std::string record(std::size_t at) const { return map_.record(at); }
    PostgresOptions options(std::size_t at) const {
        PostgresOptions options;
        options.connection = parts_[at].url;
        return options;
    }
    /// Returns the records of the databases; empty: none.
    Task<std::vector<std::string>> read_records() const;
    bool is_recorded(const std::vector<std::string>& records) const;
    /// Throws Error if another database has or may have sessions of those that are recorded.
    void check_databases(const std::vector<std::string>& records) const;
    /// Throws Error if the division may not be changed at the moment.
    Task<> check_idle() const;
    /// Returns the number of tapes in other databases than theirs, which it moves if `move`.
    Task<std::size_t> sort_tapes(bool move) const;
    /// Records the division; until `is_done`, no connection may use the databases.
    Task<> record_all(bool is_done) const;
    Task<> write_records(std::vector<std::string> records) const;

private:
    using Sessions = std::map<std::string, std::string>;  ///< by main tape

    /// Returns the sessions that are recorded on the main tapes of a database.
    Task<Sessions> sessions_of(std::size_t at) const;
    std::size_t place_of(const std::string& tape, const Sessions& sessions) const;
    Task<> move_tape(std::string tape, std::size_t from, std::size_t to) const;

    const std::vector<DatabasePart> parts_;
    const bub::DatabaseMap map_;
    std::vector<StorePtr> stores_;
};

Task<std::vector<std::string>> Division::read_records() const {
    std::vector<std::string> records;
    for (std::size_t at = 0; at < size(); ++at) {
        bub::DivisionState state = co_await bub::read_division(options(at));
        records.push_back(std::move(state.record));
    }
    co_return records;
}

bool Division::is_recorded(const std::vector<std::string>& records) const {
    for (std::size_t at = 0; at < size(); ++at)
        if (records[at] != record(at)) return false;
    return true;
}

void Division::check_databases(const std::vector<std::string>& records) const {
    std::set<std::string> present;
    for (std::size_t at = 0; at < size(); ++at) {
        // This division was checked before it began.
        if (records[at] == bub::detail::being_divided + record(at)) return;
        present.insert(ReadRecord(records[at]).name);
    }
    for (std::size_t at = 0; at < size(); ++at) {
        const ReadRecord read(records[at]);
        for (const auto& [other, ranges] : read.ranges) {
            const bool is_configured = map_.named(other) < size();
            // Tapes may be left in any database of a move that was interrupted, and one of them may have no record yet.
            if (present.contains(other) || (ranges == "none" && !read.is_interrupted) ||
                (is_configured && read.is_interrupted))
                continue;
            const std::string has = "the database '" + name(at) + "' has recorded that '" + other +
                                    "' has the sessions " + ranges;
            if (is_configured)
                throw Error(ErrorCode::invalid_state,
                            has + ", but the configured database '" + other +
                                "' has no record. Correct its url in the key 'databases'; if it "
                                "was moved to a new server, restore a copy of it there");
            throw Error(ErrorCode::invalid_state,
                        has +
                            ", but it is not configured. Add it to the key 'databases', with "
                            "'sessions: none' if it is to be removed; then: cubepi db divide "
                            "--move");
        }
    }
}

Task<> Division::check_idle() const {
    for (std::size_t at = 0; at < size(); ++at) {
        const bub::DivisionState state = co_await bub::read_division(options(at));
        if (state.gateways > 0)
            throw Error(ErrorCode::busy,
                        std::to_string(state.gateways) + " gateways use the database '" + name(at) +
                            "'. Stop all of them (cubepi gateway drain --all); one that was killed "
                            "counts for 10 s");
        if (state.unfinished > 0)
            throw Error(
                ErrorCode::busy,
                "the database '" + name(at) + "' has " + std::to_string(state.unfinished) +
                    " unfinished messages and answers. Let a gateway with the division "
                    "from before finish them; see those that are held: cubepi gateway held");
        if (at > 0 && state.schedules > 0)
            throw Error(ErrorCode::invalid_state,
                        "the database '" + name(at) + "' has " + std::to_string(state.schedules) +
                            " schedules, which only the first database may have. Name it first in "
                            "the key 'databases'; or move the rows of bub_schedules to the "
                            "database '" +
                            name(0) + "'");
    }
}

Task<Division::Sessions> Division::sessions_of(std::size_t at) const {
    const std::vector<bub::ListedTape> tapes = co_await stores_[at]->newest_tapes();
    Sessions sessions;
    for (const bub::ListedTape& tape : tapes) {
        const auto session = tape.state ? bub::session_of(*tape.state) : std::nullopt;
        if (session) sessions[tape.name] = session->id;
    }
    co_return sessions;
}

/// Returns the database of a tape. A name has the position of the session. Tapes of sub-agents, and those of earlier versions of a
/// gateway, are with the session that is recorded on them; those of a terminal are found by their names alone.
std::size_t Division::place_of(const std::string& tape, const Sessions& sessions) const {
    const std::string main = main_tape(tape);
    const auto found = sessions.find(main);
    if (found == sessions.end() || !session_name_of(found->second).empty())
        return map_.of_tape(main);
    return map_.of_session(main_session(found->second));
}

Task<> Division::move_tape(std::string tape, std::size_t from, std::size_t to) const {
    (void)co_await bub::copy_tape(stores_[from], stores_[to], tape);
    co_await stores_[from]->remove_tape(std::move(tape));
}

Task<std::size_t> Division::sort_tapes(bool move) const {
    // Of all databases: a move that was interrupted may have left the tape of a session in one and its sidecar in another.
    Sessions sessions;
    for (std::size_t at = 0; at < size(); ++at) sessions.merge(co_await sessions_of(at));
    std::size_t found = 0;
    for (std::size_t at = 0; at < size(); ++at) {
        std::vector<std::string> tapes = co_await stores_[at]->all_tapes();
        // A sidecar before its tape, with which it would be removed.
        std::reverse(tapes.begin(), tapes.end());
        for (const std::string& tape : tapes) {
            const std::size_t place = place_of(tape, sessions);
            if (place == at) continue;
            ++found;
            if (move) co_await move_tape(tape, at, place);
        }
    }
    co_return found;
}

Task<> Division::record_all(bool is_done) const {
    std::vector<std::string> records;
    for (std::size_t at = 0; at < size(); ++at)
        records.push_back((is_done ? "" : bub::detail::being_divided) + record(at));
    return write_records(std::move(records));
}

Task<> Division::write_records(std::vector<std::string> records) const {
    for (std::size_t at = 0; at < size(); ++at)
        co_await bub::record_division(options(at), std::move(records[at]));
}

/// Refuses each new connection to the databases until the division is recorded. Throws Error if a gateway uses them.
void close_databases(const Division& division, const std::vector<std::string>& records) {
    run(division.record_all(false));
    try {
        // One may have started since the first check.
        run(division.check_idle());
    } catch (const Error&) {
        // It has to finish its messages.
        run(division.write_records(records));
        throw;
    }
}

/// Records the division of the sessions in the databases of the configuration (D259). `move`: moves sessions that are in another database
/// than theirs; without it they are an error. Returns the exit status. Throws Error if a gateway runs, messages are unfinished or the
/// tables are missing or older; then nothing is recorded.
int divide_sessions(bool move, TerminalStream& err) {
    const TapeLocation place = tape_location();
    if (place.databases.empty())
        throw Error(ErrorCode::invalid_argument,
                    "the configuration names no databases to divide the sessions among: write the "
                    "key databases to " +
                        config_path().string());
    const Division division(place.databases);
    const std::vector<std::string> records = run(division.read_records());
    if (division.is_recorded(records) && !move) {
        err << "The databases have recorded this division already.\n";
        return exit_ok;
    }
    division.check_databases(records);
    run(division.check_idle());
    std::size_t tapes = move ? 0 : run(division.sort_tapes(false));
    if (tapes > 0)
        throw Error(ErrorCode::invalid_state,
                    std::to_string(tapes) +
                        " tapes are in another database than that of their sessions. Nothing was "
                        "recorded. Back up the databases, then move the tapes and record the "
                        "division: cubepi db divide --move");
    close_databases(division, records);
    // A call that is repeated after an interruption continues.
    if (move) tapes = run(division.sort_tapes(true));
    run(division.record_all(true));
    if (move) err << for_terminal("Moved " + std::to_string(tapes) + " tapes.\n");
    err << for_terminal("Recorded which sessions each of the " + std::to_string(division.size()) +
                        " databases has.\n");
    return exit_ok;
}

/// A part of the tables of a database.
struct TableVersion {
    std::string name = {};
    std::optional<FormatVersion> found = {};  ///< absent: there are none
    int needed = 0;
    bool of_tapes = false;  ///< it is created and migrated with --tapes

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
            status.tables.push_back(
                {one->names(), run(one->status(options_)), one->version(), true});
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

bool is_postgres(const std::string& target) {
    return target.starts_with("postgres://") || target.starts_with("postgresql://");
}

/// Returns the database that a URL (postgres://..., mysql://...) or a path of an SQLite file names, with the tables of threads, or with those
/// of tapes. Does not connect. Throws Error(invalid_argument) for a server that this program does not support.
std::unique_ptr<Database> open_database(const std::string& target, bool tapes) {
    if (target.empty())
        throw Error(ErrorCode::invalid_argument,
                    "no database; give a URL (postgres://...) or an SQLite file, or set 'database' "
                    "in the configuration file");
    constexpr std::string_view sqlite = "sqlite:///";
    if (is_postgres(target)) {
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

/// Returns the versions of the tables. Of a PostgreSQL database these are all that there are, unless --tapes selects some.
DatabaseStatus status_of(Database& database, const DatabaseArguments& arguments) {
    DatabaseStatus status = database.status();
    if (arguments.tapes || !is_postgres(arguments.target)) return status;
    PostgresOptions options;
    options.connection = arguments.target;
    DatabaseStatus tapes = TapeDatabase(std::move(options)).status();
    if (tapes.is_empty()) return status;
    if (status.is_empty()) return tapes;
    std::move(tapes.tables.begin(), tapes.tables.end(), std::back_inserter(status.tables));
    return status;
}

int show_status(Database& database, const DatabaseArguments& arguments, std::ostream& data,
                TerminalStream& err) {
    const DatabaseStatus status = status_of(database, arguments);
    if (arguments.json) {
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
    const auto old = std::find_if(status.tables.begin(), status.tables.end(),
                                  [](const TableVersion& one) { return !one.is_current(); });
    const TerminalView option = old->of_tapes ? TerminalView(" --tapes") : TerminalView();
    if (status.is_empty()) {
        err << "There are no tables. Create them with 'cubepi db init" << option << "'.\n";
    } else {
        err << "The tables are older. Migrate them with 'cubepi db migrate" << option << "'.\n";
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
                database.description() +
                    " has none of these tables; create them with 'cubepi db init', or name those "
                    "of sessions with --tapes");
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
        case What::status: return show_status(*database, arguments, out, err);
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
    std::vector<std::string> urls = tape_location().urls();
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
