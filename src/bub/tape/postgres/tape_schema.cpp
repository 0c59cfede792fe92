#include <bub/tape/postgres_tape_schema.hpp>

#include <utility>

#include <bub/tape/postgres/tape_tables.hpp>
#include <cubepi/checkpoint/server/driver.hpp>
#include <cubepi/checkpoint/server/pool.hpp>
#include <cubepi/core/error.hpp>

// The schema of the tables of tapes, and the connections that require it.

namespace bub {

using namespace cubepi::detail;
using cubepi::CheckpointerError;
using cubepi::ErrorCode;

namespace {

using Version = std::optional<int>;

/// Throws CheckpointerError(schema_mismatch) if the tables are newer than this library.
void refuse_newer_tapes(const std::string& where, std::optional<int> version) {
    if (version.value_or(0) <= postgres_tape_version) return;
    throw CheckpointerError(ErrorCode::schema_mismatch,
                            where + ": the tables bub_* are of version " +
                                std::to_string(*version) +
                                ", which is newer than this program knows (" +
                                std::to_string(postgres_tape_version) + "); update the program");
}

/// Returns the statements that create the tables. Names and ids are found by their MD5: an index takes no long text, and no
/// text may contain U+0000.
std::vector<std::string> tape_schema_statements() {
    const std::string tape =
        "tape TEXT COLLATE \"C\" NOT NULL REFERENCES bub_tapes (tape) ON DELETE CASCADE, ";
    return {
        "CREATE TABLE IF NOT EXISTS bub_schema (version INTEGER NOT NULL PRIMARY KEY)",
        "CREATE TABLE IF NOT EXISTS bub_tapes (tape TEXT COLLATE \"C\" NOT NULL PRIMARY KEY,"
        " last_id BIGINT NOT NULL DEFAULT 0, messages BIGINT NOT NULL DEFAULT 0,"
        " info TEXT NOT NULL DEFAULT '{}', state TEXT NOT NULL DEFAULT '{}',"
        " has_requests BOOLEAN NOT NULL DEFAULT false, write_id TEXT,"
        " updated_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT now())",
        "CREATE INDEX IF NOT EXISTS bub_ix_tapes_requests ON bub_tapes (tape) WHERE has_requests",
        "CREATE INDEX IF NOT EXISTS bub_ix_tapes_updated ON bub_tapes (updated_at)",
        "CREATE TABLE IF NOT EXISTS bub_entries (" + tape +
            "id BIGINT NOT NULL, kind TEXT NOT NULL, name_key TEXT, run_key TEXT,"
            " line TEXT NOT NULL, PRIMARY KEY (tape, id))",
        "CREATE INDEX IF NOT EXISTS bub_ix_anchors ON bub_entries (tape, id) WHERE kind = 'anchor'",
        "CREATE INDEX IF NOT EXISTS bub_ix_names ON bub_entries (tape, kind, name_key, id)"
        " WHERE name_key IS NOT NULL",
        "CREATE INDEX IF NOT EXISTS bub_ix_runs ON bub_entries (tape, run_key, id)"
        " WHERE run_key IS NOT NULL",
        "CREATE TABLE IF NOT EXISTS bub_message_ids (" + tape +
            "message_key TEXT NOT NULL, id BIGINT NOT NULL,"
            " PRIMARY KEY (tape, message_key, id))",
        "CREATE TABLE IF NOT EXISTS bub_media (sha256 TEXT NOT NULL PRIMARY KEY,"
        " bytes BYTEA NOT NULL)",
        // Version 2.
        "ALTER TABLE bub_tapes ADD COLUMN IF NOT EXISTS bytes BIGINT NOT NULL DEFAULT 0",
        "UPDATE bub_tapes SET bytes = (SELECT coalesce(sum(octet_length(line) + 1), 0)"
        " FROM bub_entries WHERE bub_entries.tape = bub_tapes.tape)"
        " WHERE bytes = 0 AND last_id > 0",
        "CREATE TABLE IF NOT EXISTS bub_turns (" + tape +
            "turn_key TEXT NOT NULL, owner BIGINT NOT NULL,"
            " started_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT now(),"
            " PRIMARY KEY (tape, turn_key))",
        "CREATE TABLE IF NOT EXISTS bub_turn_lines (tape TEXT COLLATE \"C\" NOT NULL,"
        " turn_key TEXT NOT NULL, seq BIGINT NOT NULL, lines TEXT NOT NULL,"
        " PRIMARY KEY (tape, turn_key, seq), FOREIGN KEY (tape, turn_key)"
        " REFERENCES bub_turns (tape, turn_key) ON DELETE CASCADE)",
        "CREATE TABLE IF NOT EXISTS bub_open (tape TEXT COLLATE \"C\" NOT NULL,"
        " owner BIGINT NOT NULL, mark BIGINT NOT NULL, PRIMARY KEY (tape, owner, mark))",
        "INSERT INTO bub_schema VALUES (2) ON CONFLICT DO NOTHING",
    };
}

std::shared_ptr<SqlPool> schema_pool(const cubepi::PostgresOptions& options) {
    return std::make_shared<SqlPool>(options, std::make_shared<const PgDriver>(options, false));
}

Task<Version> read_version(SqlLease& lease) {
    SqlBatch exists;
    exists.add("SELECT to_regclass('bub_schema') IS NOT NULL");
    const SqlResults found = co_await lease->exchange(std::move(exists));
    if (!found[0].boolean(0, 0)) co_return Version();
    SqlBatch version;
    version.add("SELECT max(version)::bigint FROM bub_schema");
    const SqlResults read = co_await lease->exchange(std::move(version));
    co_return version_of(read[0]);
}

Task<Version> status_of(std::shared_ptr<SqlPool> pool) {
    const std::unique_ptr<SqlLease> lease = co_await pool->acquire();
    co_return co_await read_version(*lease);
}

Task<Version> apply_to(std::shared_ptr<SqlPool> pool) {
    const std::unique_ptr<SqlLease> lease = co_await pool->acquire();
    SqlBatch begin;
    begin.add("BEGIN");
    begin.add("SELECT pg_advisory_xact_lock(hashtext('bub_schema'))");
    (void)co_await (*lease)->exchange(std::move(begin));
    const Version before = co_await read_version(*lease);
    refuse_newer_tapes(pool->driver().description(), before);
    SqlBatch statements;
    for (const std::string& sql : tape_schema_statements()) statements.add(sql);
    statements.add("COMMIT");
    (void)co_await (*lease)->exchange(std::move(statements));
    co_return before;
}

}  // namespace

namespace detail {

PgTapeDriver::PgTapeDriver(const cubepi::PostgresOptions& options, std::int64_t owner)
    : PgDriver(options, false) {
    const std::string limit = std::to_string(options.query_timeout.count());
    set_up_
        .add(
            "SELECT set_config('lock_timeout', $1, false), set_config('statement_timeout', $2, "
            "false), set_config('idle_in_transaction_session_timeout', $2, false),"
            " set_config('jit', 'off', false)")
        .text(std::to_string(options.lock_timeout.count()))
        .text(limit);
    set_up_.add("SELECT max(version)::bigint FROM bub_schema");
    if (owner != 0) set_up_.add("SELECT pg_advisory_lock_shared($1)").integer(owner);
}

void PgTapeDriver::check(const SqlResults& results) const {
    const std::optional<int> version = version_of(results[1]);
    refuse_newer_tapes(description(), version);
    if (version == postgres_tape_version) return;
    const std::string tables = description() + ": the tables of tapes (bub_*) are ";
    if (!version) {
        throw CheckpointerError(ErrorCode::schema_mismatch,
                                tables +
                                    "not complete; create them with 'cubepi db init --tapes', "
                                    "or with apply_postgres_tape_schema()");
    }
    throw CheckpointerError(ErrorCode::schema_mismatch,
                            tables + "of version " + std::to_string(*version) + " and not " +
                                std::to_string(postgres_tape_version) +
                                "; migrate them with 'cubepi db migrate --tapes', or with "
                                "apply_postgres_tape_schema()");
}

SqlRemedy PgTapeDriver::remedy(const SqlFailure& failure) const {
    SqlRemedy remedy = PgDriver::remedy(failure);
    if (remedy.code == ErrorCode::schema_mismatch) {
        remedy.text =
            "the tables of tapes (bub_*) are missing: create them with 'cubepi db init --tapes', "
            "or with apply_postgres_tape_schema(), and check the search_path";
    } else if (remedy.code == ErrorCode::permission_denied && !failure.is_read_only()) {
        remedy.text = "grant the user SELECT, INSERT, UPDATE and DELETE on the tables bub_*";
    }
    return remedy;
}

SqlWriteIds PgTapeDriver::write_ids() const {
    SqlWriteIds ids;
    ids.before = "(SELECT write_id FROM bub_tapes WHERE tape = $1)";
    ids.store = "UPDATE bub_tapes SET write_id = $2, updated_at = now() WHERE tape = $1";
    ids.current = "SELECT write_id FROM bub_tapes WHERE tape = $1";
    return ids;
}

void rethrow_translated(const SqlDriver& driver, const std::exception_ptr& failure,
                        const std::string& tape) {
    if (const SqlFailure* of_server = as_server_failure(failure))
        throw_checkpointer_error(driver, *of_server, tape);
    std::rethrow_exception(failure);
}

}  // namespace detail

std::string postgres_tape_sql() {
    std::string text = "BEGIN;\n";
    for (const std::string& sql : tape_schema_statements()) text += sql + ";\n";
    return text + "COMMIT;\n";
}

Task<Version> postgres_tape_status(cubepi::PostgresOptions options) {
    const auto pool = schema_pool(options);
    return translated(pool, status_of(pool));
}

Task<Version> apply_postgres_tape_schema(cubepi::PostgresOptions options) {
    const auto pool = schema_pool(options);
    return translated(pool, apply_to(pool));
}

}  // namespace bub
