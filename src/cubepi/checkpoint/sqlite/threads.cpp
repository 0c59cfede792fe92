#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <cubepi/checkpoint/format/stored_json.hpp>
#include <cubepi/checkpoint/sqlite/tables.hpp>
#include <cubepi/checkpoint/sqlite/worker.hpp>
#include <cubepi/checkpoint/support/store_errors.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi::detail {

namespace {

std::int64_t position_of(SqliteDatabase& database, const std::string& thread_id) {
    SqliteStatement statement =
        database.prepare("SELECT max(id) FROM messages WHERE thread_id = ?");
    statement.bind(thread_id).step();
    return statement.integer(0);
}

void refuse_completed_runs(SqliteDatabase& database, const std::string& thread_id,
                           const MessageList& messages) {
    std::set<std::string_view> seen;
    for (const Message& message : messages) {
        const std::string& run_id = message.run_id().str();
        if (!run_id.empty() && seen.insert(run_id).second &&
            is_run_complete(database, thread_id, run_id)) {
            throw_run_completed(thread_id, run_id);
        }
    }
}

void insert_message(SqliteDatabase& database, const std::string& thread_id, const Message& message,
                    std::string& text) {
    text.clear();
    const JsonObject json = to_json(message);
    refuse_too_deep(thread_id, "a message", json);
    append_python_json(text, json);
    database
        .prepare(
            "INSERT INTO messages (thread_id, message_json, run_id, message_id) VALUES (?, ?, ?, "
            "?)")
        .bind(thread_id)
        .bind(text)
        .bind_or_null(message.run_id().str())
        .bind_or_null(message.id())
        .run();
}

JsonObject read_extra(SqliteDatabase& database, const std::string& thread_id,
                      std::string_view text) {
    std::string why;
    try {
        Json json = parse_lenient(text);
        if (json.is_object()) return std::move(json.get_object());
        why = "not a JSON object";
    } catch (const Error& error) {
        why = error.what();
    }
    database.name().fail_row(thread_id, "thread_extra.thread_id=" + thread_id, why);
}

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
        database.name().fail_row(source, "thread_extra.thread_id=" + source, error.what());
    }
}

/// Returns the message of the row. Throws CheckpointCorruptionError naming the row if it is unreadable.
Message read_message(SqliteDatabase& database, const std::string& thread_id, std::int64_t row,
                     std::string_view json) {
    std::string why;
    try {
        return database.reader().read(json);
    } catch (const Error& error) {
        why = error.what();
    }
    database.name().fail_row(thread_id, "messages.id=" + std::to_string(row), why);
}

/// Returns the messages of the query, with the row of the last one as the position.
CheckpointData read_messages(SqliteDatabase& database, const ThreadQuery& query) {
    std::string sql = "SELECT id, message_json FROM messages WHERE thread_id = ?1";
    if (query.part == ThreadPart::message) sql += " AND message_id = ?2 ORDER BY id LIMIT 1";
    if (query.part == ThreadPart::completed)
        sql +=
            " AND (run_id IS NULL OR run_id IN"
            " (SELECT run_id FROM runs WHERE thread_id = ?1 AND completion_seq <= ?2))";
    if (query.part != ThreadPart::message) sql += " ORDER BY id";
    SqliteStatement rows = database.prepare(sql);
    rows.bind(query.thread_id);
    if (query.part == ThreadPart::message) rows.bind(query.id);
    if (query.part == ThreadPart::completed)
        rows.bind(cutoff_of(database, query.thread_id, query.id));
    CheckpointData data;
    while (rows.step()) {
        data.position = rows.integer(0);
        data.messages.push_back(
            read_message(database, query.thread_id, data.position, rows.text(1)));
    }
    return data;
}

