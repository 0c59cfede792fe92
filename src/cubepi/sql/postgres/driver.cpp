#include <cubepi/sql/postgres/driver.hpp>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

#include <libpq-fe.h>

#include <cubepi/core/error.hpp>
#include <cubepi/net/public_address.hpp>
#include <cubepi/sql/support/postgres.hpp>

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

void append_to_list(std::string& list, const std::string& item, bool first) {
    if (!first) list += ',';
    list += item;
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
     "a table is missing: apply the schema, and check the search_path"},
    {"42703", ErrorCode::schema_mismatch, "a column is missing: apply the schema"},
    {"42501", ErrorCode::permission_denied, "grant the user the rights on the tables"},
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
        if (host.address.empty() && !is_socket_directory(host.name) && !is_ip_address(host.name))
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
    // A cancellation has no other limit if the network loses what is sent.
    for (const auto& [key, limit] : host_limits)
        if (effective(key).empty()) values[key] = limit;
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
    for (const char* key : {"password", "sslpassword"}) hide_secret(text, effective(key));
    return text;
}

void take_advisory_locks(SqlBatch& batch, const std::vector<std::string>& names) {
    if (names.size() == 1) {
        batch.add("SELECT pg_advisory_xact_lock(hashtext($1))").text(names[0]);
    } else if (!names.empty()) {
        batch
            .add(
                "SELECT pg_advisory_xact_lock(key) FROM (SELECT DISTINCT hashtext(t) AS key"
                " FROM unnest($1::text[]) AS t ORDER BY key) AS keys")
            .texts(names);
    }
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

namespace {

class PgDriver final : public SqlDriver {
public:
    explicit PgDriver(const PostgresOptions& options)
        : parameters_(options.connection),
          prepare_(options.prepare_statements),
          lock_timeout_(std::to_string(options.lock_timeout.count())),
          query_timeout_(std::to_string(options.query_timeout.count())) {}

    const char* name() const noexcept override { return "postgres"; }
    const std::string& description() const noexcept override { return parameters_.description(); }
    const char* code_field() const noexcept override { return "sqlstate"; }
    std::unique_ptr<SqlConnection> connection() const override {
        return pg_connection(parameters_, prepare_);
    }
    bool migrates_at_once() const noexcept override { return true; }

    std::string without_secrets(std::string text) const override {
        return parameters_.without_secrets(std::move(text));
    }

    std::vector<std::string> names_to_resolve() const override {
        return parameters_.names_to_resolve();
    }

    bool is_reachable(const SqlAddresses& addresses) const override {
        const auto values = parameters_.with_addresses(addresses);
        const auto host = values.find("host");
        return host == values.end() || !host->second.empty();
    }

    SqlBatch migration_session() const override {
        SqlBatch batch;
        // "relation exists, skipping" would be sent for each table.
        batch.add("SELECT set_config('client_min_messages', 'warning', {pooled})");
        return batch;
    }

    SqlBatch store_session() const override {
        SqlBatch batch;
        // Compiling a plan of 64 partitions takes seconds, and one of them is visited. A prepared statement with a list of texts would
        // be planned each time, because the server expects lists of ten: that takes longer than to find a few rows by their keys. A plan
        // that was made while the tables were small would read all of them later.
        batch
            .add(
                "SELECT set_config('lock_timeout', $1, {pooled}), set_config('statement_timeout',"
                " $2, {pooled}), set_config('idle_in_transaction_session_timeout', $2, {pooled}),"
                " set_config('jit', 'off', {pooled}),"
                // As begin_write(), for SqlConnection::commits_batches().
                " set_config('default_transaction_isolation', 'read committed', {pooled}),"
                " set_config('plan_cache_mode', 'force_generic_plan', {pooled}),"
                " set_config('enable_seqscan', 'off', {pooled}), set_config('enable_hashjoin',"
                " 'off', {pooled}), set_config('enable_mergejoin', 'off', {pooled})")
            .text(lock_timeout_)
            .text(query_timeout_);
        return batch;
    }

    void begin_read(SqlBatch& batch) const override {
        batch.add("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
    }

    void begin_write(SqlBatch& batch) const override {
        batch.add("BEGIN ISOLATION LEVEL READ COMMITTED");
    }

    void begin_migration(SqlBatch& batch, const std::string& name) const override {
        batch.add("BEGIN");
        batch.add("SELECT pg_advisory_xact_lock(hashtext($1))").text(name);
    }

    SqlRemedy remedy(const SqlFailure& failure) const override {
        SqlRemedy remedy;
        if (const Translation* found = translation_of(failure.code())) {
            remedy.code = found->code;
            remedy.text = found->remedy;
        }
        return remedy;
    }

private:
    const PgParameters parameters_;
    const bool prepare_;
    const std::string lock_timeout_;   ///< in milliseconds
    const std::string query_timeout_;  ///< in milliseconds
};

}  // namespace

std::shared_ptr<const SqlDriver> postgres_driver(const PostgresOptions& options) {
    return std::make_shared<const PgDriver>(options);
}

}  // namespace cubepi::detail

namespace cubepi {

std::string postgres_description(const PostgresOptions& options) {
    return detail::PgParameters(options.connection).description();
}

}  // namespace cubepi
