#include <cubepi/checkpoint/postgres/failure.hpp>

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

constexpr std::string_view not_stored = "; nothing was stored";

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

ErrorCode connect_code(const PgFailure& failure) {
    const std::string_view reason = failure.what();
    const bool is_tls = reason.find("SSL") != std::string_view::npos ||
                        reason.find("certificate") != std::string_view::npos;
    return is_tls ? ErrorCode::tls : ErrorCode::connect;
}

std::string start_of(const PgParameters& parameters, const PgFailure& failure) {
    const bool connecting = failure.kind() == PgFailureKind::connect;
    return (connecting ? "cannot connect to " : "") + parameters.description() + ": " +
           failure.what();
}

[[noreturn]] void throw_server_error(const PgParameters& parameters, const PgFailure& failure,
                                     const std::string& thread_id) {
    const std::string start = start_of(parameters, failure);
    const bool is_write = failure.kind() == PgFailureKind::server;
    const std::string nothing(is_write ? not_stored : "");
    if (failure.sqlstate() == "55P03") {
        throw CheckpointerLockTimeoutError(
            ErrorCode::storage_locked,
            parameters.without_secrets(start + "; another transaction uses the thread" + nothing +
                                       "; try again later, or raise lock_timeout"),
            thread_id);
    }
    const Translation* found = translation_of(failure.sqlstate());
    const ErrorCode code = found ? found->code : ErrorCode::storage;
    const std::string remedy(found ? found->remedy : "see the log of the server");
    const std::string state =
        failure.sqlstate().empty() ? "" : " (SQLSTATE " + failure.sqlstate() + ")";
    throw CheckpointerError(
        code, parameters.without_secrets(start + state + nothing + "; " + remedy), thread_id);
}

}  // namespace

bool PgFailure::leaves_commit_unknown() const noexcept {
    return kind_ == PgFailureKind::lost || kind_ == PgFailureKind::timeout;
}

bool PgFailure::is_transient() const noexcept {
    return kind_ == PgFailureKind::lost || sqlstate_ == "40P01" || sqlstate_ == "40001" ||
           is_starting();
}

const PgFailure* as_pg_failure(const std::exception_ptr& exception) {
    if (!exception) return nullptr;
    try {
        std::rethrow_exception(exception);
    } catch (const PgFailure& failure) {
        return &failure;
    } catch (...) {
        return nullptr;
    }
}

namespace {

const char* kind_name(PgFailureKind kind) noexcept {
    switch (kind) {
        case PgFailureKind::connect: return "connect";
        case PgFailureKind::dns: return "dns";
        case PgFailureKind::lost: return "disconnected";
        case PgFailureKind::timeout: return "timeout";
        case PgFailureKind::server: break;
    }
    return "server";
}

}  // namespace

void log_failure(const Logger& log, const PgFailure& failure, bool repeated) noexcept {
    // A lock timeout, or a transaction that others got in the way of.
    const bool busy = failure.sqlstate() == "55P03" || failure.sqlstate().starts_with("40");
    const LogLevel level = busy || repeated ? LogLevel::warning : LogLevel::error;
    log.write(level, busy ? "store.busy" : "store.failed",
              {{"store", "postgres"},
               {"error", kind_name(failure.kind())},
               {"sqlstate", failure.sqlstate()},
               {"repeated", repeated}});
}

void throw_checkpointer_error(const PgParameters& parameters, const PgFailure& failure,
                              const std::string& thread_id) {
    const std::string start = start_of(parameters, failure);
    switch (failure.kind()) {
        case PgFailureKind::dns:
            throw CheckpointerError(
                ErrorCode::dns,
                parameters.without_secrets(start + "; check the host of the connection"),
                thread_id);
        case PgFailureKind::connect:
            if (!failure.sqlstate().empty()) break;
            throw CheckpointerError(connect_code(failure),
                                    parameters.without_secrets(
                                        start + "; check host and port, and that the server runs"),
                                    thread_id);
        case PgFailureKind::lost:
            throw CheckpointerError(
                ErrorCode::disconnected,
                parameters.without_secrets(start + std::string(not_stored) + "; try again"),
                thread_id);
        case PgFailureKind::timeout:
            throw CheckpointerError(ErrorCode::timeout,
                                    parameters.without_secrets(start + std::string(not_stored) +
                                                               "; try again, or raise the limit"),
                                    thread_id);
        case PgFailureKind::server: break;
    }
    throw_server_error(parameters, failure, thread_id);
}

void throw_unknown_fate(const PgParameters& parameters, const std::string& thread_id,
                        const std::string& reason) {
    throw CheckpointerError(
        ErrorCode::disconnected,
        parameters.without_secrets(
            parameters.description() + ": the connection broke while a write was committed (" +
            reason + "); whether it was stored is unknown; load the thread again to find out"),
        thread_id);
}

}  // namespace cubepi::detail
