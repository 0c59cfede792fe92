#include <bub/channel/postgres_delivery_schema.hpp>

#include <utility>

#include <bub/channel/delivery/postgres_tables.hpp>
#include <bub/tape/postgres/division.hpp>
#include <cubepi/sql/support/migration.hpp>
#include <cubepi/sql/support/postgres.hpp>

// The schema of the tables of deliveries, and the connections that require it.

namespace bub {

using namespace cubepi::detail;

namespace {

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
        // Version 2, whose tables version 1 does not need.
        "CREATE TABLE IF NOT EXISTS bub_delivery_leases (account TEXT NOT NULL, name TEXT NOT NULL,"
        " holder TEXT NOT NULL, host TEXT NOT NULL, boot_id TEXT NOT NULL, pid BIGINT NOT NULL,"
        " process_start BIGINT NOT NULL, lease_until TIMESTAMP WITH TIME ZONE NOT NULL,"
        " PRIMARY KEY (account, name))",
        "ALTER TABLE bub_delivery_gateways ADD COLUMN IF NOT EXISTS facts TEXT",
        "CREATE TABLE IF NOT EXISTS bub_delivery_calls (id BIGINT NOT NULL PRIMARY KEY,"
        " gateway BIGINT NOT NULL, request TEXT NOT NULL,"
        " expires_at TIMESTAMP WITH TIME ZONE NOT NULL, begun BOOLEAN NOT NULL DEFAULT false,"
        " result TEXT)",
        "CREATE INDEX IF NOT EXISTS bub_delivery_ix_calls ON bub_delivery_calls (gateway)",
        // Version 3, whose table earlier ones do not need.
        "CREATE TABLE IF NOT EXISTS bub_delivery_division (id INTEGER NOT NULL PRIMARY KEY CHECK"
        " (id = 1), record TEXT NOT NULL)",
        // The gateways whose turns have begun and have no recorded end. They are counted in begun, as those of earlier programs.
        "ALTER TABLE bub_delivery_inbound ADD COLUMN IF NOT EXISTS begun_by BIGINT[] NOT NULL"
        " DEFAULT '{}'",
        // Earlier programs do not compare the division.
        "INSERT INTO bub_delivery_schema SELECT v FROM (VALUES (1), (2), (3)) AS versions (v) WHERE"
        " v = 3 OR NOT EXISTS (SELECT 1 FROM bub_delivery_division WHERE record <> '') ON CONFLICT"
        " DO NOTHING",
    };
}

}  // namespace

const cubepi::PostgresTables& postgres_delivery_tables() {
    static const cubepi::PostgresTables tables(cubepi::PostgresTables::Description{
        .version_table = "bub_delivery_schema",
        .names = "bub_delivery_*",
        .content = "deliveries",
        .version = 3,
        .create = "'cubepi db init --tapes' ('cubepi db migrate --tapes' next to tapes), or with "
                  "postgres_delivery_tables().apply()",
        .migrate = "'cubepi db migrate --tapes', or with postgres_delivery_tables().apply()",
        .grant =
            "grant the user SELECT, INSERT, UPDATE and DELETE on the tables bub_delivery_*, and "
            "USAGE on the sequence bub_delivery_ids",
        .statements = schema_statements(),
    });
    return tables;
}

namespace detail {

SqlBatch DeliverySchema::settings(const SqlDriver& driver) const {
    SqlBatch batch = driver.store_session();
    // A gateway that is frozen or separated in a transaction, in which it locks sessions, loses it before others give up waiting for
    // the locks: one that does fails all calls that it writes together with them.
    batch.add("SELECT set_config('idle_in_transaction_session_timeout', $1, {pooled})")
        .text(std::to_string(lease_.count() / 5));
    return batch;
}

SqlBatch DeliverySchema::session() const {
    SqlBatch batch;
    if (division_) select_division(batch);
    select_version(batch, postgres_delivery_tables().version_table());
    return batch;
}

void DeliverySchema::check(const std::string& where, const SqlResults& results) const {
    PostgresSchema::check(where, results);
    if (division_) check_division(where, *division_, results[results.size() - 2]);
}

std::shared_ptr<SqlStore> undivided_store(const cubepi::PostgresOptions& options) {
    return std::make_shared<SqlStore>(
        options, postgres_driver(options),
        std::make_shared<const DeliverySchema>(PostgresDeliveryLogOptions().lease, std::nullopt));
}

}  // namespace detail

Task<DivisionState> read_division(cubepi::PostgresOptions options) {
    const std::shared_ptr<SqlStore> store = detail::undivided_store(options);
    SqlBatch reads;
    detail::select_division(reads);
    reads.add("SELECT count(*) FROM bub_delivery_gateways WHERE lease_until > clock_timestamp()");
    reads.add(
        "SELECT (SELECT count(*) FROM bub_delivery_inbound WHERE finished_at IS NULL) + (SELECT"
        " count(*) FROM bub_delivery_outbound WHERE settled_at IS NULL)");
    const SqlResults results = co_await store->read(std::move(reads));
    DivisionState state;
    if (!results[0].is_null(0, 0)) state.record = results[0].string(0, 0);
    state.gateways = static_cast<std::size_t>(results[1].integer(0, 0));
    state.unfinished = static_cast<std::size_t>(results[2].integer(0, 0));
    SqlBatch tables;
    tables.add("SELECT to_regclass('bub_schedules') IS NOT NULL");
    const SqlResults found = co_await store->read(std::move(tables));
    if (!found[0].boolean(0, 0)) co_return state;
    SqlBatch count;
    // The configured ones are made again.
    count.add("SELECT count(*) FROM bub_schedules WHERE configured = 0");
    const SqlResults counted = co_await store->read(std::move(count));
    state.schedules = static_cast<std::size_t>(counted[0].integer(0, 0));
    co_return state;
}

Task<> record_division(cubepi::PostgresOptions options, std::string record) {
    SqlPlan plan;
    take_advisory_locks(plan.reads, {detail::division_lock});
    auto decide = [record = std::move(record)](const SqlView&, SqlBatch& writes) {
        // Earlier programs do not compare it.
        if (!record.empty()) writes.add("DELETE FROM bub_delivery_schema WHERE version < 3");
        writes
            .add(
                "INSERT INTO bub_delivery_division VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET"
                " record = excluded.record")
            .text(record);
    };
    return server_write(detail::undivided_store(options), std::move(plan), std::move(decide));
}

}  // namespace bub
