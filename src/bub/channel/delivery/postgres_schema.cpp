#include <bub/channel/postgres_delivery_schema.hpp>

#include <utility>

#include <bub/channel/delivery/postgres_tables.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/sql/support/migration.hpp>
#include <cubepi/sql/support/postgres.hpp>

// The schema of the tables of deliveries, and the connections that require it.

namespace bub {

using namespace cubepi::detail;
using cubepi::CheckpointerError;
using cubepi::ErrorCode;

namespace {

using Version = std::optional<cubepi::FormatVersion>;

constexpr const char* version_table = "bub_delivery_schema";

void refuse_newer(const std::string& where, Version found) {
    refuse_newer_tables(where, "bub_delivery_*", found, postgres_delivery_version);
}

/// Returns the statements that create the tables. Messages and sessions are found by digests: an index takes no long text, and no
/// text may contain U+0000.
std::vector<std::string> schema_statements() {
    const std::string record =
        "id BIGINT NOT NULL PRIMARY KEY, account TEXT NOT NULL, channel TEXT NOT NULL,"
        " session TEXT COLLATE \"C\" NOT NULL, owner BIGINT NOT NULL, fence BIGINT NOT NULL,"
        " state TEXT NOT NULL, message TEXT, ";
    return {
        "CREATE TABLE IF NOT EXISTS bub_delivery_schema (version INTEGER NOT NULL PRIMARY KEY)",
        "CREATE SEQUENCE IF NOT EXISTS bub_delivery_ids",
        "CREATE TABLE IF NOT EXISTS bub_delivery_gateways (number BIGINT NOT NULL PRIMARY KEY,"
        " account TEXT NOT NULL, host TEXT NOT NULL, boot_id TEXT NOT NULL, pid BIGINT NOT NULL,"
        " process_start BIGINT NOT NULL,"
        " started_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT now(),"
        " lease_until TIMESTAMP WITH TIME ZONE NOT NULL)",
        "CREATE TABLE IF NOT EXISTS bub_delivery_sessions (key TEXT COLLATE \"C\" NOT NULL PRIMARY "
        "KEY, owner BIGINT NOT NULL DEFAULT 0, fence BIGINT NOT NULL DEFAULT 0, write_id TEXT)",
        "CREATE TABLE IF NOT EXISTS bub_delivery_inbound (" + record +
            "message_key TEXT COLLATE \"C\" UNIQUE, address TEXT NOT NULL,"
            " begun BIGINT NOT NULL DEFAULT 0, turn BIGINT NOT NULL DEFAULT 0,"
            " answered BOOLEAN NOT NULL DEFAULT false, planned TEXT,"
            " next_output BIGINT NOT NULL DEFAULT 0, all_sent BOOLEAN NOT NULL DEFAULT false,"
            " received_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT now(),"
            " finished_at TIMESTAMP WITH TIME ZONE)",
        "CREATE INDEX IF NOT EXISTS bub_delivery_ix_open_inbound ON bub_delivery_inbound (session)"
        " WHERE finished_at IS NULL",
        "CREATE INDEX IF NOT EXISTS bub_delivery_ix_finished ON bub_delivery_inbound (finished_at)"
        " WHERE finished_at IS NOT NULL",
        "CREATE TABLE IF NOT EXISTS bub_delivery_outbound (" + record +
            "answers BIGINT[] NOT NULL, resent BIGINT NOT NULL DEFAULT 0, reason TEXT,"
            " intended_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT now(),"
            " settled_at TIMESTAMP WITH TIME ZONE)",
        "CREATE INDEX IF NOT EXISTS bub_delivery_ix_open_outbound ON bub_delivery_outbound "
        "(session) WHERE settled_at IS NULL",
        "CREATE INDEX IF NOT EXISTS bub_delivery_ix_settled ON bub_delivery_outbound (settled_at)"
        " WHERE settled_at IS NOT NULL",
        "INSERT INTO bub_delivery_schema VALUES (1) ON CONFLICT DO NOTHING",
    };
}

Task<Version> only_version(Task<SqlVersions> task) {
    const SqlVersions versions = co_await std::move(task);
    co_return versions.front();
}

}  // namespace

namespace detail {

SqlBatch DeliverySchema::session(const SqlDriver& driver) const {
    SqlBatch batch = driver.store_session();
    batch.add("SELECT set_config('idle_in_transaction_session_timeout', $1, false)")
        .text(std::to_string(lease_.count()));
    select_version(batch, version_table);
    return batch;
}

void DeliverySchema::check(const std::string& where, const SqlResults& results) const {
    const Version version = version_of(results.back());
    refuse_newer(where, version);
    if (is_usable(version, postgres_delivery_version)) return;
    const std::string tables = where + ": the tables of deliveries (bub_delivery_*) are ";
    if (!version) {
        throw CheckpointerError(ErrorCode::schema_mismatch,
                                tables +
                                    "not complete; create them with 'cubepi db init --tapes' "
                                    "('cubepi db migrate --tapes' next to tapes), or with "
                                    "apply_postgres_delivery_schema()");
    }
    throw CheckpointerError(ErrorCode::schema_mismatch,
                            tables + "of version " + std::to_string(version->version) +
                                " and not " + std::to_string(postgres_delivery_version) +
                                "; migrate them with 'cubepi db migrate --tapes', or with "
                                "apply_postgres_delivery_schema()");
}

void DeliverySchema::lock(SqlBatch& batch, const std::vector<std::string>& sessions) const {
    if (sessions.empty()) return;
    batch
        .add(
            "INSERT INTO bub_delivery_sessions (key) SELECT DISTINCT key FROM"
            " unnest($1::text[]) AS key ORDER BY key ON CONFLICT DO NOTHING")
        .texts(sessions);
    batch
        .add(
            "SELECT key FROM bub_delivery_sessions WHERE key = ANY($1::text[]) ORDER BY key"
            " FOR UPDATE")
        .texts(sessions);
}

SqlRemedy DeliverySchema::remedy(const SqlFailure& failure, SqlRemedy remedy) const {
    if (remedy.code == ErrorCode::schema_mismatch) {
        remedy.text =
            "the tables of deliveries (bub_delivery_*) are missing: create them with 'cubepi db "
            "init --tapes' ('cubepi db migrate --tapes' next to tapes), or with "
            "apply_postgres_delivery_schema(), and check the search_path";
    } else if (remedy.code == ErrorCode::permission_denied && !failure.is_read_only()) {
        remedy.text =
            "grant the user SELECT, INSERT, UPDATE and DELETE on the tables bub_delivery_*, and "
            "USAGE on the sequence bub_delivery_ids";
    }
    return remedy;
}

SqlWriteIds DeliverySchema::write_ids() const {
    SqlWriteIds ids;
    ids.before = "(SELECT write_id FROM bub_delivery_sessions WHERE key = $1)";
    ids.store = "UPDATE bub_delivery_sessions SET write_id = $2 WHERE key = $1";
    ids.current = "SELECT write_id FROM bub_delivery_sessions WHERE key = $1";
    return ids;
}

}  // namespace detail

std::string postgres_delivery_sql() {
    std::string text = "BEGIN;\n";
    for (const std::string& sql : schema_statements()) text += sql + ";\n";
    return text + "COMMIT;\n";
}

Task<Version> postgres_delivery_status(cubepi::PostgresOptions options) {
    return only_version(read_versions(options, postgres_driver(options), {version_table}));
}

Task<Version> apply_postgres_delivery_schema(cubepi::PostgresOptions options) {
    const std::shared_ptr<const SqlDriver> driver = postgres_driver(options);
    SqlMigration migration;
    migration.lock = version_table;
    migration.version_tables = {version_table};
    migration.statements = [where = driver->description()](const SqlVersions& found) {
        refuse_newer(where, found.front());
        if (found.front() && found.front()->version > postgres_delivery_version)
            return std::vector<std::string>();
        return schema_statements();
    };
    return only_version(migrate(options, driver, std::move(migration)));
}

}  // namespace bub
