#include <cubepi/checkpoint/postgres_checkpointer.hpp>

#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

#include <arpa/inet.h>
#include <libpq-fe.h>
#include <netinet/in.h>

#include <cubepi/checkpoint/format/stored_json.hpp>
#include <cubepi/checkpoint/postgres/driver.hpp>
#include <cubepi/checkpoint/postgres_options.hpp>
#include <cubepi/core/error.hpp>

namespace cubepi::detail {

namespace {

using Options = std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)>;

void copy_values(const PQconninfoOption* options, std::map<std::string, std::string>& values) {
    for (const PQconninfoOption* one = options; one && one->keyword; ++one) {
        if (one->val && *one->val) values[one->keyword] = one->val;
    }
}

std::vector<std::string> split(const std::string& list) {
    std::vector<std::string> parts;
    std::size_t start = 0;
    for (;;) {
        const std::size_t comma = list.find(',', start);
        parts.push_back(list.substr(start, comma - start));
        if (comma == std::string::npos) return parts;
        start = comma + 1;
    }
}

bool is_socket_directory(const std::string& host) {
    return host.empty() || host.front() == '/' || host.front() == '@';
}

bool is_address(const std::string& host) {
    in6_addr unused{};
    return inet_pton(AF_INET, host.c_str(), &unused) == 1 ||
           inet_pton(AF_INET6, host.c_str(), &unused) == 1;
}

void append_to_list(std::string& list, const std::string& item, bool first) {
    if (!first) list += ',';
    list += item;
}

void replace_all(std::string& text, const std::string& secret) {
    if (secret.empty()) return;
    for (std::size_t at = text.find(secret); at != std::string::npos;
         at = text.find(secret, at + 3)) {
        text.replace(at, secret.size(), "***");
    }
}

SqlBatch quiet_set_up() {
    SqlBatch batch;
    // "relation exists, skipping" would be sent for each table.
    batch.add("SELECT set_config('client_min_messages', 'warning', false)");
    return batch;
}

/// The translation of a code of the server, or of a class of two characters.
struct Translation {
    std::string_view sqlstate;
    ErrorCode code;
    std::string_view remedy;
};

// https://www.postgresql.org/docs/current/errcodes-appendix.html
constexpr Translation translations[] = {
    {"28", ErrorCode::auth,
     "check the user and the password (PGPASSWORD or ~/.pgpass) and pg_hba.conf of the server"},
    {"3D000", ErrorCode::not_found, "check the name, or create the database with createdb"},
    {"53300", ErrorCode::unavailable,
     "lower max_connections of the pools, or raise max_connections of the server"},
    {"57P03", ErrorCode::unavailable, "the server starts or stops: try again later"},
    {"57P", ErrorCode::disconnected, "try again later"},
    {"42P01", ErrorCode::schema_mismatch,
     "a table is missing: apply the schema (apply_postgres_schema), and check the search_path"},
    {"42703", ErrorCode::schema_mismatch,
     "a column is missing: apply the schema (apply_postgres_schema)"},
    {"42501", ErrorCode::permission_denied,
     "grant the user SELECT, INSERT, UPDATE and DELETE on the tables cubepi_*"},
    {"25006", ErrorCode::permission_denied,
     "the server is read-only: connect to the primary (target_session_attrs=read-write)"},
    {"40P01", ErrorCode::storage_locked, "other transactions got in the way: try again"},
    {"40", ErrorCode::storage_locked, "other transactions got in the way: try again"},
    {"26000", ErrorCode::unavailable,
     "a pooler assigns a session to each transaction: set prepare_statements to false"},
    {"42P05", ErrorCode::unavailable,
     "a pooler assigns a session to each transaction: set prepare_statements to false"},
    {"57014", ErrorCode::timeout, "the server is overloaded, or raise query_timeout"},
    {"53100", ErrorCode::storage_full, "free space on the disk of the server"},
    {"22021", ErrorCode::invalid_argument, "ids must be valid UTF-8 without the character U+0000"},
    {"54000", ErrorCode::invalid_argument, "ids may have at most about 2700 bytes"},
    {"XX001", ErrorCode::storage_corrupt, "restore the table from a backup"},
    {"XX002", ErrorCode::storage_corrupt, "rebuild the index with REINDEX"},
};

const Translation* translation_of(std::string_view sqlstate) {
    for (const Translation& one : translations) {
        if (sqlstate.starts_with(one.sqlstate)) return &one;
    }
    return nullptr;
}

}  // namespace

namespace {

/// Throws an error without the text, which may have a password.
[[noreturn]] void refuse_connection() {
    throw CheckpointerError(ErrorCode::invalid_argument,
                            "the PostgreSQL connection string cannot be parsed; write "
                            "postgres://USER@HOST:PORT/DATABASE with special characters as %XX "
                            "(a '/' in a password as %2F), or "
                            "host=HOST dbname=DATABASE user=USER");
}

/// Returns true if the name of the database contains an '@', as it is written: libpq ends the address at the first '/', although
/// it is one of the password.
bool has_cut_password(std::string_view connection) {
    const std::size_t scheme = connection.find("://");
    if (scheme == std::string_view::npos || !connection.starts_with("postgres")) return false;
    const std::string_view address = connection.substr(scheme + 3);
    const std::string_view path = address.substr(std::min(address.find('/'), address.size()));
    return path.substr(0, path.find('?')).find('@') != std::string_view::npos;
}

}  // namespace

