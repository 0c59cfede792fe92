#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <latch>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/tape/tape_session.hpp>
#include <bub/tape/tape_test_support.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>
#include <cubepi/core/message.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/scoped_test_directory.hpp>

#include "config/store_locations.hpp"
#include "failure.hpp"
#include "program.hpp"
#include "saved_sessions.hpp"

// Sessions in a PostgreSQL database, through the commands of the program.

namespace cubepi::app {

namespace {

/// Tapes that record how they are listed.
class NotedLists : public bub::FileTapeStore {
public:
    using bub::FileTapeStore::FileTapeStore;
    using bub::SessionTapeStore::newest_tapes_after;
    Task<std::vector<bub::ListedTape>> newest_tapes_after(std::optional<bub::ListedTape> last,
                                                          std::size_t limit,
                                                          std::string prefix) override {
        prefixes.push_back(prefix);
        std::vector<bub::ListedTape> found =
            co_await bub::FileTapeStore::newest_tapes_after(last, limit, std::move(prefix));
        listed = found.size();
        co_return found;
    }

    std::vector<std::string> prefixes = {};
    std::size_t listed = 0;
};

class DamagedTapes : public bub::FileTapeStore {
public:
    using bub::FileTapeStore::FileTapeStore;
    Task<std::optional<bub::TapeEntry>> find(std::string tape, bub::TapeKey, std::string) override {
        throw CheckpointCorruptionError("damaged", std::move(tape), "test", "row");
    }
};

/// A session in the database of an older version, and directories in which it is continued.
class OldSession : public ::testing::Test {
protected:
    OldSession() {
        MessageList messages;
        messages.push_back(user_message("hi", "m1"));
        SQLiteCheckpointer store(database().string());
        run(store.append("notes", std::move(messages), AppendOptions()));
    }

    std::filesystem::path database() const { return root_ / "sessions.db"; }
    SavedSessions in_directory(const std::string& name) const {
        std::filesystem::create_directories(root_ / name);
        return SavedSessions(root_ / "tapes", database(), root_ / name);
    }
    /// How many messages the tape of that directory has, besides its anchor.
    static std::int64_t messages(SavedSessions& sessions) {
        bub::TapeCheckpointer memory(sessions.tapes());
        const auto data = run(memory.load(sessions.tape_of("notes")));
        if (!data) return 0;
        return std::count_if(data->messages.begin(), data->messages.end(),
                             [](const Message& message) { return message.id() == "m1"; });
    }

    /// As if the process had been killed before it recorded the source of the copy.
    static void forget_source(SavedSessions& sessions) {
        const auto forget = [](JsonObject& state) {
            state.at("session").as_object().erase("copied_from");
            return Json();
        };
        (void)run(sessions.tapes()->edit_state(sessions.tape_of("notes"), forget));
    }

