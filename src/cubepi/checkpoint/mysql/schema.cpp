#include <cubepi/checkpoint/mysql_schema.hpp>

#include <algorithm>
#include <memory>
#include <utility>

#include <cubepi/checkpoint/mysql_checkpointer.hpp>
#include <cubepi/checkpoint/server/schema.hpp>
#include <cubepi/sql/support/mysql.hpp>

// The tables, their versions, and the sessions that use them. CubePi's tables are column for column the ones that its
// migration helpers create (version 5), except that ids compare bytes. Each statement commits and can be repeated; the versions are written last. MySQL has no "IF NOT EXISTS" for columns and indexes: a prepared
// statement takes its place.

namespace cubepi::detail {

namespace {

using Statements = SqlStatements;

/// Executes the SQL unless `exists` selects a number above 0.
void add_unless(Statements& list, const std::string& exists, const std::string& sql) {
    list.push_back("SET @cubepi_sql = IF((" + exists + ") > 0, 'DO 0', '" + sql + "')");
    list.emplace_back("PREPARE cubepi_statement FROM @cubepi_sql");
    list.emplace_back("EXECUTE cubepi_statement");
    list.emplace_back("DEALLOCATE PREPARE cubepi_statement");
}

std::string count_in(const std::string& view, const std::string& table) {
    return "SELECT count(*) FROM information_schema." + view +
           " WHERE table_schema = DATABASE() AND table_name = '" + table + "'";
}

void add_column(Statements& list, const std::string& table, const std::string& name,
                const std::string& type) {
    add_unless(list, count_in("columns", table) + " AND column_name = '" + name + "'",
               "ALTER TABLE " + table + " ADD COLUMN " + name + " " + type);
}

void add_index(Statements& list, const std::string& table, const std::string& name,
               const std::string& columns) {
    add_unless(list, count_in("statistics", table) + " AND index_name = '" + name + "'",
               "CREATE INDEX " + name + " ON " + table + " (" + columns + ")");
}

const std::string id_type = "VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin";
const std::string shared_thread = "thread_id VARCHAR(255) COLLATE utf8mb4_bin NOT NULL";

void add_base(Statements& list) {
    list.emplace_back(
        "CREATE TABLE IF NOT EXISTS cubepi_schema_version (version INTEGER NOT NULL AUTO_INCREMENT,"
        " PRIMARY KEY (version)) ENGINE=InnoDB");
    list.emplace_back(
        "CREATE TABLE IF NOT EXISTS cubepi_threads (" + shared_thread +
        ", parent_thread_id VARCHAR(255) COLLATE utf8mb4_bin, forked_at_seq BIGINT,"
        " extra JSON NOT NULL DEFAULT (JSON_OBJECT()), pending_request JSON, run_id " +
        id_type +
        ","
        " created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,"
        " updated_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,"
        " PRIMARY KEY (thread_id),"
        " FOREIGN KEY (parent_thread_id) REFERENCES cubepi_threads (thread_id)) ENGINE=InnoDB");
    list.emplace_back("CREATE TABLE IF NOT EXISTS cubepi_messages (" + shared_thread +
                      ", seq BIGINT NOT NULL, role VARCHAR(32) NOT NULL,"
                      " metadata JSON NOT NULL DEFAULT (JSON_OBJECT()), payload LONGBLOB NOT NULL,"
                      " run_id " +
                      id_type +
                      ","
                      " created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,"
                      " PRIMARY KEY (thread_id, seq)) ENGINE=InnoDB"
                      " PARTITION BY KEY (thread_id) PARTITIONS 64");
}

/// Tables of version 1 to 3 may lack them.
void add_fork_columns(Statements& list) {
    add_column(list, "cubepi_threads", "parent_thread_id", "VARCHAR(255) COLLATE utf8mb4_bin");
    add_column(list, "cubepi_threads", "forked_at_seq", "BIGINT");
    add_unless(
        list,
        count_in("table_constraints", "cubepi_threads") + " AND constraint_type = 'FOREIGN KEY'",
        "ALTER TABLE cubepi_threads ADD FOREIGN KEY (parent_thread_id)"
        " REFERENCES cubepi_threads (thread_id)");
}

void add_runs(Statements& list) {
    add_column(list, "cubepi_messages", "run_id", id_type);
    add_index(list, "cubepi_messages", "ix_cubepi_messages_thread_run", "thread_id, run_id");
    list.emplace_back("CREATE TABLE IF NOT EXISTS cubepi_runs (" + shared_thread + ", run_id " +
                      id_type +
                      " NOT NULL,"
                      " claimed_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,"
                      " completed_at TIMESTAMP NULL, completion_seq BIGINT,"
                      " PRIMARY KEY (thread_id, run_id)) ENGINE=InnoDB"
                      " PARTITION BY KEY (thread_id) PARTITIONS 64");
    add_index(list, "cubepi_runs", "ix_cubepi_runs_thread_seq", "thread_id, completion_seq");
}

void add_answers(Statements& list) {
    list.emplace_back("CREATE TABLE IF NOT EXISTS cubepi_hitl_answers (" + shared_thread +
                      ", run_id " + id_type + " NOT NULL, question_id " + id_type +
                      " NOT NULL,"
                      " answer JSON NOT NULL,"
                      " answered_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,"
                      " PRIMARY KEY (thread_id, run_id, question_id)) ENGINE=InnoDB");
}

void add_shared(Statements& list, int from) {
    if (from < 1) add_base(list);
    if (from < 2) add_column(list, "cubepi_threads", "pending_request", "JSON");
    if (from < 3) add_column(list, "cubepi_threads", "run_id", id_type);
    if (from < 4) add_fork_columns(list);
    if (from < 4) add_runs(list);
    if (from < 5) add_answers(list);
    list.emplace_back("DELETE FROM cubepi_schema_version WHERE version <> 5");
    list.emplace_back("INSERT IGNORE INTO cubepi_schema_version (version) VALUES (5)");
}

const std::string text_type = "LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin";

std::string id(const char* name) { return std::string(name) + " " + id_type + " NOT NULL"; }
std::string text(const char* name) { return std::string(name) + " " + text_type + " NOT NULL"; }

/// Ids compare bytes, also in CubePi's columns, whose collation would not distinguish 'a' and 'A'; all may have 255 characters.
void widen_shared(Statements& list) {
    list.push_back("ALTER TABLE cubepi_threads MODIFY run_id " + id_type);
    list.push_back("ALTER TABLE cubepi_messages MODIFY run_id " + id_type);
    list.push_back("ALTER TABLE cubepi_runs MODIFY run_id " + id_type + " NOT NULL");
    list.push_back("ALTER TABLE cubepi_hitl_answers MODIFY run_id " + id_type +
                   " NOT NULL, MODIFY question_id " + id_type + " NOT NULL");
}

void create(Statements& list, const std::string& name, const std::string& columns) {
    list.push_back("CREATE TABLE IF NOT EXISTS cubepi_native_" + name + " (" + columns +
                   ") ENGINE=InnoDB");
}

void add_native_tables(Statements& list) {
    const std::string thread = id("thread_id") + ", ";
    const std::string run = id("run_id") + ", ";
    const std::string question = id("question_id") + ", ";
    const std::string number = "id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, ";
    create(list, "schema", "version INTEGER NOT NULL PRIMARY KEY");
    create(list, "claims",
           thread + run + text("owner_id") + ", " + text("host") + ", " + text("boot_id") +
               ", pid BIGINT NOT NULL, process_start BIGINT NOT NULL, " + text("description") +
               ", lease_until DOUBLE NOT NULL, PRIMARY KEY (thread_id, run_id)");
    create(
        list, "message_ids",
        thread + id("message_id") + ", seq BIGINT NOT NULL, PRIMARY KEY (thread_id, message_id)");
    create(list, "writes", thread + id("write_id") + ", PRIMARY KEY (thread_id)");
    // A key has at most 3072 bytes.
    create(list, "exact",
           thread + "item VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, " + run +
               question + text("json") + ", PRIMARY KEY (thread_id, item, run_id, question_id)");
    // There are no partial indexes: the column `expired` is the first one.
    create(list, "pending",
           number + thread + run + question + text("request_json") + ", approval_digest " +
               text_type +
               ", created_at DOUBLE NOT NULL, expires_at DOUBLE NOT NULL,"
               " expired BOOLEAN NOT NULL DEFAULT false,"
               " UNIQUE (thread_id, run_id, question_id),"
               " KEY cubepi_native_ix_pending (thread_id, id), KEY cubepi_native_ix_pending_age"
               " (expired, created_at, thread_id, run_id, question_id),"
               " KEY cubepi_native_ix_pending_deadline"
               " (expired, expires_at, thread_id, run_id, question_id)");
    create(list, "changed_pending", thread + "PRIMARY KEY (thread_id)");
    create(list, "answers",
           number + thread + run + question + text("request_json") + ", " + text("answer_json") +
               ", answered_at DOUBLE NOT NULL, " + text("user_name") + ", " + text("channel") +
               ", KEY cubepi_native_ix_answers (thread_id, id)");
    create(list, "started",
           number + thread + run + text("batch_id") + ", " + id("tool_call_id") +
               ", UNIQUE (thread_id, run_id, tool_call_id)");
    create(list, "used_answers",
           thread + run + question + text("answer_json") +
               ", PRIMARY KEY (thread_id, run_id, question_id)");
}

/// Notes the threads whose request another program changes. The triggers run with the rights of their definer, so that the
/// other program needs no right on our tables.
void add_triggers(Statements& list) {
    const std::string note =
        " ON cubepi_threads FOR EACH ROW INSERT IGNORE INTO cubepi_native_changed_pending"
        " SELECT NEW.thread_id FROM DUAL WHERE @cubepi_native_writer IS NULL AND ";
    list.emplace_back("DROP TRIGGER IF EXISTS cubepi_native_pending_inserted");
    list.push_back("CREATE TRIGGER cubepi_native_pending_inserted AFTER INSERT" + note +
                   "NEW.pending_request IS NOT NULL");
    list.emplace_back("DROP TRIGGER IF EXISTS cubepi_native_pending_updated");
    list.push_back("CREATE TRIGGER cubepi_native_pending_updated AFTER UPDATE" + note +
                   "NOT (OLD.pending_request <=> NEW.pending_request"
                   " AND OLD.run_id <=> NEW.run_id)");
}

void add_native(Statements& list) {
    widen_shared(list);
    add_native_tables(list);
    add_index(list, "cubepi_threads", "cubepi_native_ix_threads_updated", "updated_at");
    add_triggers(list);
    list.emplace_back(
        "INSERT IGNORE INTO cubepi_native_changed_pending SELECT thread_id FROM cubepi_threads"
        " WHERE pending_request IS NOT NULL");
    list.emplace_back("DELETE FROM cubepi_native_schema WHERE version <> 1");
    list.emplace_back("INSERT IGNORE INTO cubepi_native_schema VALUES (1)");
}

SqlStatements schema_statements(const SqlSchemaStatus& from) {
    SqlStatements list;
    if (from.version != sql_schema_version) add_shared(list, from.version.value_or(0));
    if (from.native_version.value_or(0) < sql_native_version) add_native(list);
    return list;
}

class MyThreadSchema final : public ThreadSchema {
public:
    SqlBatch settings(const SqlDriver& driver) const override {
        SqlBatch batch = ThreadSchema::settings(driver);
        // The triggers of add_triggers() ignore changes by sessions that are a writer of ours.
        batch.add("SET @cubepi_native_writer = 1");
        return batch;
    }

