#include <cubepi/sql/mysql/driver.hpp>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/parsed_number.hpp>
#include <cubepi/net/public_address.hpp>
#include <cubepi/sql/support/mysql.hpp>

namespace cubepi::detail {

namespace {

[[noreturn]] void refuse(const std::string& why) {
    throw CheckpointerError(ErrorCode::invalid_argument,
                            "the MySQL connection string cannot be parsed: " + why +
                                "; write mysql://USER:PASSWORD@HOST:PORT/DATABASE with special "
                                "characters as %XX");
}

std::string decoded(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            out += text[i];
            continue;
        }
        unsigned value = 0;
        const char* const start = text.data() + i + 1;
        const char* const end = start + 2;
        if (text.size() - i < 3 || std::from_chars(start, end, value, 16).ptr != end || value == 0)
            refuse("a '%' is not followed by two hexadecimal digits");
        out += static_cast<char>(value);
        i += 2;
    }
    return out;
}

MyTls tls_mode(const std::string& text) {
    constexpr const char* names[] = {"disabled", "preferred", "required", "verify-ca",
                                     "verify-identity"};
    for (unsigned i = 0; i < 5; ++i) {
        if (text == names[i]) return static_cast<MyTls>(i);
    }
    refuse(
        "ssl-mode must be 'disabled', 'preferred', 'required', 'verify-ca' or "
        "'verify-identity'");
}

std::string seconds_of(std::chrono::milliseconds limit) {
    return std::to_string((std::max<std::int64_t>(limit.count(), 1) + 999) / 1000);
}

struct Translation {
    unsigned error;
    ErrorCode code;
    std::string_view remedy;
};

constexpr std::string_view grant =
    "grant the user SELECT, INSERT, UPDATE and DELETE on the database, and to migrate the tables "
    "CREATE, ALTER, INDEX, DROP and TRIGGER";
constexpr std::string_view apply = "apply the schema";
constexpr std::string_view primary =
    "the server or the transaction is read-only: connect to the primary";
constexpr std::string_view overloaded = "the server is overloaded, or raise query_timeout";
constexpr std::string_view disk = "free space on the disk of the server";

// https://mariadb.com/kb/en/mariadb-error-code-reference/, and for MySQL its reference of server errors
constexpr Translation translations[] = {
    {1045, ErrorCode::auth, "check the user and the password (MYSQL_PWD)"},
    {1698, ErrorCode::auth, "check the user and the password (MYSQL_PWD)"},
    {1044, ErrorCode::permission_denied, grant},
    {1142, ErrorCode::permission_denied, grant},
    {1143, ErrorCode::permission_denied, grant},
    {1227, ErrorCode::permission_denied, grant},
    {1419, ErrorCode::permission_denied,
     "set log_bin_trust_function_creators=1 on the server, or let an administrator run the SQL"},
    {1290, ErrorCode::permission_denied, primary},
    {1792, ErrorCode::permission_denied, primary},
    {1836, ErrorCode::permission_denied, primary},
    {1049, ErrorCode::not_found, "check the name, or create it with CREATE DATABASE"},
    {1040, ErrorCode::unavailable,
     "lower max_connections of the pools, or raise max_connections of the server"},
    {1203, ErrorCode::unavailable,
     "lower max_connections of the pools, or raise max_user_connections of the server"},
    {1053, ErrorCode::unavailable, "the server starts or stops: try again later"},
    {1146, ErrorCode::schema_mismatch, apply},
    {1054, ErrorCode::schema_mismatch, apply},
    {1213, ErrorCode::storage_locked, "other transactions got in the way: try again"},
    {1020, ErrorCode::storage_locked, "other transactions got in the way: try again"},
    {1062, ErrorCode::storage_locked, "another program wrote the same row: try again"},
    {1317, ErrorCode::timeout, overloaded},
    {1969, ErrorCode::timeout, overloaded},
    {3024, ErrorCode::timeout, overloaded},
    {1021, ErrorCode::storage_full, disk},
    {1026, ErrorCode::storage_full, disk},
    {1041, ErrorCode::storage_full, "free memory of the server"},
    {1114, ErrorCode::storage_full, disk},
    {1406, ErrorCode::invalid_argument, "ids may have at most 255 characters"},
    {1071, ErrorCode::invalid_argument, "ids may have at most 255 characters"},
    {1366, ErrorCode::invalid_argument, "ids must be valid UTF-8"},
    {1300, ErrorCode::invalid_argument, "ids must be valid UTF-8"},
    {1153, ErrorCode::invalid_argument, "raise max_allowed_packet of the server"},
    {2020, ErrorCode::invalid_argument, "raise max_allowed_packet of the server"},
    {1034, ErrorCode::storage_corrupt, "restore the table from a backup"},
};