PgParameters::PgParameters(const std::string& connection) {
    char* error = nullptr;
    const Options parsed(PQconninfoParse(connection.c_str(), &error), &PQconninfoFree);
    PQfreemem(error);
    if (!parsed || has_cut_password(connection)) refuse_connection();
    copy_values(parsed.get(), given_);
    // Parts of a password that has a special character. The name of an abstract socket begins with an '@'.
    for (const auto& [key, value] : given_) {
        const bool is_cut =
            (key == "host" && value.find('@', 1) != std::string::npos) ||
            (key == "port" && value.find_first_not_of("0123456789,") != std::string::npos);
        if (is_cut) refuse_connection();
    }
    if (given_.contains("service")) {
        throw CheckpointerError(ErrorCode::invalid_argument,
                                "'service' is not supported in a PostgreSQL connection string; set "
                                "PGSERVICE, or write the parameters of the service");
    }
    const Options defaults(PQconndefaults(), &PQconninfoFree);
    copy_values(defaults.get(), defaults_);
    description_ = describe();
}

std::string PgParameters::effective(const std::string& key) const {
    for (const auto* values : {&given_, &defaults_}) {
        const auto found = values->find(key);
        if (found != values->end()) return found->second;
    }
    return {};
}

std::vector<PgParameters::Host> PgParameters::hosts() const {
    const std::vector<std::string> names = split(effective("host"));
    const std::vector<std::string> addresses = split(effective("hostaddr"));
    const std::vector<std::string> ports = split(effective("port"));
    std::vector<Host> hosts;
    for (std::size_t i = 0; i < std::max(names.size(), addresses.size()); ++i) {
        Host host;
        if (i < names.size()) host.name = names[i];
        if (i < addresses.size()) host.address = addresses[i];
        host.port = ports.size() == 1 ? ports[0] : i < ports.size() ? ports[i] : std::string();
        hosts.push_back(std::move(host));
    }
    return hosts;
}

std::vector<std::string> PgParameters::names_to_resolve() const {
    std::vector<std::string> names;
    for (const Host& host : hosts()) {
        if (host.address.empty() && !is_socket_directory(host.name) && !is_address(host.name))
            names.push_back(host.name);
    }
    return names;
}

std::map<std::string, std::string> PgParameters::with_addresses(
    const std::map<std::string, std::vector<std::string>>& addresses) const {
    std::map<std::string, std::string> values = given_;
    std::string names;
    std::string all;
    std::string ports;
    bool first = true;
    const auto add = [&](const Host& host, const std::string& address) {
        append_to_list(names, host.name, first);
        append_to_list(all, address, first);
        append_to_list(ports, host.port, first);
        first = false;
    };
    const std::vector<std::string> unresolved = names_to_resolve();
    if (!unresolved.empty()) {
        for (const Host& host : hosts()) {
            const auto found = addresses.find(host.name);
            if (found != addresses.end()) {
                for (const std::string& address : found->second) add(host, address);
            } else if (std::find(unresolved.begin(), unresolved.end(), host.name) ==
                       unresolved.end()) {
                add(host, host.address);
            }
        }
        values["host"] = names;
        values["hostaddr"] = all;
        values["port"] = ports;
    }
    values["client_encoding"] = "UTF8";
    if (effective("application_name").empty()) values["fallback_application_name"] = "cubepi";
    // Kerberos would look for a ticket server with blocking calls.
    if (!given_.contains("gssencmode") && !std::getenv("PGGSSENCMODE"))
        values["gssencmode"] = "disable";
    return values;
}

std::string PgParameters::describe() const {
    std::string database = effective("dbname");
    if (database.empty()) database = effective("user");
    std::string where;
    for (const Host& host : hosts()) {
        if (!where.empty()) where += ", ";
        const std::string& name = host.name.empty() ? host.address : host.name;
        where += is_socket_directory(name) ? (name.empty() ? std::string("the local socket") : name)
                                           : name + ":" + host.port;
    }
    return "PostgreSQL database '" + database + "' on " + where;
}

std::string PgParameters::without_secrets(std::string text) const {
    for (const char* key : {"password", "sslpassword"}) replace_all(text, effective(key));
    return text;
}

PgDriver::PgDriver(const PostgresOptions& options, bool for_store)
    : parameters_(options.connection),
      prepare_(options.prepare_statements),
      for_store_(for_store),
      set_up_(for_store ? session_set_up(options) : quiet_set_up()) {}

std::string PgDriver::without_secrets(std::string text) const {
    return parameters_.without_secrets(std::move(text));
}

SqlRemedy PgDriver::remedy(const SqlFailure& failure) const { return pg_remedy(failure); }

std::vector<std::string> PgDriver::names_to_resolve() const {
    return parameters_.names_to_resolve();
}

