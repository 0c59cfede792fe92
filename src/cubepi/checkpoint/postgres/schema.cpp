#include <cubepi/checkpoint/postgres_schema.hpp>

#include <cstdio>
#include <memory>
#include <utility>

#include <cubepi/checkpoint/postgres_checkpointer.hpp>
#include <cubepi/checkpoint/server/schema.hpp>
#include <cubepi/sql/support/postgres.hpp>

// The tables, their versions, and the sessions that use them. CubePi's tables are column for column the ones that its
// migration helpers create (version 5); each step of a migration can be repeated, since CubePi's own helpers may have made a part of it.

namespace cubepi::detail {

namespace {

using Statements = SqlStatements;

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

SqlStatements schema_statements(const SqlSchemaStatus& from) {
    SqlStatements list;
    if (from.version != sql_schema_version) add_shared(list, from.version.value_or(0));
    if (from.native_version.value_or(0) < sql_native_version) add_native(list);
    return list;
}

class PgThreadSchema final : public ThreadSchema {
public:
    SqlBatch settings(const SqlDriver& driver) const override {
        SqlBatch batch = ThreadSchema::settings(driver);
        // The trigger in `change_trigger` ignores changes by sessions that are a writer of ours. A general plan locks all partitions.
        batch.add(
            "SELECT set_config('cubepi_native.writer', '1', {pooled}),"
            " set_config('plan_cache_mode', 'auto', {pooled})");
        return batch;
    }

    /// CubePi takes the same lock.
    void lock(SqlBatch& batch, const std::vector<std::string>& threads) const override {
        take_advisory_locks(batch, threads);
    }

    SqlRemedy remedy(const SqlFailure& failure, SqlRemedy general) const override {
        if (failure.code() == "42P01") {
            general.text =
                "a table is missing: apply the schema (apply_postgres_schema), and check the "
                "search_path";
        } else if (failure.code() == "42703") {
            general.text = "a column is missing: apply the schema (apply_postgres_schema)";
        } else if (failure.code() == "42501") {
            general.text =
                "grant the user SELECT, INSERT, UPDATE and DELETE on the tables cubepi_*";
        }
        return general;
    }

    void write_extra(SqlBatch& batch, const std::string& thread_id,
                     const ExtraChange& change) const override {
        batch
            .add(
                "INSERT INTO cubepi_threads AS t (thread_id, extra) VALUES ($1, $3)"
                " ON CONFLICT (thread_id) DO UPDATE"
                " SET extra = (t.extra - $2::text[]) || excluded.extra, updated_at = now()")
            .text(thread_id)
            .texts(change.removed)
            .json(server_json_text(change.changed));
    }

    void write_fork_row(SqlBatch& batch, const SqlFork& fork, const JsonObject& added,
                        const JsonObject& /*merged*/) const override {
        batch
            .add(
                "INSERT INTO cubepi_threads (thread_id, parent_thread_id, forked_at_seq, extra)"
                " SELECT $2, thread_id, $3, extra || $4 FROM cubepi_threads WHERE thread_id = $1")
            .text(fork.source)
            .text(fork.target)
            .integer(fork.cutoff)
            .json(server_json_text(added));
    }

    std::string page_sql(const std::string& columns, const std::string& time) const override {
        const std::string key = time + ", thread_id, run_id, question_id";
        return "SELECT " + columns + " FROM cubepi_native_pending WHERE NOT expired AND (" + key +
               ") > ($1, $2, $3, $4) ORDER BY " + key + " LIMIT $5";
    }

    // By thread, so that each lookup visits one of the partitions: a subquery of the grouped messages would visit all of them.
    // Messages are counted by the primary key alone, so that long ones are not read.
    std::string listing_sql() const override {
        return "SELECT t.thread_id, counted.count, (SELECT {epoch created_at} FROM cubepi_messages "
               "AS m"
               " WHERE m.thread_id = t.thread_id AND m.seq = counted.last) AS at"
               " FROM cubepi_threads AS t, LATERAL (SELECT count(*) AS count, max(seq) AS last"
               " FROM cubepi_messages AS m WHERE m.thread_id = t.thread_id) AS counted"
               " WHERE counted.count > 0 OR {filled t.extra} OR t.parent_thread_id IS NOT NULL"
               " ORDER BY at DESC {nulls last}, t.thread_id";
    }

    std::vector<std::string> dependent_tables() const override { return {}; }

protected:
    std::string migration_hint() const override {
        return "migrate them with apply_postgres_schema(), or run the SQL of postgres_schema_sql()";
    }
};

PostgresOptions options_for(std::string connection) {
    PostgresOptions options;
    options.connection = std::move(connection);
    return options;
}

}  // namespace

}  // namespace cubepi::detail

namespace cubepi {

std::string postgres_schema_sql(SqlSchemaStatus from) {
    detail::refuse_newer_tables("the database", from);
    const std::vector<std::string> statements = detail::schema_statements(from);
    if (statements.empty()) return {};
    std::string text = "BEGIN;\n";
    for (const std::string& sql : statements) text += sql + ";\n";
    return text + "COMMIT;\n";
}

Task<SqlSchemaStatus> postgres_schema_status(PostgresOptions options) {
    return detail::thread_schema_status(options, detail::postgres_driver(options));
}

Task<SqlSchemaStatus> apply_postgres_schema(PostgresOptions options) {
    return detail::apply_thread_schema(options, detail::postgres_driver(options),
                                       "cubepi_schema_version", &detail::schema_statements);
}

Task<StoreReport> check_postgres(PostgresOptions options) {
    auto store = std::make_shared<PostgresCheckpointer>(options);
    auto schema = std::make_shared<const detail::PgThreadSchema>();
    auto driver = detail::postgres_driver(options);
    return detail::check_thread_store(std::move(options), std::move(driver), std::move(schema),
                                      std::move(store));
}

PostgresCheckpointer::PostgresCheckpointer(std::string connection)
    : PostgresCheckpointer(detail::options_for(std::move(connection))) {}

PostgresCheckpointer::PostgresCheckpointer(PostgresOptions options)
    : SqlCheckpointer(options, detail::postgres_driver(options),
                      std::make_shared<const detail::PgThreadSchema>()) {}

}  // namespace cubepi
