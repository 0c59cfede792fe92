#include <bub/tape/postgres_tape_schema.hpp>

#include <utility>

#include <bub/tape/postgres/division.hpp>
#include <bub/tape/postgres/tape_tables.hpp>
#include <cubepi/sql/support/migration.hpp>
#include <cubepi/sql/support/postgres.hpp>

// The schema of the tables of tapes, and the sessions that require it.

namespace bub {

using namespace cubepi::detail;

namespace {

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
        // Version 3, whose table version 2 does not need.
        "CREATE TABLE IF NOT EXISTS bub_owners (number BIGINT NOT NULL PRIMARY KEY,"
        " alive_until TIMESTAMP WITH TIME ZONE NOT NULL)",
        "DELETE FROM bub_schema WHERE version < 2",
        "INSERT INTO bub_schema VALUES (2), (3) ON CONFLICT DO NOTHING",
    };
}

}  // namespace

const cubepi::PostgresTables& postgres_tape_tables() {
    static const cubepi::PostgresTables tables(cubepi::PostgresTables::Description{
        .version_table = "bub_schema",
        .names = "bub_*",
        .content = "tapes",
        .version = 3,
        .create = "'cubepi db init --tapes', or with postgres_tape_tables().apply()",
        .migrate = "'cubepi db migrate --tapes', or with postgres_tape_tables().apply()",
        .grant = "grant the user SELECT, INSERT, UPDATE and DELETE on the tables bub_*",
        .statements = tape_schema_statements(),
    });
    return tables;
}

namespace detail {

SqlBatch TapeSchema::session() const {
    SqlBatch batch;
    // The lock of a session that others share would outlive its owner.
    if (owner_ != 0)
        batch.add("SELECT pg_advisory_lock_shared($1) WHERE NOT {pooled}").integer(owner_);
    if (division_) select_division_if_any(batch);
    select_version(batch, postgres_tape_tables().version_table());
    return batch;
}

void TapeSchema::check(const std::string& where, const SqlResults& results) const {
    PostgresSchema::check(where, results);
    if (division_) check_division(where, *division_, results[results.size() - 2]);
}

void TapeSchema::lock(SqlBatch& batch, const std::vector<std::string>& tapes) const {
    take_advisory_locks(batch, tapes);
}

SqlRemedy TapeSchema::remedy(const SqlFailure& failure, SqlRemedy general) const {
    SqlRemedy remedy = PostgresSchema::remedy(failure, general);
    // The check of a lease divides by zero.
    if (failure.code() == "22012") remedy.code = lease_end_code;
    return remedy;
}

std::shared_ptr<SqlStore> tape_transactions(const cubepi::PostgresOptions& options,
                                            std::int64_t owner,
                                            std::optional<std::string> division) {
    return std::make_shared<SqlStore>(
        options, postgres_driver(options),
        std::make_shared<const TapeSchema>(owner, std::move(division)));
}

}  // namespace detail

}  // namespace bub