bool PgDriver::is_reachable(const SqlAddresses& addresses) const {
    const auto values = parameters_.with_addresses(addresses);
    const auto host = values.find("host");
    return host == values.end() || !host->second.empty();
}

void PgDriver::check(const SqlResults& results) const {
    if (for_store_) check_session(parameters_, results);
}

void PgDriver::begin_read(SqlBatch& batch) const {
    batch.add("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
}

void PgDriver::begin_write(SqlBatch& batch, const std::vector<std::string>& threads) const {
    batch.add("BEGIN ISOLATION LEVEL READ COMMITTED");
    // CubePi takes the same lock. Several are taken in the order of their keys.
    if (threads.size() == 1) {
        batch.add("SELECT pg_advisory_xact_lock(hashtext($1))").text(threads[0]);
    } else if (!threads.empty()) {
        batch
            .add(
                "SELECT pg_advisory_xact_lock(key) FROM (SELECT DISTINCT hashtext(t) AS key"
                " FROM unnest($1::text[]) AS t ORDER BY key) AS keys")
            .texts(threads);
    }
}

void PgDriver::write_extra(SqlBatch& batch, const std::string& thread_id,
                           const ExtraChange& change) const {
    batch
        .add(
            "INSERT INTO cubepi_threads AS t (thread_id, extra) VALUES ($1, $3)"
            " ON CONFLICT (thread_id) DO UPDATE"
            " SET extra = (t.extra - $2::text[]) || excluded.extra, updated_at = now()")
        .text(thread_id)
        .texts(change.removed)
        .json(server_json_text(change.changed));
}

void PgDriver::write_fork_row(SqlBatch& batch, const SqlFork& fork, const JsonObject& added,
                              const JsonObject& /*merged*/) const {
    batch
        .add(
            "INSERT INTO cubepi_threads (thread_id, parent_thread_id, forked_at_seq, extra)"
            " SELECT $2, thread_id, $3, extra || $4 FROM cubepi_threads WHERE thread_id = $1")
        .text(fork.source)
        .text(fork.target)
        .integer(fork.cutoff)
        .json(server_json_text(added));
}

std::string PgDriver::page_sql(const std::string& columns, const std::string& time) const {
    const std::string key = time + ", thread_id, run_id, question_id";
    return "SELECT " + columns + " FROM cubepi_native_pending WHERE NOT expired AND (" + key +
           ") > ($1, $2, $3, $4) ORDER BY " + key + " LIMIT $5";
}

// By thread, so that each lookup visits one of the partitions: a subquery of the grouped messages would visit all of them.
// Messages are counted by the primary key alone, so that long ones are not read.
std::string PgDriver::listing_sql() const {
    return "SELECT t.thread_id, counted.count, (SELECT {epoch created_at} FROM cubepi_messages AS m"
           " WHERE m.thread_id = t.thread_id AND m.seq = counted.last) AS at"
           " FROM cubepi_threads AS t, LATERAL (SELECT count(*) AS count, max(seq) AS last"
           " FROM cubepi_messages AS m WHERE m.thread_id = t.thread_id) AS counted"
           " WHERE counted.count > 0 OR {filled t.extra} OR t.parent_thread_id IS NOT NULL"
           " ORDER BY at DESC {nulls last}, t.thread_id";
}

SqlCondition condition_of(std::string_view sqlstate) {
    if (sqlstate == "55P03") return SqlCondition::lock_timeout;
    if (sqlstate == "40P01" || sqlstate == "40001") return SqlCondition::conflict;
    // A prepared statement does not exist, or exists already: a pooler has changed the session.
    if (sqlstate == "26000" || sqlstate == "42P05") return SqlCondition::conflict;
    if (sqlstate == "25006") return SqlCondition::read_only;
    // An administrator ends the server, or it has crashed, or it starts.
    if (sqlstate == "57P01" || sqlstate == "57P02" || sqlstate == "57P03")
        return SqlCondition::starting;
    return SqlCondition::other;
}

SqlFailure pg_failure(SqlFailureKind kind, const std::string& reason, std::string sqlstate) {
    const SqlCondition condition = condition_of(sqlstate);
    return SqlFailure(kind, reason, std::move(sqlstate), condition);
}

SqlRemedy pg_remedy(const SqlFailure& failure) {
    SqlRemedy remedy;
    if (const Translation* found = translation_of(failure.code())) {
        remedy.code = found->code;
        remedy.text = found->remedy;
    }
    return remedy;
}

}  // namespace cubepi::detail

namespace cubepi {

namespace {

PostgresOptions options_for(std::string connection) {
    PostgresOptions options;
    options.connection = std::move(connection);
    return options;
}

}  // namespace

std::string postgres_description(const PostgresOptions& options) {
    return detail::PgParameters(options.connection).description();
}

PostgresCheckpointer::PostgresCheckpointer(std::string connection)
    : PostgresCheckpointer(options_for(std::move(connection))) {}

PostgresCheckpointer::PostgresCheckpointer(PostgresOptions options)
    : SqlCheckpointer(options, std::make_shared<const detail::PgDriver>(options, true)) {}

}  // namespace cubepi
