#include <bub/tape/postgres/tape_driver.hpp>

#include <bub/tape/postgres_tape_schema.hpp>
#include <cubepi/checkpoint/server/driver.hpp>
#include <cubepi/core/error.hpp>

namespace bub::detail {

using cubepi::CheckpointerError;
using cubepi::ErrorCode;

namespace {

constexpr const char* create_tables =
    "create them with 'cubepi db init --tapes', or with apply_postgres_tape_schema()";

}  // namespace

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

void PgTapeDriver::check(const cubepi::detail::SqlResults& results) const {
    const std::optional<int> version = cubepi::detail::version_of(results[1]);
    refuse_newer_tapes(description(), version);
    if (version == postgres_tape_version) return;
    if (version) {
        throw CheckpointerError(ErrorCode::schema_mismatch,
                                description() + ": the tables of tapes (bub_*) are of version " +
                                    std::to_string(*version) + " and not " +
                                    std::to_string(postgres_tape_version) +
                                    "; migrate them with 'cubepi db migrate --tapes', or with "
                                    "apply_postgres_tape_schema()");
    }
    throw CheckpointerError(ErrorCode::schema_mismatch, description() +
                                                            ": the tables of tapes (bub_*) are not "
                                                            "complete; " +
                                                            create_tables);
}

cubepi::detail::SqlRemedy PgTapeDriver::remedy(const cubepi::detail::SqlFailure& failure) const {
    cubepi::detail::SqlRemedy remedy = PgDriver::remedy(failure);
    if (remedy.code == ErrorCode::schema_mismatch) {
        remedy.text =
            "the tables of tapes (bub_*) are missing: create them with 'cubepi db init --tapes', "
            "or with apply_postgres_tape_schema(), and check the search_path";
    } else if (remedy.code == ErrorCode::permission_denied && !failure.is_read_only()) {
        remedy.text = "grant the user SELECT, INSERT, UPDATE and DELETE on the tables bub_*";
    }
    return remedy;
}

cubepi::detail::SqlWriteIds PgTapeDriver::write_ids() const {
    cubepi::detail::SqlWriteIds ids;
    ids.before = "(SELECT write_id FROM bub_tapes WHERE tape = $1)";
    ids.store = "UPDATE bub_tapes SET write_id = $2, updated_at = now() WHERE tape = $1";
    ids.current = "SELECT write_id FROM bub_tapes WHERE tape = $1";
    return ids;
}

void rethrow_translated(const cubepi::detail::SqlDriver& driver, const std::exception_ptr& failure,
                        const std::string& tape) {
    if (const cubepi::detail::SqlFailure* of_server = cubepi::detail::as_server_failure(failure))
        cubepi::detail::throw_checkpointer_error(driver, *of_server, tape);
    std::rethrow_exception(failure);
}

void refuse_newer_tapes(const std::string& where, std::optional<int> version) {
    if (version.value_or(0) <= postgres_tape_version) return;
    throw CheckpointerError(ErrorCode::schema_mismatch,
                            where + ": the tables bub_* are of version " +
                                std::to_string(*version) +
                                ", which is newer than this program knows (" +
                                std::to_string(postgres_tape_version) + "); update the program");
}

// Names and ids are found by their MD5: an index takes no long text, and no text may contain U+0000.
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

}  // namespace bub::detail
