#include <cubepi/checkpoint/mysql/failures.hpp>

#include <string_view>

#include <cubepi/core/error.hpp>

namespace cubepi::detail {

namespace {

struct Translation {
    unsigned error;
    ErrorCode code;
    std::string_view remedy;
};

constexpr std::string_view grant =
    "grant the user SELECT, INSERT, UPDATE and DELETE on the database, and to migrate the tables "
    "CREATE, ALTER, INDEX, DROP and TRIGGER";
constexpr std::string_view apply = "apply the schema (apply_mysql_schema)";
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

ServerCondition condition_of(unsigned error) {
    switch (error) {
        case 1205: return ServerCondition::lock_timeout;
        case 1213:
        case 1020: return ServerCondition::conflict;
        case 1290:
        case 1792:
        case 1836: return ServerCondition::read_only;
        case 1053: return ServerCondition::starting;
        default: return ServerCondition::other;
    }
}

}  // namespace

ServerFailure my_failure(ServerFailureKind kind, const std::string& reason, unsigned error) {
    // Errors of the client library are reasons in themselves.
    const bool is_of_server = error < 2000 || error >= 3000;
    return ServerFailure(kind, reason, is_of_server ? std::to_string(error) : "",
                         condition_of(error));
}

ServerRemedy my_remedy(const ServerFailure& failure) {
    ServerRemedy remedy;
    for (const Translation& one : translations) {
        if (failure.code() != std::to_string(one.error)) continue;
        remedy.code = one.code;
        remedy.text = one.remedy;
    }
    return remedy;
}

}  // namespace cubepi::detail