    /// The row of the thread in our table is locked first: it can be inserted when the thread does not exist. CubePi locks
    /// the row of the thread.
    void lock(SqlBatch& batch, const std::vector<std::string>& threads) const override {
        std::vector<std::string> sorted = threads;
        std::sort(sorted.begin(), sorted.end());
        sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
        for (const std::string& thread_id : sorted) {
            batch
                .add(
                    "INSERT INTO cubepi_native_writes (thread_id, write_id) VALUES ($1, '')"
                    " ON DUPLICATE KEY UPDATE write_id = write_id")
                .text(thread_id);
            batch.add("SELECT 1 FROM cubepi_threads WHERE thread_id = $1 FOR UPDATE")
                .text(thread_id);
        }
    }

    void end_write(SqlBatch& batch, const std::vector<std::string>& threads) const override {
        // Of threads that do not exist after all, or that are only read.
        for (const std::string& thread_id : threads) {
            batch.add("DELETE FROM cubepi_native_writes WHERE thread_id = $1 AND write_id = ''")
                .text(thread_id);
        }
    }

    SqlRemedy remedy(const SqlFailure& /*failure*/, SqlRemedy general) const override {
        if (general.code == ErrorCode::schema_mismatch)
            general.text = "apply the schema (apply_mysql_schema)";
        return general;
    }

