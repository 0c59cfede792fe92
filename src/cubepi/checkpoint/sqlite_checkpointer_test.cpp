#include <cubepi/checkpoint/sqlite_checkpointer.hpp>

#include <atomic>
#include <filesystem>
#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/store_support_test.hpp>
#include <cubepi/testing/manual_clock.hpp>
#include <cubepi/testing/store_conformance.hpp>

namespace cubepi {
namespace {

/// The suite over files that `options_for(path)` opens.
template <class F>
void expect_conformance(F options_for) {
    TempDirectory directory;
    auto clock = std::make_shared<testing::ManualClock>();
    int files = 0;
    const auto open = [&](int number) {
        SQLiteOptions options = options_for(directory.file(std::to_string(number) + ".db"));
        options.clock = clock;
        return std::make_shared<SQLiteCheckpointer>(std::move(options));
    };
    testing::StoreUnderTest subject;
    subject.make = [&] { return open(++files); };
    subject.reopen = [&](std::shared_ptr<Checkpointer> store) {
        store.reset();
        return open(files);
    };
    subject.advance = [&](std::chrono::seconds amount) { clock->advance(amount); };
    for (const testing::StoreFailure& failure : testing::check_store(subject)) {
        ADD_FAILURE() << failure.check << ": " << failure.text;
    }
}

TEST(SQLiteCheckpointer, conforms) {
    expect_conformance([](std::string path) {
        SQLiteOptions options;
        options.path = std::move(path);
        return options;
    });
}

TEST(SQLiteCheckpointer, conforms_with_a_write_ahead_log) {
    expect_conformance([](std::string path) {
        SQLiteOptions options;
        options.path = "file:" + path + "?cache=private";
        options.wal = true;
        options.synchronous = SQLiteSynchronous::normal;
        return options;
    });
}

TEST(SQLiteCheckpointer, D48_conforms_in_memory) {
    testing::StoreUnderTest subject;
    subject.make = [] { return std::make_shared<SQLiteCheckpointer>(":memory:"); };
    for (const testing::StoreFailure& failure : testing::check_store(subject)) {
        ADD_FAILURE() << failure.check << ": " << failure.text;
    }
}

TEST(SQLiteCheckpointer, D48_the_constructor_does_no_io) {
    TempDirectory directory;
    const std::string path = directory.file("sessions.db");
    {
        SQLiteCheckpointer store(path);
        SQLiteCheckpointer never(directory.file("missing/sessions.db"));
        EXPECT_FALSE(std::filesystem::exists(path));
        run(store.open());
        EXPECT_TRUE(std::filesystem::exists(path));
    }
    EXPECT_FALSE(std::filesystem::exists(path + "-journal"));
}

TEST(SQLiteCheckpointer, D48_a_store_that_could_not_open_can_try_again) {
    TempDirectory directory;
    SQLiteCheckpointer store(directory.file("later/sessions.db"));
    EXPECT_EQ(error_of(store.open()).code(), ErrorCode::not_found);
    std::filesystem::create_directory(directory.file("later"));
    run(store.open());
    run(store.append("t", one(user("hello")), AppendOptions()));
}

TEST(SQLiteCheckpointer, D21_makes_the_tables_of_cubepi) {
    TempDirectory directory;
    const std::string path = directory.file("sessions.db");
    {
        SQLiteCheckpointer store(path);
        run(store.open());
    }
    RawDatabase raw(path);
    const auto columns = [&](const std::string& table) {
        std::string text;
        for (const std::string& value :
             raw.query("SELECT name || ' ' || type FROM pragma_table_info('" + table + "')")) {
            text += value + ", ";
        }
        return text;
    };
    EXPECT_EQ(columns("messages"),
              "id INTEGER, thread_id TEXT, message_json TEXT, created_at REAL, run_id TEXT, "
              "message_id TEXT, ");
    EXPECT_EQ(columns("thread_extra"), "thread_id TEXT, extra_json TEXT, parent_thread_id TEXT, ");
    EXPECT_EQ(columns("thread_pending_request"),
              "thread_id TEXT, request_json TEXT, run_id TEXT, created_at REAL, ");
    EXPECT_EQ(
        columns("thread_hitl_answers"),
        "thread_id TEXT, run_id TEXT, question_id TEXT, answer_json TEXT, answered_at REAL, ");
    EXPECT_EQ(columns("runs"),
              "thread_id TEXT, run_id TEXT, claimed_at REAL, completed_at REAL, completion_seq "
              "INTEGER, ");
    EXPECT_EQ(raw.query("PRAGMA journal_mode").front(), "delete")
        << "stays the default unless asked";
    EXPECT_EQ(raw.query("SELECT version FROM cubepi_native_schema").front(), "3");
    const auto plan = raw.query(
        "EXPLAIN QUERY PLAN SELECT id, message_json FROM messages WHERE thread_id = 't' ORDER BY "
        "id");
    EXPECT_NE(plan.at(3).find("USING INDEX cubepi_native_ix_messages"), std::string::npos)
        << plan.at(3);
    EXPECT_EQ(plan.size(), 4U) << "no sorting";
}

TEST(SQLiteCheckpointer, D21_writes_rows_as_cubepi_does) {
    TempDirectory directory;
    const std::string path = directory.file("sessions.db");
    {
        SQLiteCheckpointer store(path);
        UserMessage message;
        TextContent text;
        text.text = "Zo\xc3\xab";
        message.content.emplace_back(std::move(text));
        message.timestamp = 1700000000.0;
        message.run_id = "r1";
        run(store.append("t", one(message), AppendOptions()));
        JsonObject extra;
        extra["a"] = 1.0;
        extra["b"] = "\xf0\x9d\x84\x9e";
        run(store.save_extra("t", std::move(extra)));
    }
    RawDatabase raw(path);
    const auto row =
        raw.query("SELECT message_json, run_id, message_id, created_at > 2461000 FROM messages");
    EXPECT_EQ(row.at(0), R"({"role": "user", "content": [{"type": "text", "text": "Zo\u00eb"}], )"
                         R"("timestamp": 1700000000.0, "metadata": {}, "run_id": "r1"})");
    EXPECT_EQ(row.at(1), "r1");
    EXPECT_EQ(row.at(2), "NULL");
    EXPECT_EQ(row.at(3), "1");
    EXPECT_EQ(raw.query("SELECT extra_json FROM thread_extra").front(),
              R"({"a": 1.0, "b": "\ud834\udd1e"})");
}

TEST(SQLiteCheckpointer, D42_message_ids_are_in_an_indexed_column) {
    TempDirectory directory;
    const std::string path = directory.file("sessions.db");
    {
        SQLiteCheckpointer store(path);
        run(store.append("t", one(user("hello", "r", "id-1")), AppendOptions()));
    }
    RawDatabase raw(path);
    EXPECT_EQ(raw.query("SELECT message_id FROM messages").front(), "id-1");
    const auto plan = raw.query(
        "EXPLAIN QUERY PLAN SELECT id FROM messages WHERE thread_id = 't' AND message_id = 'id-1'");
    EXPECT_NE(plan.at(3).find("cubepi_native_ix_message_ids"), std::string::npos) << plan.at(3);
}

TEST(SQLiteCheckpointer, D21_rows_that_cubepi_appends_between_ours_are_read) {
    TempDirectory directory;
    const std::string path = directory.file("sessions.db");
    SQLiteCheckpointer store(path);
    const std::int64_t position = run(store.append("t", one(user("ours", "r1")), AppendOptions()));
    RawDatabase(path).query(
        R"(INSERT INTO messages (thread_id, message_json, run_id) VALUES ('t', '{"role": "user", "content": []}', NULL))");
    AppendOptions options = AppendOptions().expected_position(position);
    const StaleAppendError error =
        error_of<StaleAppendError>(store.append("t", one(user("late", "r1")), std::move(options)));
    EXPECT_EQ(error.thread_id(), "t");
    expect_one_line(error);
    EXPECT_EQ(run(store.load("t"))->messages.size(), 2U);
}

}  // namespace
}  // namespace cubepi
