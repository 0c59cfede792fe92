#include <cubepi/checkpoint/sqlite_checkpointer.hpp>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cubepi/checkpoint/sqlite_schema.hpp>
#include <cubepi/checkpoint/store_support_test.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/testing/memory_log.hpp>

namespace cubepi {
namespace {

bool mentions(const Error& error, const std::string& text) {
    return std::string_view(error.what()).find(text) != std::string_view::npos;
}

TEST(SQLiteErrors, D48_MissingDirectory_IsReported) {
    TempDirectory directory;
    SQLiteCheckpointer store(directory.file("no/such/sessions.db"));
    const Error error = error_of(store.load("t"));
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_TRUE(mentions(error, "the directory '" + directory.file("no/such") + "' does not exist"))
        << error.what();
    expect_one_line(error);
}

TEST(SQLiteErrors, D76_NewDatabase_IsPrivateAndExistingKeepsMode) {
    TempDirectory directory;
    const auto mode_of = [&directory](const std::string& name) {
        struct stat info = {};
        EXPECT_EQ(::stat(directory.file(name).c_str(), &info), 0) << name;
        return info.st_mode & 0777U;
    };
    std::ofstream(directory.file("shared.db")).close();
    ::chmod(directory.file("shared.db").c_str(), 0640);
    const mode_t before = ::umask(0);
    for (const char* name : {"new.db", "shared.db"}) {
        SQLiteOptions options;
        options.path = directory.file(name);
        options.wal = true;
        SQLiteCheckpointer store(options);
        MessageList messages{user_message("hi")};
        run(store.append("t", std::move(messages), AppendOptions()));
        EXPECT_EQ(mode_of(std::string(name) + "-wal"), mode_of(name));
    }
    ::umask(before);
    EXPECT_EQ(mode_of("new.db"), 0600U);
    EXPECT_EQ(mode_of("shared.db"), 0640U);
}

TEST(SQLiteErrors, Directory_IsNotADatabase) {
    TempDirectory directory;
    std::filesystem::create_directory(directory.file("sessions.db"));
    SQLiteCheckpointer store(directory.file("sessions.db"));
    const Error error = error_of(store.open());
    EXPECT_TRUE(mentions(error, "it is a directory")) << error.what();
    expect_one_line(error);
}

TEST(SQLiteErrors, Pipe_IsRefusedWithoutWaiting) {
    TempDirectory directory;
    const std::string path = directory.file("sessions.db");
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    SQLiteCheckpointer store(path);
    const Error error = error_of(store.open());
    EXPECT_EQ(error.code(), ErrorCode::storage);
    EXPECT_TRUE(mentions(error, path)) << error.what();
    EXPECT_TRUE(mentions(error, "it is a pipe")) << error.what();
    expect_one_line(error);
}

TEST(SQLiteErrors, EmptyPath_IsRefused) {
    SQLiteCheckpointer store(std::string{});
    EXPECT_EQ(error_of(store.open()).code(), ErrorCode::invalid_argument);
}

TEST(SQLiteErrors, JsonBeyondNestingLimit_IsRefused) {
    TempDirectory directory;
    const auto calling = [](std::size_t depth) {
        Json value = JsonArray();
        while (--depth > 1) value = JsonArray{std::move(value)};
        AssistantMessage answer;
        ToolCall call;
        call.id = "c1";
        call.name = "t";
        call.arguments["a"] = std::move(value);
        answer.content.emplace_back(std::move(call));
        return one(Message(std::move(answer)));
    };
    SQLiteCheckpointer store(directory.file("sessions.db"));
    const MessageList deepest = calling(max_json_depth);
    run(store.append("t", deepest, AppendOptions()));
    const Error error = error_of(store.append("t", calling(max_read_json_depth), AppendOptions()));
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_TRUE(mentions(error, "'t'")) << error.what();
    expect_one_line(error);
    JsonObject extra;
    extra["x"] = deepest.front().assistant()->tool_calls().at(0)->arguments;
    extra["y"] = calling(max_read_json_depth).front().assistant()->tool_calls().at(0)->arguments;
    EXPECT_EQ(error_of(store.save_extra("t", extra)).code(), ErrorCode::invalid_argument);
    const auto loaded = run(store.load("t"));
    ASSERT_EQ(loaded->messages.size(), 1U);
    EXPECT_EQ(loaded->messages.front(), deepest.front());
    EXPECT_TRUE(loaded->extra.empty());
}

TEST(SQLiteErrors, TextFile_IsNotADatabase) {
    TempDirectory directory;
    const std::string path = directory.file("notes.txt");
    std::ofstream(path) << std::string(5000, 'x');
    SQLiteCheckpointer store(path);
    const Error error = error_of(store.append("t", one(user("hello")), AppendOptions()));
    EXPECT_EQ(error.code(), ErrorCode::storage_corrupt);
    EXPECT_TRUE(mentions(error, "not an SQLite database")) << error.what();
    expect_one_line(error);
    EXPECT_EQ(std::filesystem::file_size(path), 5000U) << "left as it was";
}

TEST(SQLiteErrors, D21_TableOfAnotherProgram_IsRefusedAndUnchanged) {
    TempDirectory directory;
    const std::string path = directory.file("mail.db");
    RawDatabase(path).query("CREATE TABLE messages (id INTEGER PRIMARY KEY, body TEXT)");
    SQLiteCheckpointer store(path);
    const Error error = error_of(store.load("t"));
    EXPECT_EQ(error.code(), ErrorCode::schema_mismatch);
    EXPECT_TRUE(mentions(error, "another program's")) << error.what();
    expect_one_line(error);
    EXPECT_EQ(
        RawDatabase(path).query("SELECT sql FROM sqlite_master"),
        std::vector<std::string>{"CREATE TABLE messages (id INTEGER PRIMARY KEY, body TEXT)"});
}

/// Returns the first error of the store after `change` was made to the file that it has open.
Error first_error_after(SQLiteCheckpointer& store, const std::function<void()>& change) {
    run(store.append("t", one(user("kept")), AppendOptions()));
    change();
    return error_of(store.append("t", one(user("lost?")), AppendOptions()));
}

class MovedFile : public ::testing::TestWithParam<bool> {
protected:
    SQLiteOptions options() const {
        SQLiteOptions made;
        made.path = path;
        made.wal = GetParam();
        return made;
    }
    TempDirectory directory;
    const std::string path = directory.file("sessions.db");
};

TEST_P(MovedFile, D20_DeletedFile_StoresNothing) {
    SQLiteCheckpointer store(options());
    const Error error = first_error_after(store, [this] {
        for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path + suffix);
    });
    EXPECT_EQ(error.code(), ErrorCode::storage);
    EXPECT_TRUE(mentions(error, "moved, replaced or deleted")) << error.what();
    expect_one_line(error);
    EXPECT_FALSE(run(store.load("t"))) << "the next call begins with a new file";
    run(store.append("t", one(user("new")), AppendOptions()));
    EXPECT_EQ(run(SQLiteCheckpointer(options()).load("t"))->messages.size(), 1U);
}

TEST_P(MovedFile, D20_ReplacedFile_IsReadFromThenOn) {
    const std::string other = directory.file("other.db");
    run(SQLiteCheckpointer(other).append("t", one(user("other")), AppendOptions()));
    SQLiteCheckpointer store(options());
    const Error error = first_error_after(store, [&] {
        for (const char* suffix : {"-wal", "-shm"}) std::filesystem::remove(path + suffix);
        std::filesystem::rename(other, path);
    });
    EXPECT_EQ(error.code(), ErrorCode::storage);
    const std::optional<CheckpointData> data = run(store.load("t"));
    ASSERT_EQ(data->messages.size(), 1U);
    EXPECT_EQ(data->messages.back().text(), "other");
}

INSTANTIATE_TEST_SUITE_P(Journals, MovedFile, ::testing::Bool());

TEST(SQLiteErrors, DamagedFile_IsACorruption) {
    TempDirectory directory;
    const std::string path = directory.file("sessions.db");
    {
        SQLiteCheckpointer store(path);
        for (int i = 0; i < 20; ++i)
            run(store.append("t", one(user(std::string(3000, 'x'))), AppendOptions()));
    }
    {
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(4096);
        const std::string garbage(60000, '\x5a');
        file.write(garbage.data(), static_cast<std::streamsize>(garbage.size()));
    }
    SQLiteCheckpointer store(path);
    const Error error = error_of(store.load("t"));
    EXPECT_EQ(error.code(), ErrorCode::storage_corrupt);
    expect_one_line(error);
}

TEST(SQLiteErrors, ReadOnlyFile_IsReadableButRefusesWrites) {
    TempDirectory directory;
    const std::string path = directory.file("sessions.db");
    {
        SQLiteCheckpointer store(path);
        run(store.append("t", one(user("hello")), AppendOptions()));
    }
    SQLiteCheckpointer store("file:" + path + "?mode=ro");
    EXPECT_EQ(run(store.load("t"))->messages.size(), 1U);
    const Error error = error_of(store.append("t", one(user("more")), AppendOptions()));
    EXPECT_EQ(error.code(), ErrorCode::permission_denied);
    EXPECT_TRUE(mentions(error, "read-only")) << error.what();
    expect_one_line(error);
}

TEST(SQLiteErrors, ReadOnlyStore_ChangesAndCreatesNothing) {
    TempDirectory directory;
    SQLiteOptions options;
    options.path = directory.file("100% sessions?.db");
    options.read_only = true;
    EXPECT_EQ(error_of(SQLiteCheckpointer(options).open()).code(), ErrorCode::not_found);
    EXPECT_FALSE(std::filesystem::exists(options.path));
    {
        SQLiteCheckpointer store(options.path);
        run(store.append("t", one(user("hello")), AppendOptions()));
    }
    SQLiteCheckpointer store(options);
    EXPECT_EQ(run(store.load("t"))->messages.size(), 1U);
    const Error error = error_of(store.append("t", one(user("more")), AppendOptions()));
    EXPECT_EQ(error.code(), ErrorCode::permission_denied);
}

TEST(SQLiteErrors, ReadOnlyFileOfOldVersion_IsRefused) {
    TempDirectory directory;
    const std::string path = directory.file("old.db");
    RawDatabase(path).query(
        "CREATE TABLE messages (id INTEGER PRIMARY KEY, thread_id TEXT, message_json TEXT)");
    SQLiteCheckpointer store("file:" + path + "?mode=ro");
    const Error error = error_of(store.open());
    EXPECT_EQ(error.code(), ErrorCode::permission_denied);
    expect_one_line(error);
}

TEST(SQLiteErrors, D21_NewerVersion_IsRefused) {
    TempDirectory directory;
    const std::string path = directory.file("sessions.db");
    {
        SQLiteCheckpointer store(path);
        run(store.open());
    }
    RawDatabase(path).query("UPDATE cubepi_native_schema SET version = 4");
    SQLiteCheckpointer store(path);
    const Error error = error_of(store.open());
    EXPECT_EQ(error.code(), ErrorCode::schema_mismatch);
    expect_one_line(error);
}

TEST(SQLiteErrors, D208_NewerReadableVersion_IsShared) {
    TempDirectory directory;
    const std::string path = directory.file("sessions.db");
    run(SQLiteCheckpointer(path).open());
    RawDatabase raw(path);
    raw.query("INSERT INTO cubepi_native_schema VALUES (5)");
    {
        SQLiteCheckpointer store(path);
        run(store.append("t", one(user("shared")), AppendOptions()));
        EXPECT_EQ(run(store.load("t"))->messages.size(), 1U);
    }
    EXPECT_TRUE(sqlite_schema_status(path).is_current());
    EXPECT_EQ(raw.query("SELECT version FROM cubepi_native_schema ORDER BY version"),
              (std::vector<std::string>{"3", "5"}));
    raw.query("UPDATE cubepi_native_schema SET version = 4 WHERE version = 3");
    SQLiteCheckpointer store(path);
    const Error error = error_of(store.open());
    EXPECT_EQ(error.code(), ErrorCode::schema_mismatch);
    EXPECT_NE(std::string(error.what())
                  .find("of version 5, which needs a program that knows "
                        "version 4 (it knows 3); update the program"),
              std::string::npos)
        << error.what();
}

TEST(SQLiteErrors, LockedDatabase_IsALockTimeoutWithoutLoss) {
    TempDirectory directory;
    SQLiteOptions options;
    options.path = directory.file("sessions.db");
    options.busy_timeout = std::chrono::milliseconds(20);
    const cubepi::testing::MemoryLog log;
    options.log = log.logger();
    SQLiteCheckpointer store(options);
    run(store.append("t", one(user("before")), AppendOptions()));
    RawDatabase other(options.path);
    other.query("BEGIN EXCLUSIVE");
    const auto error = error_of<CheckpointerLockTimeoutError>(
        store.append("t", one(user("refused")), AppendOptions()));
    EXPECT_EQ(error.code(), ErrorCode::storage_locked);
    EXPECT_TRUE(mentions(error, options.path)) << error.what();
    expect_one_line(error);
    EXPECT_EQ(error_of(store.load("t")).code(), ErrorCode::storage_locked);
    const std::string line = "<4>store.busy store=sqlite path=" + options.path + " waited_ms=20\n";
    EXPECT_EQ(log.text(), line + line);
    other.query("COMMIT");
    run(store.append("t", one(user("after")), AppendOptions()));
    EXPECT_EQ(run(store.load("t"))->messages.size(), 2U);
}

TEST(SQLiteErrors, UnreadableRow_IsNamed) {
    TempDirectory directory;
    const std::string path = directory.file("sessions.db");
    SQLiteCheckpointer store(path);
    run(store.append("t", one(user("fine")), AppendOptions()));
    RawDatabase(path).query(
        "INSERT INTO messages (thread_id, message_json) VALUES ('t', '{\"role\": \"user\"')");
    const auto error = error_of<CheckpointCorruptionError>(store.load("t"));
    EXPECT_EQ(error.row_ref(), "messages.id=2");
    EXPECT_EQ(error.thread_id(), "t");
    EXPECT_EQ(error.backend(), "sqlite");
    EXPECT_TRUE(mentions(error, "messages.id=2")) << error.what();
    expect_one_line(error);
    // The broken extra of another thread, and it is not overwritten.
    RawDatabase(path).query("INSERT INTO thread_extra (thread_id, extra_json) VALUES ('u', '[]')");
    EXPECT_EQ(error_of<CheckpointCorruptionError>(store.load("u")).row_ref(),
              "thread_extra.thread_id=u");
    JsonObject extra;
    extra["a"] = 1;
    EXPECT_EQ(
        error_of<CheckpointCorruptionError>(store.save_extra("u", std::move(extra))).row_ref(),
        "thread_extra.thread_id=u");
}

TEST(SQLiteErrors, FullDisk_DropsAppendAndKeepsTheRest) {
    TempDirectory directory;
    SQLiteOptions options;
    options.path = directory.file("sessions.db");
    options.max_bytes = 256U << 10U;
    SQLiteCheckpointer store(options);
    run(store.append("t", one(user("before")), AppendOptions()));
    MessageList two = one(user("small"));
    two.push_back(user(std::string(std::size_t{1} << 20U, 'x')));
    const Error error = error_of(store.append("t", std::move(two), AppendOptions()));
    EXPECT_EQ(error.code(), ErrorCode::storage_full);
    EXPECT_TRUE(mentions(error, "no space is left")) << error.what();
    expect_one_line(error);
    run(store.append("t", one(user("after")), AppendOptions()));
    const MessageList messages = run(store.load("t"))->messages;
    ASSERT_EQ(messages.size(), 2U);
    EXPECT_EQ(messages[1].text(), "after");
}

Task<> append_large_among_small(SQLiteCheckpointer& store, int& stored, int& full) {
    std::vector<Task<std::int64_t>> writers;
    for (int i = 0; i < 10; ++i) {
        const std::size_t size = i == 5 ? std::size_t{1} << 20U : 10;
        MessageList message = one(user(std::string(size, 'x')));
        writers.push_back(
            store.append("t" + std::to_string(i), std::move(message), AppendOptions()));
    }
    const auto outcomes = co_await collect_all(std::move(writers));
    for (const auto& outcome : outcomes) {
        if (outcome.ok()) {
            ++stored;
        } else {
            try {
                std::rethrow_exception(outcome.failure());
            } catch (const Error& error) {
                if (error.code() == ErrorCode::storage_full) ++full;
            }
        }
    }
}

TEST(SQLiteErrors, D20_WriteOnFullDisk_DoesNotFailOthers) {
    TempDirectory directory;
    SQLiteOptions options;
    options.path = directory.file("sessions.db");
    options.max_bytes = 256U << 10U;
    SQLiteCheckpointer store(options);
    int stored = 0;
    int full = 0;
    run(append_large_among_small(store, stored, full));
    EXPECT_EQ(stored, 9);
    EXPECT_EQ(full, 1);
    EXPECT_EQ(run(store.list_threads()).size(), 9U);
}

}  // namespace
}  // namespace cubepi