    void write_extra(SqlBatch& batch, const std::string& thread_id,
                     const ExtraChange& change) const override {
        batch
            .add(
                "INSERT INTO cubepi_threads (thread_id, extra) VALUES ($1, $2)"
                " {replace thread_id: extra}, updated_at = now()")
            .text(thread_id)
            .json(server_json_text(change.merged));
    }

    void write_fork_row(SqlBatch& batch, const SqlFork& fork, const JsonObject& added,
                        const JsonObject& merged) const override {
        if (added.empty()) {
            batch
                .add(
                    "INSERT INTO cubepi_threads (thread_id, parent_thread_id, forked_at_seq, extra)"
                    " SELECT $2, thread_id, $3, extra FROM cubepi_threads WHERE thread_id = $1")
                .text(fork.source)
                .text(fork.target)
                .integer(fork.cutoff);
            return;
        }
        batch
            .add(
                "INSERT INTO cubepi_threads (thread_id, parent_thread_id, forked_at_seq, extra)"
                " VALUES ($2, $1, $3, $4)")
            .text(fork.source)
            .text(fork.target)
            .integer(fork.cutoff)
            .json(server_json_text(merged));
    }

    // Both servers use an index for the first comparison only if it is not one of rows.
    std::string page_sql(const std::string& columns, const std::string& time) const override {
        const std::string key = time + ", thread_id, run_id, question_id";
        return "SELECT " + columns + " FROM cubepi_native_pending WHERE expired = false AND " +
               time + " >= $1 AND (" + key + ") > ($1, $2, $3, $4) ORDER BY " + key + " LIMIT $5";
    }

