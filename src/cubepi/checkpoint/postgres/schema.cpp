#include <cubepi/checkpoint/postgres/driver.hpp>

#include <cstdio>
#include <utility>

#include <cubepi/checkpoint/server/driver.hpp>
#include <cubepi/checkpoint/server/pool.hpp>

// The tables, their versions, and the sessions that use them. CubePi's tables are column for column the ones that its
// migration helpers create (version 5); each step of a migration can be repeated, since CubePi's own helpers may have made a part of it.

namespace cubepi::detail {

namespace {

using Statements = std::vector<std::string>;

std::shared_ptr<SqlPool> schema_pool(const PostgresOptions& options) {
    return std::make_shared<SqlPool>(options, std::make_shared<const PgDriver>(options, false));
}

/// Reads the versions in the transaction of the caller.
Task<SqlSchemaStatus> read_status(SqlLease& lease) {
    SqlBatch exist;
    exist.add(
        "SELECT to_regclass('cubepi_schema_version') IS NOT NULL,"
        " to_regclass('cubepi_native_schema') IS NOT NULL");
    const SqlResults found = co_await lease->exchange(std::move(exist));
    SqlBatch versions;
    const char* const none = "SELECT NULL::bigint";
    versions.add(found[0].boolean(0, 0) ? "SELECT max(version)::bigint FROM cubepi_schema_version"
                                        : none);
    versions.add(found[0].boolean(0, 1) ? "SELECT max(version)::bigint FROM cubepi_native_schema"
                                        : none);
    const SqlResults read = co_await lease->exchange(std::move(versions));
    SqlSchemaStatus status;
    status.version = version_of(read[0]);
    status.native_version = version_of(read[1]);
    co_return status;
}

Task<SqlSchemaStatus> status_of(std::shared_ptr<SqlPool> pool) {
    const std::unique_ptr<SqlLease> lease = co_await pool->acquire();
    co_return co_await read_status(*lease);
}

Task<SqlSchemaStatus> apply_to(std::shared_ptr<SqlPool> pool) {
    const std::unique_ptr<SqlLease> lease = co_await pool->acquire();
    SqlBatch begin;
    begin.add("BEGIN");
    begin.add("SELECT pg_advisory_xact_lock(hashtext('cubepi_schema_version'))");
    (void)co_await (*lease)->exchange(std::move(begin));
    const SqlSchemaStatus before = co_await read_status(*lease);
    refuse_newer_tables(pool->driver().description(), before);
    SqlBatch statements;
    for (const std::string& sql : postgres_schema_statements(before)) statements.add(sql);
    statements.add("COMMIT");
    (void)co_await (*lease)->exchange(std::move(statements));
    co_return before;
}

constexpr int partitions = 64;

void add_partitions(Statements& list, const std::string& table) {
    for (int i = 0; i < partitions; ++i) {
        char name[8];
        std::snprintf(name, sizeof name, "_p%02d", i);
        list.push_back("CREATE TABLE IF NOT EXISTS " + table + name + " PARTITION OF " + table +
                       " FOR VALUES WITH (modulus " + std::to_string(partitions) + ", remainder " +
                       std::to_string(i) + ")");
    }
}

void add_base(Statements& list) {
    list.emplace_back(
        "CREATE TABLE IF NOT EXISTS cubepi_schema_version (version SERIAL NOT NULL PRIMARY KEY)");
    list.emplace_back(
        "CREATE TABLE IF NOT EXISTS cubepi_threads ("
        "thread_id TEXT NOT NULL PRIMARY KEY,"
        " parent_thread_id TEXT REFERENCES cubepi_threads (thread_id),"
        " forked_at_seq BIGINT,"
        " extra JSONB DEFAULT '{}'::jsonb NOT NULL,"
        " created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,"
        " updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL)");
    list.emplace_back(
        "CREATE TABLE IF NOT EXISTS cubepi_messages ("
        "thread_id TEXT NOT NULL REFERENCES cubepi_threads (thread_id) ON DELETE CASCADE,"
        " seq BIGINT NOT NULL, role TEXT NOT NULL,"
        " metadata JSONB DEFAULT '{}'::jsonb NOT NULL, payload BYTEA NOT NULL,"
        " created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,"
        " PRIMARY KEY (thread_id, seq)) PARTITION BY HASH (thread_id)");
    list.emplace_back(
        "CREATE INDEX IF NOT EXISTS ix_cubepi_messages_metadata_gin ON cubepi_messages"
        " USING gin (metadata jsonb_path_ops)");
    add_partitions(list, "cubepi_messages");
}

void add_pending_request(Statements& list) {
    list.emplace_back(
        "ALTER TABLE cubepi_threads ADD COLUMN IF NOT EXISTS pending_request JSONB DEFAULT NULL");
}

void add_run_id(Statements& list) {
    list.emplace_back(
        "ALTER TABLE cubepi_threads ADD COLUMN IF NOT EXISTS run_id TEXT DEFAULT NULL");
}

/// Older tables may lack them. PostgreSQL adds a constraint that is part of ADD COLUMN also if the column exists.
void add_fork_columns(Statements& list) {
    list.emplace_back("ALTER TABLE cubepi_threads ADD COLUMN IF NOT EXISTS parent_thread_id TEXT");
    list.emplace_back("ALTER TABLE cubepi_threads ADD COLUMN IF NOT EXISTS forked_at_seq BIGINT");
    list.emplace_back(
        "DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_constraint WHERE contype = 'f'"
        " AND conrelid = 'cubepi_threads'::regclass AND confrelid = 'cubepi_threads'::regclass)"
        " THEN ALTER TABLE cubepi_threads ADD FOREIGN KEY (parent_thread_id)"
        " REFERENCES cubepi_threads (thread_id); END IF; END $$");
}

void add_runs(Statements& list) {
    list.emplace_back("ALTER TABLE cubepi_messages ADD COLUMN IF NOT EXISTS run_id TEXT");
    list.emplace_back(
        "CREATE INDEX IF NOT EXISTS ix_cubepi_messages_thread_run"
        " ON cubepi_messages (thread_id, run_id)");
    list.emplace_back(
        "CREATE TABLE IF NOT EXISTS cubepi_runs ("
        "thread_id TEXT NOT NULL REFERENCES cubepi_threads (thread_id) ON DELETE CASCADE,"
        " run_id TEXT NOT NULL, claimed_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,"
        " completed_at TIMESTAMP WITH TIME ZONE, completion_seq BIGINT,"
        " PRIMARY KEY (thread_id, run_id)) PARTITION BY HASH (thread_id)");
    list.emplace_back(
        "CREATE INDEX IF NOT EXISTS ix_cubepi_runs_thread_seq"
        " ON cubepi_runs (thread_id, completion_seq)");
    add_partitions(list, "cubepi_runs");
}

void add_answers(Statements& list) {
    list.emplace_back(
        "CREATE TABLE IF NOT EXISTS cubepi_hitl_answers ("
        "thread_id TEXT NOT NULL REFERENCES cubepi_threads (thread_id) ON DELETE CASCADE,"
        " run_id TEXT NOT NULL, question_id TEXT NOT NULL, answer JSONB NOT NULL,"
        " answered_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,"
        " PRIMARY KEY (thread_id, run_id, question_id))");
}

void add_shared(Statements& list, int from) {
    if (from < 1) add_base(list);
    if (from < 2) add_pending_request(list);
    if (from < 3) add_run_id(list);
    if (from == 1 || from == 2 || from == 3) add_fork_columns(list);
    if (from < 4) add_runs(list);
    if (from < 5) add_answers(list);
    if (from == sql_schema_version) return;
    list.emplace_back("DELETE FROM cubepi_schema_version WHERE version <> 5");
    list.emplace_back(
        "INSERT INTO cubepi_schema_version (version) VALUES (5) ON CONFLICT DO NOTHING");
}

const std::string thread_column =
    "thread_id TEXT NOT NULL REFERENCES cubepi_threads (thread_id) ON DELETE CASCADE";

/// The inbox is ordered by bytes, as the keys of a page are compared.
const std::string inbox_thread_column =
    "thread_id TEXT COLLATE \"C\" NOT NULL REFERENCES cubepi_threads (thread_id) ON DELETE CASCADE";

/// Deletion checks whether the thread has forks; retention selects threads by their age.
constexpr const char* thread_indexes[] = {
    "CREATE INDEX IF NOT EXISTS cubepi_native_ix_threads_parent"
    " ON cubepi_threads (parent_thread_id) WHERE parent_thread_id IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS cubepi_native_ix_threads_updated ON cubepi_threads (updated_at)",
};

// Times in Unix seconds, as in the request; a request without a timeout expires at infinity, so that one index has both.
constexpr const char* inbox_indexes[] = {
    "CREATE INDEX IF NOT EXISTS cubepi_native_ix_pending ON cubepi_native_pending (thread_id, id)",
    "CREATE INDEX IF NOT EXISTS cubepi_native_ix_pending_age ON cubepi_native_pending"
    " (created_at, thread_id, run_id, question_id) WHERE NOT expired",
    "CREATE INDEX IF NOT EXISTS cubepi_native_ix_pending_deadline ON cubepi_native_pending"
    " (expires_at, thread_id, run_id, question_id) WHERE NOT expired",
    "CREATE INDEX IF NOT EXISTS cubepi_native_ix_answers ON cubepi_native_answers (thread_id, id)",
};

/// Notes the threads whose request another program changes. The function runs with the rights and the search_path of its
/// owner, so that the other program needs no right on our tables.
constexpr const char* change_trigger[] = {
    "CREATE OR REPLACE FUNCTION cubepi_native_note_pending() RETURNS trigger LANGUAGE plpgsql"
    " SECURITY DEFINER SET search_path FROM CURRENT AS $$ BEGIN"
    " IF current_setting('cubepi_native.writer', true) IS DISTINCT FROM '1' THEN"
    " INSERT INTO cubepi_native_changed_pending (thread_id) VALUES (NEW.thread_id)"
    " ON CONFLICT DO NOTHING; END IF; RETURN NULL; END $$",
    "DROP TRIGGER IF EXISTS cubepi_native_pending_inserted ON cubepi_threads",
    "CREATE TRIGGER cubepi_native_pending_inserted AFTER INSERT ON cubepi_threads FOR EACH ROW"
    " WHEN (NEW.pending_request IS NOT NULL) EXECUTE FUNCTION cubepi_native_note_pending()",
    "DROP TRIGGER IF EXISTS cubepi_native_pending_updated ON cubepi_threads",
    "CREATE TRIGGER cubepi_native_pending_updated AFTER UPDATE OF pending_request, run_id"
    " ON cubepi_threads FOR EACH ROW WHEN (OLD.pending_request IS DISTINCT FROM"
    " NEW.pending_request OR OLD.run_id IS DISTINCT FROM NEW.run_id)"
    " EXECUTE FUNCTION cubepi_native_note_pending()",
};

void add_native_tables(Statements& list) {
    const std::string create = "CREATE TABLE IF NOT EXISTS cubepi_native_";
    const std::string identity = "id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, ";
    list.push_back(create + "schema (version INTEGER NOT NULL PRIMARY KEY)");
    list.push_back(create + "claims (" + thread_column +
                   ", run_id TEXT NOT NULL, owner_id TEXT NOT NULL, host TEXT NOT NULL,"
                   " boot_id TEXT NOT NULL, pid BIGINT NOT NULL, process_start BIGINT NOT NULL,"
                   " description TEXT NOT NULL, lease_until DOUBLE PRECISION NOT NULL,"
                   " PRIMARY KEY (thread_id, run_id))");
    list.push_back(create + "message_ids (" + thread_column +
                   ", message_id TEXT NOT NULL, seq BIGINT NOT NULL,"
                   " PRIMARY KEY (thread_id, message_id))");
    list.push_back(create + "writes (" + thread_column +
                   ", write_id TEXT NOT NULL, PRIMARY KEY (thread_id))");
    list.push_back(create + "exact (" + thread_column +
                   ", item TEXT NOT NULL, run_id TEXT NOT NULL, question_id TEXT NOT NULL,"
                   " json TEXT NOT NULL, PRIMARY KEY (thread_id, item, run_id, question_id))");
    list.push_back(create + "pending (" + identity + inbox_thread_column +
                   ", run_id TEXT COLLATE \"C\" NOT NULL,"
                   " question_id TEXT COLLATE \"C\" NOT NULL, request_json TEXT NOT NULL,"
                   " approval_digest TEXT, created_at DOUBLE PRECISION NOT NULL,"
                   " expires_at DOUBLE PRECISION NOT NULL,"
                   " expired BOOLEAN DEFAULT false NOT NULL,"
                   " UNIQUE (thread_id, run_id, question_id))");
    list.push_back(create + "changed_pending (" + inbox_thread_column +
                   ", PRIMARY KEY (thread_id))");
    list.push_back(create + "answers (" + identity + thread_column +
                   ", run_id TEXT NOT NULL, question_id TEXT NOT NULL, request_json TEXT NOT NULL,"
                   " answer_json TEXT NOT NULL, answered_at DOUBLE PRECISION NOT NULL,"
                   " user_name TEXT NOT NULL, channel TEXT NOT NULL)");
    list.push_back(create + "started (" + identity + thread_column +
                   ", run_id TEXT NOT NULL, batch_id TEXT NOT NULL, tool_call_id TEXT NOT NULL,"
                   " UNIQUE (thread_id, run_id, tool_call_id))");
    list.push_back(create + "used_answers (" + thread_column +
                   ", run_id TEXT NOT NULL, question_id TEXT NOT NULL, answer_json TEXT NOT NULL,"
                   " PRIMARY KEY (thread_id, run_id, question_id))");
}

void add_native(Statements& list) {
    add_native_tables(list);
    for (const char* sql : thread_indexes) list.emplace_back(sql);
    for (const char* sql : inbox_indexes) list.emplace_back(sql);
    for (const char* sql : change_trigger) list.emplace_back(sql);
    list.emplace_back(
        "INSERT INTO cubepi_native_changed_pending SELECT thread_id FROM cubepi_threads"
        " WHERE pending_request IS NOT NULL ON CONFLICT DO NOTHING");
    list.emplace_back("DELETE FROM cubepi_native_schema WHERE version <> 1");
    list.emplace_back("INSERT INTO cubepi_native_schema VALUES (1) ON CONFLICT DO NOTHING");
}

}  // namespace

SqlBatch session_set_up(const PostgresOptions& options) {
    const std::string limit = std::to_string(options.query_timeout.count());
    SqlBatch batch;
    // The trigger in `change_trigger` ignores changes by sessions that are a writer of ours. Compiling a plan of 64 partitions
    // takes seconds, and one of them is visited.
    batch
        .add(
            "SELECT set_config('lock_timeout', $1, false), set_config('statement_timeout', $2, "
            "false), set_config('idle_in_transaction_session_timeout', $2, false),"
            " set_config('jit', 'off', false), set_config('cubepi_native.writer', '1', false)")
        .text(std::to_string(options.lock_timeout.count()))
        .text(limit);
    batch.add("SELECT max(version)::bigint FROM cubepi_schema_version");
    batch.add("SELECT max(version)::bigint FROM cubepi_native_schema");
    return batch;
}

void check_session(const PgParameters& parameters, const SqlResults& results) {
    SqlSchemaStatus status;
    status.version = version_of(results[1]);
    status.native_version = version_of(results[2]);
    check_tables(parameters.description(), status,
                 "migrate them with apply_postgres_schema(), or run the SQL of "
                 "postgres_schema_sql()");
}

std::vector<std::string> postgres_schema_statements(const SqlSchemaStatus& from) {
    Statements list;
    if (from.version != sql_schema_version) add_shared(list, from.version.value_or(0));
    if (from.native_version != sql_native_version) add_native(list);
    return list;
}

}  // namespace cubepi::detail

namespace cubepi {

std::string postgres_schema_sql(SqlSchemaStatus from) {
    detail::refuse_newer_tables("the database", from);
    const std::vector<std::string> statements = detail::postgres_schema_statements(from);
    if (statements.empty()) return {};
    std::string text = "BEGIN;\n";
    for (const std::string& sql : statements) text += sql + ";\n";
    return text + "COMMIT;\n";
}

Task<SqlSchemaStatus> postgres_schema_status(PostgresOptions options) {
    const auto pool = detail::schema_pool(options);
    return detail::translated(pool, detail::status_of(pool));
}

Task<SqlSchemaStatus> apply_postgres_schema(PostgresOptions options) {
    const auto pool = detail::schema_pool(options);
    return detail::translated(pool, detail::apply_to(pool));
}

}  // namespace cubepi