SqlCondition condition_of(unsigned error) {
    switch (error) {
        case 1205: return SqlCondition::lock_timeout;
        case 1213:
        case 1020: return SqlCondition::conflict;
        case 1290:
        case 1792:
        case 1836: return SqlCondition::read_only;
        case 1053: return SqlCondition::starting;
        default: return SqlCondition::other;
    }
}

}  // namespace

MyParameters::MyParameters(std::string_view text) {
    const std::size_t scheme = text.find("://");
    if (scheme == std::string_view::npos ||
        (text.substr(0, scheme) != "mysql" && text.substr(0, scheme) != "mariadb"))
        refuse("it does not start with mysql:// or mariadb://");
    text.remove_prefix(scheme + 3);
    const std::size_t query = text.find('?');
    const std::string_view path = text.substr(0, query);
    const std::size_t slash = path.find('/');
    if (slash == std::string_view::npos || slash + 1 == path.size())
        refuse("the name of the database is missing");
    if (path.find('@', slash) != std::string_view::npos)
        refuse("a '/' in the password must be written as %2F");
    read_authority(path.substr(0, slash));
    database = decoded(path.substr(slash + 1));
    if (query != std::string_view::npos) read_parameters(text.substr(query + 1));
    // Without certificates of its own to check with, the client library checks nothing.
    if (tls == MyTls::verify_ca && ca.empty())
        refuse(
            "ssl-mode=verify-ca needs the certificates to check the server's with; add "
            "ssl-ca=FILE");
    if (host.empty() && socket.empty()) host = "127.0.0.1";
    if (password.empty()) {
        if (const char* const value = std::getenv("MYSQL_PWD")) password = value;
    }
}

