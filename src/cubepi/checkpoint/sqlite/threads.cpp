#include <string>
#include <utility>

#include <cubepi/checkpoint/claims/store_errors.hpp>
#include <cubepi/checkpoint/format/extra_text.hpp>
#include <cubepi/checkpoint/sqlite/operations.hpp>
#include <cubepi/core/error.hpp>

namespace cubepi::detail {

namespace {

bool is_known(SqliteDatabase& database, const std::string& thread_id) {
    SqliteStatement statement = database.prepare(
        "SELECT EXISTS (SELECT 1 FROM messages WHERE thread_id = ?1)"
        " OR EXISTS (SELECT 1 FROM thread_extra WHERE thread_id = ?1)"
        " OR EXISTS (SELECT 1 FROM runs WHERE thread_id = ?1)");
    statement.bind(thread_id).step();
    return statement.integer(0) != 0;
}

/// Returns the position of a complete run in the order of completion. Throws if there is no such run.
std::int64_t cutoff_of(SqliteDatabase& database, const std::string& thread_id,
                       const std::string& run_id) {
    if (!is_known(database, thread_id)) throw_thread_not_found(thread_id);
    SqliteStatement statement = database.prepare(
        "SELECT completion_seq FROM runs WHERE thread_id = ? AND run_id = ? AND completed_at IS "
        "NOT NULL");
    if (!statement.bind(thread_id).bind(run_id).step()) throw_run_not_completed(thread_id, run_id);
    return statement.integer(0);
}

std::string forked_extra(SqliteDatabase& database, const std::string& source,
                         const std::optional<JsonObject>& metadata) {
    std::string text = "{}";
    {
        SqliteStatement row =
            database.prepare("SELECT extra_json FROM thread_extra WHERE thread_id = ?");
        if (row.bind(source).step()) text = row.text(0);
    }
    if (!metadata) return text;
    JsonObject fork;
    fork["fork"] = *metadata;
    try {
        return merge_extra_text(text, fork);
    } catch (const Error& error) {
        database.fail_row(source, "thread_extra.thread_id=" + source, error.what());
    }
}

}  // namespace

MessageList snapshot_thread(SqliteDatabase& database, const std::string& thread_id,
                            const std::string& after_run_id) {
    const std::int64_t cutoff = cutoff_of(database, thread_id, after_run_id);
    SqliteStatement rows = database.prepare(
        "SELECT id, message_json FROM messages WHERE thread_id = ?1 AND (run_id IS NULL OR run_id "
        "IN"
        " (SELECT run_id FROM runs WHERE thread_id = ?1 AND completion_seq <= ?2)) ORDER BY id");
    rows.bind(thread_id).bind(cutoff);
    MessageList messages;
    while (rows.step()) {
        messages.push_back(read_message(database, thread_id, rows.integer(0), rows.text(1)));
    }
    return messages;
}

void fork_thread(SqliteDatabase& database, const std::string& source, const std::string& target,
                 const std::string& after_run_id, const std::optional<JsonObject>& metadata) {
    const std::int64_t cutoff = cutoff_of(database, source, after_run_id);
    if (is_known(database, target)) throw_thread_exists(target);
    // Copies the stored text, because some values are read only approximately.
    database
        .prepare(
            "INSERT INTO messages (thread_id, message_json, run_id, message_id)"
            " SELECT ?1, message_json, run_id, message_id FROM messages WHERE thread_id = ?2"
            " AND (run_id IS NULL OR run_id IN"
            " (SELECT run_id FROM runs WHERE thread_id = ?2 AND completion_seq <= ?3)) ORDER BY id")
        .bind(target)
        .bind(source)
        .bind(cutoff)
        .run();
    database
        .prepare(
            "INSERT INTO runs (thread_id, run_id, claimed_at, completed_at, completion_seq)"
            " SELECT ?1, run_id, claimed_at, completed_at, completion_seq FROM runs"
            " WHERE thread_id = ?2 AND completion_seq <= ?3")
        .bind(target)
        .bind(source)
        .bind(cutoff)
        .run();
    const std::string extra = forked_extra(database, source, metadata);
    database
        .prepare(
            "INSERT INTO thread_extra (thread_id, extra_json, parent_thread_id) VALUES (?, ?, ?)")
        .bind(target)
        .bind(extra)
        .bind(source)
        .run();
}

std::vector<ThreadInfo> list_threads(SqliteDatabase& database) {
    constexpr double julian_day_of_unix_epoch = 2440587.5;
    constexpr double seconds_per_day = 86400;
    // Counts by the index alone, so that long messages are not read.
    SqliteStatement rows = database.prepare(
        "SELECT thread_id, count, (SELECT created_at FROM messages WHERE id = last) AS at FROM"
        " (SELECT thread_id, count(*) AS count, max(id) AS last FROM messages GROUP BY thread_id)"
        " UNION ALL SELECT thread_id, 0, NULL FROM thread_extra WHERE NOT EXISTS"
        " (SELECT 1 FROM messages WHERE messages.thread_id = thread_extra.thread_id)"
        " ORDER BY at DESC, thread_id");
    std::vector<ThreadInfo> list;
    while (rows.step()) {
        ThreadInfo info;
        info.thread_id = rows.text(0);
        info.message_count = rows.integer(1);
        if (!rows.is_null(2)) {
            info.updated_at = (rows.number(2) - julian_day_of_unix_epoch) * seconds_per_day;
        }
        list.push_back(std::move(info));
    }
    return list;
}

void delete_thread(SqliteDatabase& database, const std::string& thread_id) {
    constexpr std::string_view statements[] = {
        "DELETE FROM messages WHERE thread_id = ?",
        "DELETE FROM thread_extra WHERE thread_id = ?",
        "DELETE FROM thread_pending_request WHERE thread_id = ?",
        "DELETE FROM thread_hitl_answers WHERE thread_id = ?",
        "DELETE FROM runs WHERE thread_id = ?",
        "DELETE FROM cubepi_native_claims WHERE thread_id = ?",
        "DELETE FROM cubepi_native_pending WHERE thread_id = ?",
        "DELETE FROM cubepi_native_started WHERE thread_id = ?",
        "DELETE FROM cubepi_native_used_answers WHERE thread_id = ?",
        "DELETE FROM cubepi_native_answers WHERE thread_id = ?",
        "DELETE FROM cubepi_native_changed_pending WHERE thread_id = ?",
    };
    std::int64_t deleted = 0;
    for (const std::string_view sql : statements) {
        database.prepare(sql).bind(thread_id).run();
        deleted += database.changes();
    }
    if (deleted == 0) throw_thread_not_found(thread_id);
}

}  // namespace cubepi::detail