    ScopedTestDirectory temporary_;
    const std::filesystem::path& root_ = temporary_.path();
};

TEST_F(OldSession, D20_SessionContinuedConcurrently_IsCopiedOnce) {
    constexpr int directories = 4;
    std::vector<SavedSessions> all;
    for (int i = 0; i < directories; ++i)
        all.push_back(in_directory("directory" + std::to_string(i)));
    std::vector<BroughtToTape> brought(directories);
    std::latch start(directories);
    {
        std::vector<std::jthread> threads;
        for (std::size_t i = 0; i < all.size(); ++i) {
            threads.emplace_back([&, i] {
                start.arrive_and_wait();
                brought[i] = run(all[i].bring_to_tape("notes"));
            });
        }
    }
    std::int64_t copies = 0;
    for (SavedSessions& one : all) copies += messages(one);
    EXPECT_EQ(copies, 1);
    EXPECT_EQ(std::count_if(brought.begin(), brought.end(),
                            [](const BroughtToTape& one) { return one.copied == 1; }),
              1);
    for (const BroughtToTape& one : brought) {
        const bool told = one.note.find("In this directory it starts empty") != std::string::npos;
        EXPECT_EQ(told, one.copied == 0) << one.note;
    }
}

TEST_F(OldSession, D75_UnclosedSessionOnFullDisk_IsDeleted) {
    {
        SavedSessions saved = in_directory("here");
        (void)run(saved.bring_to_tape("notes"));
        const std::filesystem::path turns =
            root_ / "tapes" / (saved.tape_of("notes") + ".jsonl.turns");
        std::filesystem::create_directory(turns);
        bub::TapeEntry entry = bub::message_entry("user", "unclosed");
        std::ofstream(turns / "t1.journal") << "{\"turn\": \"t1\"}\n" << bub::tape_line(entry);
    }
    std::filesystem::remove(database());
    const bub::FullDisk full;
    SavedSessions saved = in_directory("here");
    const std::vector<SavedSession> listed = run(saved.on_tapes(SessionsOf::directory));
    ASSERT_EQ(listed.size(), 1U);
    EXPECT_EQ(run(saved.tapes()->position(listed[0].tape)).messages, 1);
    const RemovedSession removed = run(saved.remove("notes"));
    EXPECT_EQ(removed.parts.size(), 1U);
    EXPECT_FALSE(removed.not_read);
    EXPECT_TRUE(run(saved.on_tapes(SessionsOf::directory)).empty());
}

TEST_F(OldSession, NameOfNewSession_NeedsNoList) {
    const auto tapes = std::make_shared<NotedLists>(root_ / "tapes");
    SavedSessions saved(tapes, database(), root_);
    EXPECT_EQ(run(saved.create_named("plan")), "plan");
    EXPECT_EQ(run(saved.create_named("plan")), "plan-2");
    EXPECT_TRUE(tapes->prefixes.empty());
    EXPECT_EQ(run(saved.create_named("notes")), "notes-2") << "in the database";
}

TEST_F(OldSession, LastSession_IsFoundByItsPrefix) {
    std::filesystem::remove(database());
    const auto tapes = std::make_shared<NotedLists>(root_ / "tapes");
    SavedSessions here(tapes, database(), root_ / "here");
    for (const char* const directory : {"here", "there"}) {
        SavedSessions saved(tapes, database(), root_ / directory);
        for (int i = 0; i < 40; ++i) {
            const std::string name = run(saved.create_named("plan"));
            std::vector<bub::TapeEntry> entries = {bub::message_entry("user", "hi")};
            (void)run(tapes->append(saved.tape_of(name), std::move(entries), bub::TapeAppend()));
        }
    }
    tapes->prefixes.clear();
    EXPECT_EQ(run(here.last()).name, "plan-40");
    EXPECT_EQ(tapes->prefixes, std::vector<std::string>{here.tape_prefix()});
    EXPECT_EQ(tapes->listed, 16U);
    EXPECT_EQ(run(here.on_tapes(SessionsOf::directory)).size(), 40U);
    EXPECT_EQ(run(here.on_tapes(SessionsOf::directory, 3)).size(), 3U);
    EXPECT_EQ(run(here.on_tapes(SessionsOf::program)).size(), 80U);
}

/// The tape had messages before an older version stored a session of the same name.
TEST_F(OldSession, D20_OtherSessionOfTheName_IsNotDeleted) {
    SavedSessions saved = in_directory("here");
    EXPECT_EQ(run(saved.create_named("notes")), "notes-2") << "only by an older version";
    bub::TapeSession session;
    session.id = session_id_of("notes");
    session.workspace = (root_ / "here").string();
    const auto note = [session](JsonObject& state) {
        bub::note_session(state, session);
        return Json();
    };
    const std::string tape = saved.tape_of("notes");
    (void)run(saved.tapes()->edit_state(tape, note));
    std::vector<bub::TapeEntry> entries = {bub::message_entry("user", "another conversation")};
    (void)run(saved.tapes()->append(tape, std::move(entries), bub::TapeAppend()));
    const RemovedSession first = run(saved.remove("notes"));
    ASSERT_EQ(first.parts.size(), 1U);
    EXPECT_EQ(first.parts[0], "its tape " + tape);
    const std::vector<SavedSession> left = run(saved.in_database());
    ASSERT_EQ(left.size(), 1U);
    EXPECT_EQ(left[0].name, "notes");
    const RemovedSession second = run(saved.remove("notes"));
    ASSERT_EQ(second.parts.size(), 1U);
    EXPECT_EQ(second.parts[0], "its messages in " + database().string());
    EXPECT_TRUE(run(saved.in_database()).empty());
}

TEST_F(OldSession, D20_CopiedSession_IsDeletedInBothPlaces) {
    SavedSessions saved = in_directory("here");
    EXPECT_EQ(run(saved.bring_to_tape("notes")).copied, 1U);
    EXPECT_EQ(run(saved.remove("notes")).parts.size(), 2U);
    EXPECT_TRUE(run(saved.in_database()).empty());
}

TEST_F(OldSession, D20_ProcessDeathAfterCopy_CopiesNothingAgain) {
    SavedSessions first = in_directory("first");
    EXPECT_EQ(run(first.bring_to_tape("notes")).copied, 1u);
    forget_source(first);
    SavedSessions second = in_directory("second");
    const BroughtToTape brought = run(second.bring_to_tape("notes"));
    EXPECT_EQ(brought.copied, 0u);
    EXPECT_NE(brought.note.find((root_ / "first").string()), std::string::npos) << brought.note;
    EXPECT_EQ(messages(second), 0);
    EXPECT_EQ(run(first.bring_to_tape("notes")).copied, 0u);
    const JsonObject state = run(first.tapes()->read_state(first.tape_of("notes")));
    EXPECT_EQ(bub::session_of(state)->copied_from, database().string()) << "it is recorded now";
    EXPECT_EQ(messages(first), 1);
}

TEST_F(OldSession, DamagedTape_PreventsNoNewSession) {
    SavedSessions first = in_directory("first");
    EXPECT_EQ(run(first.bring_to_tape("notes")).copied, 1u);
    forget_source(first);
    std::filesystem::create_directory(root_ / "second");
    SavedSessions second(std::make_shared<DamagedTapes>(root_ / "tapes"), database(),
                         root_ / "second");
    EXPECT_THROW(run(second.bring_to_tape("notes")), CheckpointCorruptionError);
    EXPECT_EQ(run(second.create_named("notes")), "notes-2");
}

TEST(SessionName, NewName_ComesFromFirstWordsOfPrompt) {
    EXPECT_EQ(session_name_from("What does this project do?"), "what-does-this-project-do");
    EXPECT_EQ(session_name_from("Don't  panic:\n\tfix src/a.cpp, then run all of the tests"),
              "dont-panic-fix-src-a-cpp");
    EXPECT_EQ(session_name_from("这个项目是做什么的？"), "这个项目是做什么的");
    EXPECT_EQ(session_name_from("Größe ändern"), "größe-ändern");
    EXPECT_EQ(session_name_from("$(touch x) \x1b[31m`y`"), "touch-x-31m-y");
    EXPECT_EQ(session_name_from("../../etc/passwd"), "etc-passwd");
    EXPECT_EQ(session_name_from("\n\n@a.cpp why\n\n<file name=\"a.cpp\">\nint x;"), "a-cpp-why");
    EXPECT_EQ(session_name_from("\xff\xfe \u202E ?!"), "chat");
    EXPECT_EQ(session_name_from(""), "chat");
    EXPECT_LE(session_name_from(std::string(500, 'x')).size(), 40u);
}

TEST_F(OldSession, NewSession_GetsAnUnusedName) {
    SavedSessions here = in_directory("here");
    EXPECT_EQ(run(here.create("fix it")), "fix-it");
    EXPECT_EQ(run(here.create("Fix it!")), "fix-it-2");
    EXPECT_EQ(run(in_directory("other").create("fix it")), "fix-it") << "by directory";
    EXPECT_EQ(run(here.create("notes")), "notes-2") << "the database has one";
}

TEST_F(OldSession, SessionOfCommands_IsNamedAfterItsPrompt) {
    SavedSessions here = in_directory("here");
    const auto add = [&here](const std::string& name, std::vector<bub::TapeEntry> entries) {
        (void)run(here.tapes()->append(here.tape_of(name), std::move(entries), bub::TapeAppend()));
    };
    EXPECT_EQ(run(here.create("")), "chat");
    add("chat", {bub::event_entry("command", {{"name", "model"}}),
                 bub::event_entry("model_switch", {{"model", "m"}})});
    EXPECT_EQ(run(here.name_after("chat", "!?")), "chat");
    EXPECT_EQ(run(here.name_after("chat", "fix it")), "fix-it");
    const auto moved = run(here.tapes()->find_event(here.tape_of("fix-it"), "model_switch"));
    EXPECT_TRUE(moved && moved->id == 2);
    EXPECT_EQ(run(here.create("")), "chat") << "its tape is removed";
    add("chat", {bub::event_entry("command", {{"name", "shell"}})});
    EXPECT_EQ(run(here.name_after("chat", "fix it")), "chat") << "the changes can be undone there";
    EXPECT_EQ(run(here.name_after("plan", "fix it")), "plan");
}

TEST_F(OldSession, ProcessesStartingTogether_GetDifferentNames) {
    constexpr std::size_t chats = 6;
    std::vector<std::string> names(chats);
    std::latch start(chats);
    {
        std::vector<std::jthread> threads;
        for (std::size_t i = 0; i < chats; ++i) {
            threads.emplace_back([&, i] {
                SavedSessions sessions = in_directory("here");
                start.arrive_and_wait();
                names[i] = run(sessions.create("fix it"));
            });
        }
    }
    std::sort(names.begin(), names.end());
    EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
}

TEST_F(OldSession, UnwritablePlace_IsNamed) {
    EXPECT_EQ(in_directory("here").obstacle(), "");
    EXPECT_FALSE(std::filesystem::exists(root_ / "tapes"));
    const SavedSessions in_a_file(database() / "tapes", database(), root_);
    EXPECT_NE(in_a_file.obstacle().find(database().string()), std::string::npos);
}

TEST_F(OldSession, NewSession_LeavesNoOtherFiles) {
    SavedSessions here = in_directory("here");
    EXPECT_EQ(run(here.bring_to_tape("another")).copied, 0u);
    EXPECT_FALSE(std::filesystem::exists(root_ / "tapes"));
}

struct Ran {
    int status = -1;
    std::string out = {};
    std::string err = {};