    // By thread: each lookup reads the index of one partition.
    std::string listing_sql() const override {
        return "SELECT thread_id, count, at FROM (SELECT t.thread_id, t.extra, t.parent_thread_id,"
               " (SELECT count(*) FROM cubepi_messages AS m WHERE m.thread_id = t.thread_id) AS "
               "count,"
               " (SELECT {epoch created_at} FROM cubepi_messages AS m"
               " WHERE m.thread_id = t.thread_id ORDER BY seq DESC LIMIT 1) AS at"
               " FROM cubepi_threads AS t) AS listed"
               " WHERE count > 0 OR {filled extra} OR parent_thread_id IS NOT NULL"
               " ORDER BY at DESC {nulls last}, thread_id";
    }

    std::vector<std::string> dependent_tables() const override {
        std::vector<std::string> tables = {"cubepi_messages", "cubepi_runs", "cubepi_hitl_answers"};
        for (const char* name : {"claims", "message_ids", "writes", "exact", "pending",
                                 "changed_pending", "answers", "started", "used_answers"})
            tables.push_back(std::string("cubepi_native_") + name);
        return tables;
    }

protected:
    std::string migration_hint() const override {
        return "migrate them with apply_mysql_schema(), or run the SQL of mysql_schema_sql()";
    }
};

MySQLOptions options_for(std::string connection) {
    MySQLOptions options;
    options.connection = std::move(connection);
    return options;
}

}  // namespace

}  // namespace cubepi::detail

namespace cubepi {

std::string mysql_schema_sql(SqlSchemaStatus from) {
    detail::refuse_newer_tables("the database", from);
    std::string text;
    for (const std::string& sql : detail::schema_statements(from)) text += sql + ";\n";
    return text;
}

Task<SqlSchemaStatus> mysql_schema_status(MySQLOptions options) {
    return detail::thread_schema_status(options, detail::mysql_driver(options));
}

Task<SqlSchemaStatus> apply_mysql_schema(MySQLOptions options) {
    return detail::apply_thread_schema(options, detail::mysql_driver(options), "cubepi",
                                       &detail::schema_statements);
}

Task<StoreReport> check_mysql(MySQLOptions options) {
    auto store = std::make_shared<MySQLCheckpointer>(options);
    auto schema = std::make_shared<const detail::MyThreadSchema>();
    auto driver = detail::mysql_driver(options);
    return detail::check_thread_store(std::move(options), std::move(driver), std::move(schema),
                                      std::move(store));
}

MySQLCheckpointer::MySQLCheckpointer(std::string connection)
    : MySQLCheckpointer(detail::options_for(std::move(connection))) {}

MySQLCheckpointer::MySQLCheckpointer(MySQLOptions options)
    : SqlCheckpointer(options, detail::mysql_driver(options),
                      std::make_shared<const detail::MyThreadSchema>()) {}

}  // namespace cubepi
