#include <utility>

#include <cubepi/checkpoint/server/schema.hpp>

#include "fifth_database.hpp"

namespace cubepi::fifth {

using namespace detail;

namespace {

/// The tables. This database is not shared with CubePi, so there are no triggers that note its changes.
SqlStatements statements(const SqlSchemaStatus& /*from*/) {
    const std::string thread = " (thread_id TEXT NOT NULL, ";
    const std::string key = "run_id TEXT NOT NULL, question_id TEXT NOT NULL, ";
    const std::string native = "CREATE TABLE IF NOT EXISTS cubepi_native_";
    return {
        "CREATE TABLE IF NOT EXISTS cubepi_schema_version (version INTEGER PRIMARY KEY)",
        "CREATE TABLE IF NOT EXISTS cubepi_threads (thread_id TEXT PRIMARY KEY,"
        " parent_thread_id TEXT, forked_at_seq INTEGER, extra TEXT NOT NULL DEFAULT '{}',"
        " created_at REAL NOT NULL DEFAULT ((julianday('now') - 2440587.5) * 86400),"
        " updated_at REAL NOT NULL DEFAULT ((julianday('now') - 2440587.5) * 86400),"
        " pending_request TEXT, run_id TEXT)",
        "CREATE TABLE IF NOT EXISTS cubepi_messages" + thread +
            "seq INTEGER NOT NULL, role TEXT NOT NULL, metadata TEXT NOT NULL, payload BLOB,"
            " created_at REAL NOT NULL DEFAULT ((julianday('now') - 2440587.5) * 86400),"
            " run_id TEXT, PRIMARY KEY (thread_id, seq))",
        "CREATE TABLE IF NOT EXISTS cubepi_runs" + thread +
            "run_id TEXT NOT NULL,"
            " claimed_at REAL NOT NULL DEFAULT ((julianday('now') - 2440587.5) * 86400),"
            " completed_at REAL, completion_seq INTEGER, PRIMARY KEY (thread_id, run_id))",
        "CREATE TABLE IF NOT EXISTS cubepi_hitl_answers" + thread + key +
            "answer TEXT NOT NULL, answered_at REAL, PRIMARY KEY (thread_id, run_id, question_id))",
        native + "schema (version INTEGER PRIMARY KEY)",
        native + "claims" + thread +
            "run_id TEXT NOT NULL, owner_id TEXT, host TEXT, boot_id TEXT, pid INTEGER,"
            " process_start INTEGER, description TEXT, lease_until REAL,"
            " PRIMARY KEY (thread_id, run_id))",
        native + "message_ids" + thread +
            "message_id TEXT NOT NULL, seq INTEGER, PRIMARY KEY (thread_id, message_id))",
        native + "writes" + thread + "write_id TEXT NOT NULL, PRIMARY KEY (thread_id))",
        native + "exact" + thread + "item TEXT NOT NULL, " + key +
            "json TEXT NOT NULL, PRIMARY KEY (thread_id, item, run_id, question_id))",
        native + "pending (id INTEGER PRIMARY KEY, thread_id TEXT NOT NULL, " + key +
            "request_json TEXT NOT NULL, approval_digest TEXT, created_at REAL, expires_at REAL,"
            " expired BOOLEAN NOT NULL DEFAULT false, UNIQUE (thread_id, run_id, question_id))",
        native + "changed_pending" + thread + "PRIMARY KEY (thread_id))",
        native + "answers (id INTEGER PRIMARY KEY, thread_id TEXT NOT NULL, " + key +
            "request_json TEXT, answer_json TEXT, answered_at REAL, user_name TEXT, channel TEXT)",
        native +
            "started (id INTEGER PRIMARY KEY, thread_id TEXT NOT NULL, run_id TEXT NOT NULL,"
            " batch_id TEXT, tool_call_id TEXT, UNIQUE (thread_id, run_id, tool_call_id))",
        native + "used_answers" + thread + key +
            "answer_json TEXT, PRIMARY KEY (thread_id, run_id, question_id))",
        "INSERT INTO cubepi_schema_version VALUES (5) ON CONFLICT DO NOTHING",
        "INSERT INTO cubepi_native_schema VALUES (1) ON CONFLICT DO NOTHING",
    };
}

class Schema final : public ThreadSchema {
public:
    // A transaction that writes has the whole database, so lock() has nothing to do.

    void write_extra(SqlBatch& batch, const std::string& thread_id,
                     const ExtraChange& change) const override {
        batch
            .add(
                "INSERT INTO cubepi_threads (thread_id, extra) VALUES ($1, $2)"
                " {replace thread_id: extra}, updated_at = now()")
            .text(thread_id)
            .json(server_json_text(change.merged));
    }
    void write_fork_row(SqlBatch& batch, const SqlFork& fork, const JsonObject& /*added*/,
                        const JsonObject& merged) const override {
        batch
            .add(
                "INSERT INTO cubepi_threads (thread_id, parent_thread_id, forked_at_seq, extra)"
                " VALUES ($2, $1, $3, $4)")
            .text(fork.source)
            .text(fork.target)
            .integer(fork.cutoff)
            .json(server_json_text(merged));
    }
    std::string page_sql(const std::string& columns, const std::string& time) const override {
        const std::string key = time + ", thread_id, run_id, question_id";
        return "SELECT " + columns + " FROM cubepi_native_pending WHERE NOT expired AND (" + key +
               ") > ($1, $2, $3, $4) ORDER BY " + key + " LIMIT $5";
    }
    std::string listing_sql() const override {
        return "SELECT t.thread_id, count(m.seq), max(m.created_at) AS at FROM cubepi_threads AS t"
               " LEFT JOIN cubepi_messages AS m ON m.thread_id = t.thread_id GROUP BY t.thread_id"
               " HAVING count(m.seq) > 0 OR {filled t.extra} OR t.parent_thread_id IS NOT NULL"
               " ORDER BY at DESC {nulls last}, t.thread_id";
    }
    std::vector<std::string> dependent_tables() const override {
        std::vector<std::string> tables = {"cubepi_messages", "cubepi_runs", "cubepi_hitl_answers"};
        for (const char* name : {"claims", "message_ids", "writes", "exact", "pending",
                                 "changed_pending", "answers", "started", "used_answers"})
            tables.push_back(std::string("cubepi_native_") + name);
        return tables;
    }

protected:
    std::string migration_hint() const override { return "apply the schema"; }
};

Task<> only_apply(Task<SqlSchemaStatus> task) { (void)co_await std::move(task); }

}  // namespace

FifthCheckpointer::FifthCheckpointer(SqlOptions options, std::shared_ptr<Fault> fault)
    : SqlCheckpointer(options, fifth_driver(options, std::move(fault)),
                      std::make_shared<const Schema>()) {}

Task<> apply_fifth_schema(SqlOptions options) {
    return only_apply(apply_thread_schema(options, fifth_driver(options), "cubepi", &statements));
}

}  // namespace cubepi::fifth