std::optional<CheckpointData> read_thread(SqliteDatabase& database, const ThreadQuery& query) {
    CheckpointData data = read_messages(database, query);
    if (query.part != ThreadPart::all) return data;
    SqliteStatement extra = database.prepare(
        "SELECT extra_json, parent_thread_id FROM thread_extra WHERE thread_id = ?");
    if (extra.bind(query.thread_id).step()) {
        data.extra = read_extra(database, query.thread_id, extra.text(0));
        if (!extra.is_null(1)) data.parent_thread_id = std::string(extra.text(1));
    } else if (data.messages.empty()) {
        return std::nullopt;
    }
    return data;
}

void save_extra(SqliteDatabase& database, const std::string& thread_id, const JsonObject& extra) {
    std::optional<std::string> stored;
    {
        SqliteStatement statement =
            database.prepare("SELECT extra_json FROM thread_extra WHERE thread_id = ?");
        if (statement.bind(thread_id).step()) stored = std::string(statement.text(0));
    }
    for (const auto& [key, value] : extra) refuse_too_deep(thread_id, "extra", value);
    std::string merged;
    try {
        merged = merge_extra_text(stored ? std::string_view(*stored) : "{}", extra);
    } catch (const Error& error) {
        database.name().fail_row(thread_id, "thread_extra.thread_id=" + thread_id, error.what());
    }
    if (!stored) {
        database.prepare("INSERT INTO thread_extra (thread_id, extra_json) VALUES (?, ?)")
            .bind(thread_id)
            .bind(merged)
            .run();
    } else if (merged != *stored) {
        database.prepare("UPDATE thread_extra SET extra_json = ? WHERE thread_id = ?")
            .bind(merged)
            .bind(thread_id)
            .run();
    }
}

std::int64_t change(SqliteDatabase& database, const std::string& thread_id,
                    const ThreadAppend& append) {
    const auto& [messages, options] = append;
    if (!options.claim_owner().empty()) {
        require_claim(database, thread_id, options);
    }
    refuse_completed_runs(database, thread_id, messages);
    std::optional<std::int64_t> position;
    if (options.expected_position() || messages.empty())
        position = position_of(database, thread_id);
    if (options.expected_position() && *options.expected_position() != *position) {
        throw_stale_append(thread_id, *options.expected_position(), *position);
    }
    std::string text;
    for (const Message& message : messages) insert_message(database, thread_id, message, text);
    if (!messages.empty()) position = database.last_insert_id();
    if (options.extra()) save_extra(database, thread_id, *options.extra());
    if (!options.settled_questions().empty()) settle_questions(database, thread_id, options);
    return *position;
}

std::int64_t change(SqliteDatabase& database, const std::string& source, const ThreadFork& fork) {
    const std::int64_t cutoff = cutoff_of(database, source, fork.after_run_id);
    const std::string& target = fork.new_thread_id;
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
    const std::string extra = forked_extra(database, source, fork.metadata);
    database
        .prepare(
            "INSERT INTO thread_extra (thread_id, extra_json, parent_thread_id) VALUES (?, ?, ?)")
        .bind(target)
        .bind(extra)
        .bind(source)
        .run();
    return 0;
}

std::int64_t change(SqliteDatabase& database, const std::string& thread_id,
                    const ThreadRemoval& /*removal*/) {
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
    return 0;
}

std::int64_t change_thread(SqliteDatabase& database, const std::string& thread_id,
                           const ThreadChange& wanted) {
    return std::visit([&](const auto& one) { return change(database, thread_id, one); }, wanted);
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

}  // namespace

Task<std::optional<CheckpointData>> SqliteTables::read_thread(ThreadQuery query) {
    return call_sqlite(worker_, SqliteAccess::read, detail::read_thread, std::move(query));
}

Task<std::int64_t> SqliteTables::change_thread(std::string thread_id, ThreadChange change) {
    return call_sqlite(worker_, SqliteAccess::write, detail::change_thread, std::move(thread_id),
                       std::move(change));
}

Task<std::vector<ThreadInfo>> SqliteTables::list_threads() {
    return call_sqlite(worker_, SqliteAccess::read, detail::list_threads);
}

}  // namespace cubepi::detail