    bool mentions(const std::string& text) const {
        return (out + err).find(text) != std::string::npos;
    }
};

/// Sets a variable for the test.
class Variable {
public:
    Variable(const char* name, const std::string& value) : name_(name) {
        const char* const before = std::getenv(name);
        had_ = before != nullptr;
        if (had_) before_ = before;
        setenv(name, value.c_str(), 1);
    }
    ~Variable() {
        if (had_) {
            setenv(name_, before_.c_str(), 1);
        } else {
            unsetenv(name_);
        }
    }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;

private:
    const char* name_;
    bool had_ = false;
    std::string before_;
};

class ServerSessions : public ::testing::Test {
protected:
    ServerSessions()
        : home_("BUB_HOME", file("bub")),
          config_("XDG_CONFIG_HOME", file("config")),
          data_("XDG_DATA_HOME", file("data")) {}
    ~ServerSessions() override { set_tape_database({}); }

    std::string file(const std::string& name) const { return (directory_.path() / name).string(); }

    static Ran command(std::vector<std::string> words) {
        words.insert(words.begin(), "cubepi");
        std::vector<char*> arguments;
        for (std::string& word : words) arguments.push_back(word.data());
        Ran ran;
        ::testing::internal::CaptureStdout();
        ::testing::internal::CaptureStderr();
        ran.status = run_program(static_cast<int>(arguments.size()), arguments.data());
        ran.out = ::testing::internal::GetCapturedStdout();
        ran.err = ::testing::internal::GetCapturedStderr();
        EXPECT_FALSE(ran.mentions("hidden-word")) << ran.out << ran.err;
        return ran;
    }
    /// The URL of a database; with a password that no output may contain.
    static std::string url_of(const std::string& database) {
        PostgresServer& server = PostgresServer::shared();
        const std::string connection = server.connection(database);
        const std::size_t at = connection.find("user=");
        std::string user = "postgres";
        if (at != std::string::npos)
            user = connection.substr(at + 5, connection.find(' ', at) - at - 5);
        std::string host;
        for (const char c : server.socket_directory()) host += c == '/' ? "%2F" : std::string(1, c);
        return "postgres://" + user + ":hidden-word@" + host + "/" + database;
    }
    static std::string new_url() {
        return url_of(PostgresServer::shared().create_empty_database());
    }
    void configure(const std::string& text) const {
        std::filesystem::create_directories(file("config/cubepi"));
        std::ofstream(file("config/cubepi/config.yaml")) << text;
        std::filesystem::permissions(
            file("config/cubepi/config.yaml"),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    }
    bool has_files() const { return std::filesystem::exists(file("bub/tapes")); }

    ScopedTestDirectory directory_;
    Variable home_;
    Variable config_;
    Variable data_;
};

TEST_F(ServerSessions, SessionOnServer_IsNotInFiles) {
    const std::string url = new_url();
    EXPECT_EQ(command({"db", "init", "--tapes", url}).status, exit_ok);
    for (int i = 0; i < 2; ++i) {
        const Ran ran = command({"run", "--offline", "--db", url, "--session", "plan", "hello"});
        EXPECT_EQ(ran.status, exit_ok) << ran.err;
    }
    EXPECT_FALSE(has_files());
    const Ran sessions = command({"sessions", "list", "--db", url});
    EXPECT_EQ(sessions.status, exit_ok);
    EXPECT_NE(sessions.out.find("plan\t"), std::string::npos) << sessions.out;
    EXPECT_NE(sessions.out.find("\t4 messages\t"), std::string::npos) << sessions.out;
    EXPECT_EQ(command({"sessions", "list"}).out, "");
    const Ran shown = command({"tape", "show", "--session", "plan", "--db", url});
    EXPECT_NE(shown.out.find("user: hello"), std::string::npos) << shown.out << shown.err;
    EXPECT_TRUE(command({"tape", "list", "--db", url}).mentions(" bytes\t"));
    EXPECT_EQ(command({"inbox", "--db", url}).status, exit_ok);
    EXPECT_EQ(command({"sessions", "delete", "plan", "--db", url}).status, exit_ok);
    EXPECT_EQ(command({"sessions", "list", "--db", url}).out, "");
}

TEST_F(ServerSessions, Configuration_NamesTheDatabase) {
    configure("database: " + new_url() + "\n");
    const Ran missing = command({"run", "--offline", "--session", "plan", "hello"});
    EXPECT_EQ(missing.status, exit_storage) << missing.err;
    EXPECT_TRUE(missing.mentions("cubepi db init --tapes")) << missing.err;
    EXPECT_TRUE(command({"doctor"}).mentions("cubepi db init"));
    EXPECT_EQ(command({"db", "init"}).status, exit_ok);
    EXPECT_EQ(command({"run", "--offline", "--session", "plan", "hello"}).status, exit_ok);
    const Ran doctor = command({"doctor"});
    EXPECT_TRUE(doctor.mentions("(config.yaml)")) << doctor.out;
    EXPECT_TRUE(doctor.mentions("1 session, 1 of this directory")) << doctor.out;
    EXPECT_FALSE(has_files());
    configure("database: mysql://me:hidden-word@localhost/x\n");
    const Ran wrong = command({"sessions", "list"});
    EXPECT_NE(wrong.status, exit_ok);
    EXPECT_TRUE(wrong.mentions("the value is not the URL of a PostgreSQL database")) << wrong.err;
}

TEST_F(ServerSessions, UnusableServer_IsAnErrorWithNextStep) {
    const std::string url = new_url();
    const std::string gone = url.substr(0, url.rfind('/')) + "/no_such_database";
    const Ran ran = command({"run", "--offline", "--db", gone, "--session", "plan", "hello"});
    EXPECT_EQ(ran.status, exit_storage) << ran.err;
    EXPECT_TRUE(ran.mentions("no_such_database")) << ran.err;
    const Ran doctor = command({"doctor", "--db", gone});
    EXPECT_TRUE(doctor.mentions("no_such_database")) << doctor.out;
    EXPECT_TRUE(doctor.mentions("(--db)")) << doctor.out;
    EXPECT_EQ(command({"run", "--db", "mysql://me:hidden-word@localhost/x", "hello"}).status,
              exit_usage);
    EXPECT_EQ(command({"tape", "list", "--db", "hidden-word"}).status, exit_usage);
}

TEST_F(ServerSessions, SlashInPassword_IsRefusedByName) {
    const std::string url = "postgres://me:hidden/word@127.0.0.1:1/x";
    const Ran flag = command({"sessions", "list", "--db", url});
    EXPECT_EQ(flag.status, exit_usage);
    EXPECT_TRUE(flag.mentions("--db: ")) << flag.err;
    const Ran target = command({"tape", "copy", url, "--all"});
    configure("database: " + url + "\n");
    for (const Ran& ran : {flag, target, command({"sessions", "list"}), command({"doctor"})}) {
        EXPECT_NE(ran.status, exit_ok);
        EXPECT_TRUE(ran.mentions("a '/' in a password as %2F")) << ran.out << ran.err;
        EXPECT_FALSE(ran.mentions("word@")) << ran.out << ran.err;
        EXPECT_FALSE(ran.mentions("hidden")) << ran.out << ran.err;
    }
}

TEST_F(ServerSessions, Doctor_ReportsTheVersionOfTheTables) {
    const std::string database = PostgresServer::shared().create_empty_database();
    const std::string url = url_of(database);
    EXPECT_EQ(command({"db", "init", "--tapes", url}).status, exit_ok);
    RawPostgres server(PostgresServer::shared().connection(database));
    server.query("DELETE FROM bub_schema WHERE version = 2");
    server.query("UPDATE bub_schema SET version = 1");
    EXPECT_TRUE(command({"doctor", "--db", url}).mentions("cubepi db migrate --tapes"));
    server.query("UPDATE bub_schema SET version = 70");
    EXPECT_TRUE(command({"doctor", "--db", url}).mentions("newer than this program knows"));
}

TEST_F(ServerSessions, Tapes_AreCopiedToServerAndBack) {
    const std::string url = new_url();
    EXPECT_EQ(command({"db", "init", "--tapes", url}).status, exit_ok);
    EXPECT_EQ(command({"run", "--offline", "--session", "plan", "hello"}).status, exit_ok);
    EXPECT_TRUE(has_files());
    const Ran copied = command({"tape", "copy", url, "--session", "plan"});
    EXPECT_EQ(copied.status, exit_ok) << copied.err;
    EXPECT_TRUE(copied.mentions(" entries\n")) << copied.out;
    EXPECT_TRUE(command({"tape", "copy", url, "--all"}).mentions("nothing new"));
    const Ran more = command({"run", "--offline", "--db", url, "--session", "plan", "and then?"});
    EXPECT_EQ(more.status, exit_ok) << more.err;
    const Ran longer = command({"tape", "copy", url, "--all"});
    EXPECT_EQ(longer.status, exit_storage);
    EXPECT_TRUE(longer.mentions("is longer")) << longer.err;
    EXPECT_TRUE(longer.mentions("--force")) << longer.err;
    EXPECT_EQ(command({"tape", "copy", "files", "--all", "--db", url}).status, exit_ok);
    const auto lines = [](std::vector<std::string> words) {
        for (const char* word : {"tape", "export", "--session", "plan"}) words.emplace_back(word);
        std::rotate(words.begin(), words.end() - 4, words.end());
        return command(std::move(words)).out;
    };
    EXPECT_EQ(lines({}), lines({"--db", url}));
    EXPECT_NE(lines({}).find("and then?"), std::string::npos);
    EXPECT_EQ(command({"tape", "copy", "files", "--all"}).status, exit_usage) << "the same place";
    EXPECT_EQ(command({"tape", "copy", url}).status, exit_usage) << "nothing named";
}

}  // namespace

}  // namespace cubepi::app
