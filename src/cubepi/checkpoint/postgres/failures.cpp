#include <cubepi/checkpoint/postgres/failures.hpp>

#include <string_view>
#include <utility>

#include <cubepi/core/error.hpp>

namespace cubepi::detail {

namespace {

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

ServerCondition condition_of(std::string_view sqlstate) {
    if (sqlstate == "55P03") return ServerCondition::lock_timeout;
    if (sqlstate == "40P01" || sqlstate == "40001") return ServerCondition::conflict;
    // A prepared statement does not exist, or exists already: a pooler has changed the session.
    if (sqlstate == "26000" || sqlstate == "42P05") return ServerCondition::conflict;
    if (sqlstate == "25006") return ServerCondition::read_only;
    // An administrator ends the server, or it has crashed, or it starts.
    if (sqlstate == "57P01" || sqlstate == "57P02" || sqlstate == "57P03")
        return ServerCondition::starting;
    return ServerCondition::other;
}

ServerFailure pg_failure(ServerFailureKind kind, const std::string& reason, std::string sqlstate) {
    const ServerCondition condition = condition_of(sqlstate);
    return ServerFailure(kind, reason, std::move(sqlstate), condition);
}

ServerRemedy pg_remedy(const ServerFailure& failure) {
    ServerRemedy remedy;
    if (const Translation* found = translation_of(failure.code())) {
        remedy.code = found->code;
        remedy.text = found->remedy;
    }
    return remedy;
}

}  // namespace cubepi::detail