void MyParameters::read_authority(std::string_view text) {
    const std::size_t at = text.rfind('@');
    if (at != std::string_view::npos) {
        const std::string_view login = text.substr(0, at);
        const std::size_t colon = login.find(':');
        user = decoded(login.substr(0, colon));
        if (colon != std::string_view::npos) password = decoded(login.substr(colon + 1));
        text.remove_prefix(at + 1);
    }
    const bool is_ipv6 = text.starts_with('[');
    const std::size_t end = is_ipv6 ? text.find(']') : text.find(':');
    host = decoded(text.substr(is_ipv6 ? 1 : 0, is_ipv6 ? end - 1 : end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(is_ipv6 ? end + 1 : end);
    if (text.empty()) return;
    text.remove_prefix(1);
    port = parsed_number<decltype(port)>(text).value_or(0);
    if (port == 0 || port > 65535) refuse("the port is not a number from 1 to 65535");
}

void MyParameters::read_parameters(std::string_view text) {
    while (!text.empty()) {
        const std::string_view one = text.substr(0, text.find('&'));
        text.remove_prefix(std::min(one.size() + 1, text.size()));
        const std::size_t equals = std::min(one.find('='), one.size());
        const std::string_view name = one.substr(0, equals);
        const std::string value = decoded(one.substr(std::min(equals + 1, one.size())));
        if (name == "socket") {
            socket = value;
        } else if (name == "ssl-mode") {
            tls = tls_mode(value);
        } else if (name == "ssl-ca") {
            ca = value;
        } else if (name == "ssl-cert") {
            certificate = value;
        } else if (name == "ssl-key") {
            key = value;
        } else {
            refuse("it has a parameter other than socket, ssl-mode, ssl-ca, ssl-cert and ssl-key");
        }
    }
}

bool MyParameters::has_name() const { return socket.empty() && !is_ip_address(host); }

std::string MyParameters::description() const {
    const std::string where = socket.empty() ? host + ":" + std::to_string(port) : socket;
    return "MySQL database '" + database + "' on " + where;
}

SqlFailure my_failure(SqlFailureKind kind, const std::string& reason, unsigned error) {
    // Errors of the client library are reasons in themselves.
    const bool is_of_server = error < 2000 || error >= 3000;
    return SqlFailure(kind, reason, is_of_server ? std::to_string(error) : "", condition_of(error));
}

namespace {

class MyDriver final : public SqlDriver {
public:
    explicit MyDriver(const MySQLOptions& options)
        : parameters_(options.connection),
          description_(parameters_.description()),
          runtime_(options.runtime ? options.runtime : Runtime::standard()),
          lock_timeout_(options.lock_timeout),
          query_timeout_(options.query_timeout) {}

    const char* name() const noexcept override { return "mysql"; }
    const std::string& description() const noexcept override { return description_; }
    const char* code_field() const noexcept override { return "errno"; }
    std::unique_ptr<SqlConnection> connection() const override {
        return my_connection(parameters_, runtime_);
    }
    bool migrates_at_once() const noexcept override { return false; }

    std::string without_secrets(std::string text) const override {
        hide_secret(text, parameters_.password);
        return text;
    }

    std::vector<std::string> names_to_resolve() const override {
        std::vector<std::string> names;
        if (parameters_.has_name()) names.push_back(parameters_.host);
        return names;
    }

    bool is_reachable(const SqlAddresses& addresses) const override {
        return !parameters_.has_name() || addresses.contains(parameters_.host);
    }

    SqlBatch migration_session() const override {
        SqlBatch batch;
        batch.add(
            "SET NAMES utf8mb4 COLLATE utf8mb4_bin, time_zone = '+00:00', autocommit = 1,"
            " sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'");
        return batch;
    }

    SqlBatch store_session() const override {
        const std::string lock = seconds_of(lock_timeout_);
        const std::string milliseconds = std::to_string(query_timeout_.count());
        const std::string limit = seconds_of(query_timeout_);
        SqlBatch batch = migration_session();
        // READ COMMITTED, so that no locks of gaps cause deadlocks.
        batch.add("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
        // The comments are for one of the two servers each.
        batch.add("SET innodb_lock_wait_timeout = " + lock + ", lock_wait_timeout = " + lock +
                  " /*M!100300 , max_statement_time = " + limit + ", idle_transaction_timeout = " +
                  limit + " */ /*!50708 , max_execution_time = " + milliseconds + " */");
        return batch;
    }

    void begin_read(SqlBatch& batch) const override {
        batch.add("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ");
        batch.add("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY");
    }

    void begin_write(SqlBatch& batch) const override { batch.add("START TRANSACTION"); }

    void begin_migration(SqlBatch& batch, const std::string& name) const override {
        // The lock of a session: each statement of a migration commits. The end of the session releases it.
        batch
            .add("SELECT GET_LOCK(concat($1, '.', md5(DATABASE())), " + seconds_of(query_timeout_) +
                 ")")
            .text(name);
    }

    SqlRemedy remedy(const SqlFailure& failure) const override {
        SqlRemedy remedy;
        for (const Translation& one : translations) {
            if (failure.code() != std::to_string(one.error)) continue;
            remedy.code = one.code;
            remedy.text = one.remedy;
        }
        return remedy;
    }

private:
    const MyParameters parameters_;
    const std::string description_;
    const std::shared_ptr<const Runtime> runtime_;
    const std::chrono::milliseconds lock_timeout_;
    const std::chrono::milliseconds query_timeout_;
};

}  // namespace

std::shared_ptr<const SqlDriver> mysql_driver(const MySQLOptions& options) {
    return std::make_shared<const MyDriver>(options);
}

}  // namespace cubepi::detail

namespace cubepi {

std::string mysql_description(const MySQLOptions& options) {
    return detail::MyParameters(options.connection).description();
}

}  // namespace cubepi
