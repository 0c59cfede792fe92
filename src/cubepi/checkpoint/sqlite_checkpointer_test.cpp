#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/agent/transcript.hpp>
#include <cubepi/checkpoint/format/stored_message_reader.hpp>
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>
#include <cubepi/checkpoint/store_fixtures_test.hpp>
#include <cubepi/checkpoint/store_support_test.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/hitl/suspension_test_support.hpp>
#include <cubepi/schema/python_json.hpp>
#include <cubepi/testing/manual_clock.hpp>
#include <cubepi/testing/store_conformance.hpp>

// The conformance suite, a suspended agent whose stored request is damaged, and files that Python CubePi wrote: they load with
// equal content, and can be written on.

namespace cubepi {

namespace {

using namespace hitl_test;
using Words = std::vector<std::string>;

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

TEST(SQLiteCheckpointer, Store_ConformsToTheContract) {
    expect_conformance([](std::string path) {
        SQLiteOptions options;
        options.path = std::move(path);
        return options;
    });
}

TEST(SQLiteCheckpointer, StoreWithWriteAheadLog_ConformsToContract) {
    expect_conformance([](std::string path) {
        SQLiteOptions options;
        options.path = "file:" + path + "?cache=private";
        options.wal = true;
        options.synchronous = SQLiteSynchronous::normal;
        return options;
    });
}

TEST(SQLiteCheckpointer, D48_InMemoryStore_ConformsToTheContract) {
    testing::StoreUnderTest subject;
    subject.make = [] { return std::make_shared<SQLiteCheckpointer>(":memory:"); };
    for (const testing::StoreFailure& failure : testing::check_store(subject)) {
        ADD_FAILURE() << failure.check << ": " << failure.text;
    }
}

TEST(SQLiteCheckpointer, D48_Constructor_DoesNoIo) {
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

TEST(SQLiteCheckpointer, D48_FailedOpen_CanBeRetried) {
    TempDirectory directory;
    SQLiteCheckpointer store(directory.file("later/sessions.db"));
    EXPECT_EQ(error_of(store.open()).code(), ErrorCode::not_found);
    std::filesystem::create_directory(directory.file("later"));
    run(store.open());
    run(store.append("t", one(user("hello")), AppendOptions()));
}

TEST(SQLiteCheckpointer, D21_Open_CreatesTheTablesOfCubePi) {
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

TEST(SQLiteCheckpointer, D21_Append_WritesRowsLikeCubePi) {
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

TEST(SQLiteCheckpointer, D42_MessageIds_AreInAnIndexedColumn) {
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

TEST(SQLiteCheckpointer, D21_RowsAppendedByCubePi_AreRead) {
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

struct SQLiteSuspension : ::testing::Test {
    TempDirectory directory;
    std::string path = directory.file("sessions.db");
    std::shared_ptr<SQLiteCheckpointer> store = std::make_shared<SQLiteCheckpointer>(path);
    FauxProvider faux;
    Words effects;

    /// Suspends a run with two gated calls, and damages the request of one.
    void suspend_and_damage(const std::string& question_id) {
        faux.set_responses({calling({rm_call("/a", "c1"), rm_call("/b", "c2")}), "done", "done"});
        Process first(store, faux, effects);
        EXPECT_EQ(first.prompt_and_detach(2).outcome, RunOutcome::suspended);
        RawDatabase(path).query(
            "UPDATE cubepi_native_pending SET request_json = '{' WHERE question_id = '" +
            question_id + "'");
    }
    void expect_damaged(Task<RunResult> task, Process& process) {
        try {
            (void)process.run_with(std::move(task), {});
            ADD_FAILURE() << "nothing was thrown";
        } catch (const CheckpointCorruptionError& error) {
            const std::string text = error.what();
            EXPECT_NE(text.find("cubepi_native_pending.id="), std::string::npos) << text;
            EXPECT_NE(text.find("discard_requests"), std::string::npos) << text;
        }
        EXPECT_TRUE(effects.empty());
    }
    MessageList history() { return run(store->load("t"))->messages; }
};

TEST_F(SQLiteSuspension, D62_DamagedRequest_IsReportedAndThreadUnchanged) {
    for (const char* question : {"c1", "c2"}) {
        suspend_and_damage(question);
        const MessageList before = history();
        Process second(store, faux, effects);
        expect_damaged(second.agent->prompt("hi"), second);
        PromptOptions abandoning = PromptOptions().abandon_pending();
        expect_damaged(second.agent->prompt("hi", std::move(abandoning)), second);
        expect_damaged(second.agent->respond("c1", approve()), second);
        expect_damaged(second.agent->resume(), second);
        EXPECT_TRUE(history() == before);
        run(store->delete_thread("t"));
    }
}

TEST_F(SQLiteSuspension, D1_DiscardedRequests_LeaveTheThreadUsable) {
    for (const bool resumes : {false, true}) {
        suspend_and_damage("c1");
        EXPECT_EQ(run(store->discard_requests("t")), 2u);
        Process second(store, faux, effects);
        const RunResult result =
            resumes ? second.run_with(second.agent->resume(), {}) : second.prompt();
        EXPECT_EQ(result.outcome, RunOutcome::completed);
        EXPECT_EQ(result.text(), "done");
        EXPECT_TRUE(effects.empty()) << "no effect without its approval";
        EXPECT_TRUE(is_legal_transcript(history())) << "the calls were interrupted";
        run(store->delete_thread("t"));
    }
}

TEST_F(SQLiteSuspension, D17_AnswerToUnreadableRequest_IsNotUsed) {
    faux.set_responses({calling({rm_call("/a", "c1")}), "done", "done"});
    Process first(store, faux, effects);
    const RunResult suspended = first.prompt_and_detach();
    AnswerRecord record;
    record.run_id = suspended.run_id;
    record.question_id = "c1";
    record.answer = approve();
    run(store->answer_request("t", std::move(record)));
    RawDatabase(path).query("UPDATE cubepi_native_answers SET request_json = '{'");
    Process second(store, faux, effects);
    int asked = 0;
    (void)second.run_with(second.agent->resume(), [&](const HitlRequest& request) {
        ++asked;
        second.answer(request.question_id, deny("no"));
    });
    EXPECT_EQ(asked, 1);
    EXPECT_TRUE(effects.empty());
}

std::vector<std::string> fixture_names() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(databases)) {
        if (entry.path().extension() == ".sqlite") names.push_back(entry.path().stem().string());
    }
    std::sort(names.begin(), names.end());
    return names;
}

class Fixture : public ::testing::TestWithParam<std::string> {
protected:
    void SetUp() override {
        for (const char* suffix : {".sqlite", ".sqlite-wal"}) {
            const std::filesystem::path source = databases / (GetParam() + suffix);
            if (!std::filesystem::exists(source)) continue;
            std::ofstream(directory.file(GetParam() + suffix), std::ios::binary)
                << read_file(source);
        }
        wanted =
            parse_lenient(read_file(databases / (GetParam() + ".json"))).at("threads").as_object();
    }
    std::string path() const { return directory.file(GetParam() + ".sqlite"); }

    TempDirectory directory;
    JsonObject wanted;
};

TEST_P(Fixture, D21_RecordedDatabase_LoadsWithEqualContent) {
    SQLiteCheckpointer store(path());
    for (const auto& [key, value] : wanted) {
        const std::string thread_id = key;
        const JsonObject& thread = value.as_object();
        if (thread.contains("error")) {
            const auto error = error_of<CheckpointCorruptionError>(store.load(thread_id));
            EXPECT_EQ(error.row_ref(), thread.at("row_ref").as_string());
            EXPECT_EQ(error.backend(), thread.at("backend").as_string());
            EXPECT_EQ(error.thread_id(), thread_id);
            continue;
        }
        expect_thread(store, thread_id, thread);
        expect_approvers(store, thread_id, thread);
        expect_runs(store, thread_id, thread);
    }
}

TEST_P(Fixture, D21_Append_LeavesRowsOfCubePiUnchanged) {
    const std::string rows =
        "SELECT id, thread_id, message_json, created_at, run_id FROM messages WHERE thread_id"
        " <> 'new' AND message_json NOT LIKE '%written on%' ORDER BY id";
    const bool has_run_ids = GetParam().rfind("old-schema", 0) != 0;
    std::vector<std::string> before;
    if (has_run_ids) before = RawDatabase(path()).query(rows);
    const auto extras = RawDatabase(path()).query(
        "SELECT thread_id, extra_json FROM thread_extra ORDER BY thread_id");
    {
        SQLiteCheckpointer store(path());
        for (const auto& [key, value] : wanted) {
            if (!value.as_object().contains("error")) write_on(store, key);
        }
    }
    if (has_run_ids) {
        EXPECT_EQ(RawDatabase(path()).query(rows), before);
    }
    const auto extras_after = RawDatabase(path()).query(
        "SELECT thread_id, extra_json FROM thread_extra ORDER BY thread_id");
    for (std::size_t i = 0; i + 1 < extras.size(); i += 2) {
        const auto row = std::find(extras_after.begin(), extras_after.end(), extras[i]);
        ASSERT_NE(row, extras_after.end());
        EXPECT_EQ(*(row + 1), extras[i + 1]) << "extra that did not change keeps its text";
    }
    EXPECT_EQ(RawDatabase(path()).query("PRAGMA integrity_check").front(), "ok");
}

TEST_P(Fixture, RecordedRows_EqualThePlainReader) {
    RawDatabase raw(path());
    detail::StoredMessageReader reader;
    for (const std::string& text : raw.query("SELECT message_json FROM messages")) {
        std::optional<Message> slow;
        try {
            slow = message_from_json(parse_lenient(text));
        } catch (const Error&) {
            EXPECT_THROW(reader.read(text), Error) << text;
        }
        if (slow) {
            EXPECT_EQ(to_json(reader.read(text)), to_json(*slow)) << text;
        }
    }
}

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
    std::string name = info.param;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

INSTANTIATE_TEST_SUITE_P(Databases, Fixture, ::testing::ValuesIn(fixture_names()), test_name);

TEST(Fixtures, RecordedDatabases_Exist) { EXPECT_GE(fixture_names().size(), 15U); }

}  // namespace

}  // namespace cubepi
