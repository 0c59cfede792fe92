#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/sqlite_checkpointer.hpp>
#include <cubepi/checkpoint/sqlite_schema.hpp>
#include <cubepi/checkpoint/store_check_test.hpp>
#include <cubepi/checkpoint/store_support_test.hpp>

// Checks of files with threads.

namespace cubepi {

namespace {

class SQLiteCheck : public ::testing::Test {
protected:
    StoreReport check() const { return run(check_sqlite(path)); }
    /// The bytes of each file of the directory.
    std::map<std::string, std::string> files() const {
        std::map<std::string, std::string> found;
        for (const auto& file :
             std::filesystem::directory_iterator(std::filesystem::path(path).parent_path())) {
            std::ifstream in(file.path(), std::ios::binary);
            found[file.path().filename().string()] = {std::istreambuf_iterator<char>(in),
                                                      std::istreambuf_iterator<char>()};
        }
        return found;
    }

    TempDirectory directory;
    const std::string path = directory.file("threads.db");
};

TEST_F(SQLiteCheck, D209_SoundFile_IsReportedWithItsNumbers) {
    {
        SQLiteCheckpointer store(path);
        write_sound_threads(store);
    }
    const std::map<std::string, std::string> before = files();
    const StoreReport report = check();
    EXPECT_EQ(damage_in(report) + repairs_in(report) + notes_in(report), "");
    EXPECT_EQ(numbers_in(report), "threads 3; messages 7; claimed runs 1; pending requests 1; ");
    EXPECT_EQ(files(), before) << "a check only reads";
}

TEST_F(SQLiteCheck, D209_UnmatchedCallsAndResults_AreRepairs) {
    {
        SQLiteCheckpointer store(path);
        write_unmatched_threads(store);
    }
    const StoreReport report = check();
    EXPECT_TRUE(report.is_sound());
    EXPECT_EQ(sorted_lines(repairs_in(report)), unmatched_repairs);
}

TEST_F(SQLiteCheck, D209_UnreadableRows_AreDamageOfTheirThreads) {
    {
        SQLiteCheckpointer store(path);
        write_sound_threads(store);
    }
    RawDatabase raw(path);
    raw.query("UPDATE messages SET message_json = '{\"role\"' WHERE thread_id = 'sound'");
    raw.query("UPDATE cubepi_native_pending SET request_json = '[1'");
    raw.query(
        "INSERT INTO cubepi_native_answers (thread_id, run_id, question_id, request_json,"
        " answer_json, answered_at, user, channel) VALUES ('a', 'r', 'q', '{', '1', 1, '', '')");
    raw.query(
        "INSERT INTO thread_hitl_answers (thread_id, run_id, question_id, answer_json)"
        " VALUES ('busy', 'r', 'q', '{')");
    const std::string damage = damage_in(check());
    EXPECT_NE(damage.find("thread 'sound': "), std::string::npos) << damage;
    EXPECT_NE(damage.find("messages.id=1"), std::string::npos) << damage;
    EXPECT_NE(damage.find("thread 'asks': row cubepi_native_pending.id=1: "), std::string::npos);
    EXPECT_NE(damage.find("thread 'a': row cubepi_native_answers.id=1 "), std::string::npos);
    EXPECT_NE(damage.find("thread 'busy': thread_hitl_answers.answer_json: "), std::string::npos);
}

TEST_F(SQLiteCheck, D209_RowsWithoutRun_AreReportedByKind) {
    {
        SQLiteCheckpointer store(path);
        write_sound_threads(store);
    }
    RawDatabase raw(path);
    raw.query("UPDATE runs SET completed_at = 1, completion_seq = 1 WHERE thread_id = 'asks'");
    raw.query(
        "INSERT INTO thread_hitl_answers (thread_id, run_id, question_id, answer_json)"
        " VALUES ('sound', 'r9', 'q', 'true')");
    raw.query(
        "INSERT INTO cubepi_native_started (thread_id, run_id, batch_id, tool_call_id)"
        " VALUES ('sound', 'r9', 'b', 'c')");
    raw.query("UPDATE cubepi_native_claims SET run_id = 'r8'");
    const StoreReport report = check();
    EXPECT_EQ(damage_in(report),
              "thread 'asks': cubepi_native_pending: a request of a completed run ('r')\n");
    EXPECT_EQ(notes_in(report),
              "thread 'sound': thread_hitl_answers: an answer without an open run ('r9')\n"
              "thread 'sound': cubepi_native_started: a started call without an open run ('r9')\n");
    EXPECT_NE(repairs_in(report).find("thread 'busy': cubepi_native_claims: a claim without an "
                                      "open run ('r8')"),
              std::string::npos)
        << repairs_in(report);
}

TEST_F(SQLiteCheck, D209_ExpiredLease_NamesItsOwner) {
    {
        SQLiteCheckpointer store(path);
        write_sound_threads(store);
    }
    RawDatabase(path).query("UPDATE cubepi_native_claims SET lease_until = 5");
    const StoreReport report = check();
    EXPECT_TRUE(report.is_sound());
    EXPECT_EQ(notes_in(report).find(
                  "thread 'busy': run 'r' belongs to pid 7 on elsewhere, whose lease ended "),
              0U)
        << notes_in(report);
}

TEST_F(SQLiteCheck, D209_OlderAndNewerTables_AreReportedUnchanged) {
    {
        SQLiteCheckpointer store(path);
        run(store.open());
    }
    RawDatabase(path).query("UPDATE cubepi_native_schema SET version = 2");
    const std::map<std::string, std::string> before = files();
    EXPECT_EQ(repairs_in(check()), "tables: they are older than this program\n");
    EXPECT_EQ(files(), before);
    RawDatabase(path).query("UPDATE cubepi_native_schema SET version = 99");
    EXPECT_NE(damage_in(check()).find("of version 99"), std::string::npos);
}

TEST_F(SQLiteCheck, D209_MissingFile_IsNotCreated) {
    EXPECT_EQ(error_of(check_sqlite(path)).code(), ErrorCode::not_found);
    EXPECT_FALSE(std::filesystem::exists(path));
    std::ofstream(path) << "This is not a database, but a text that is long enough.";
    EXPECT_NE(damage_in(check()).find("not an SQLite database"), std::string::npos);
}

TEST_F(SQLiteCheck, D209_OverwrittenPages_AreDamageOfTheFile) {
    {
        SQLiteCheckpointer store(path);
        for (int i = 0; i < 200; ++i)
            run(store.append("t", one(user(std::string(500, 'x'))), AppendOptions()));
    }
    const auto size = std::filesystem::file_size(path);
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(size / 2));
    file << std::string(8192, '\xee');
    file.close();
    EXPECT_EQ(damage_in(check()).find("file: "), 0U) << damage_in(check());
}

/// A copy of the file and its journal in the middle of a transaction is what a killed process leaves.
TEST_F(SQLiteCheck, D209_InterruptedWrite_IsARepair) {
    {
        SQLiteCheckpointer store(path);
        run(store.append("t", one(user("stored")), AppendOptions()));
    }
    TempDirectory copies;
    const std::string copy = copies.file("copy.db");
    {
        RawDatabase raw(path);
        raw.query("PRAGMA cache_size = 5");
        raw.query("BEGIN IMMEDIATE");
        for (int i = 0; i < 100; ++i)
            raw.query("INSERT INTO messages (thread_id, message_json) VALUES ('t', '" +
                      std::string(2000, 'x') + "')");
        ASSERT_GT(std::filesystem::file_size(path + "-journal"), 0U);
        std::filesystem::copy_file(path, copy);
        std::filesystem::copy_file(path + "-journal", copy + "-journal");
    }
    const std::string journal = copy + "-journal";
    EXPECT_EQ(repairs_in(run(check_sqlite(copy))),
              "file: a write was interrupted, and its journal remains ('" + journal + "')\n");
    EXPECT_TRUE(std::filesystem::exists(journal)) << "a check only reads";
    EXPECT_EQ(run(SQLiteCheckpointer(copy).load("t"))->messages.size(), 1U);
    EXPECT_EQ(repairs_in(run(check_sqlite(copy))), "");
}

TEST_F(SQLiteCheck, D209_FileInUse_IsChecked) {
    SQLiteCheckpointer store(path);
    write_sound_threads(store);
    RawDatabase raw(path);
    raw.query("BEGIN IMMEDIATE");
    raw.query("UPDATE thread_extra SET extra_json = '{}'");
    EXPECT_EQ(numbers_in(check()).find("threads 3; messages 7; "), 0U);
    raw.query("ROLLBACK");
}

}  // namespace

}  // namespace cubepi
