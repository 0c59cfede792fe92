#include <set>
#include <string>
#include <utility>

#include <cubepi/checkpoint/claims/store_errors.hpp>
#include <cubepi/checkpoint/format/extra_text.hpp>
#include <cubepi/checkpoint/format/stored_json.hpp>
#include <cubepi/checkpoint/sqlite/operations.hpp>
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
    database.fail_row(thread_id, "thread_extra.thread_id=" + thread_id, why);
}

}  // namespace

Message read_message(SqliteDatabase& database, const std::string& thread_id, std::int64_t row,
                     std::string_view json) {
    std::string why;
    try {
        return database.reader().read(json);
    } catch (const Error& error) {
        why = error.what();
    }
    database.fail_row(thread_id, "messages.id=" + std::to_string(row), why);
}

std::optional<CheckpointData> load_thread(SqliteDatabase& database, const std::string& thread_id) {
    CheckpointData data;
    SqliteStatement rows =
        database.prepare("SELECT id, message_json FROM messages WHERE thread_id = ? ORDER BY id");
    rows.bind(thread_id);
    while (rows.step()) {
        data.position = rows.integer(0);
        data.messages.push_back(read_message(database, thread_id, data.position, rows.text(1)));
    }
    SqliteStatement extra = database.prepare(
        "SELECT extra_json, parent_thread_id FROM thread_extra WHERE thread_id = ?");
    if (extra.bind(thread_id).step()) {
        data.extra = read_extra(database, thread_id, extra.text(0));
        if (!extra.is_null(1)) data.parent_thread_id = std::string(extra.text(1));
    } else if (data.messages.empty()) {
        return std::nullopt;
    }
    return data;
}

std::int64_t append_messages(SqliteDatabase& database, const std::string& thread_id,
                             const MessageList& messages, const AppendOptions& options) {
    if (!options.claim_owner().empty()) {
        require_claim(database, thread_id, options.claim_run_id(), options.claim_owner());
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
    settle_questions(database, thread_id, options.settled_run_id(), options.settled_questions());
    return *position;
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
        database.fail_row(thread_id, "thread_extra.thread_id=" + thread_id, error.what());
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

std::optional<Message> find_message(SqliteDatabase& database, const std::string& thread_id,
                                    const std::string& message_id) {
    SqliteStatement rows = database.prepare(
        "SELECT id, message_json FROM messages WHERE thread_id = ? AND message_id = ? ORDER BY id "
        "LIMIT 1");
    std::optional<Message> message;
    if (rows.bind(thread_id).bind(message_id).step()) {
        message = read_message(database, thread_id, rows.integer(0), rows.text(1));
    }
    return message;
}

}  // namespace cubepi::detail
