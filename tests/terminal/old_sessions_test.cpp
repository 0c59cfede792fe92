// Sessions that older versions saved in SQLite: found, and copied to a tape on their first use.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include <sqlite3.h>

#include <cubepi/checkpoint/sqlite_checkpointer.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/faux.hpp>

#include "terminal.hpp"

namespace cubepi::terminal_tests {
namespace {

/// A home with what an older version left.
class OldSessions : public ::testing::Test {
protected:
    void keep(const std::string& name, const std::string& prompt) {
        std::filesystem::create_directories(home.database().parent_path());
        SQLiteCheckpointer store(home.database().string());
        MessageList messages;
        messages.push_back(user_message(prompt));
        messages.push_back(faux_assistant_message("I have heard " + prompt));
        cubepi::run(store.append(name, std::move(messages), AppendOptions()));
    }
    Piped say(std::vector<std::string> flags, const std::string& prompt = "and now?") {
        flags.insert(flags.begin(), {"run", "--offline"});
        flags.push_back(prompt);
        return run_piped(home, std::move(flags));
    }
    std::string listed() { return run_piped(home, {"sessions", "list"}).out; }
    /// The current input of a model.
    std::string context(const std::string& session) {
        return run_piped(home, {"tape", "export", "--messages", "--session", session}).out;
    }
    static bool has(const std::string& text, const std::string& part) {
        return text.find(part) != std::string::npos;
    }

    Home home;
};

TEST_F(OldSessions, ContinueCopiesThemToATapeOnceAndSaysSo) {
    keep("plan", "buy grease");
    const std::string before = read_file(home.database());
    EXPECT_TRUE(has(listed(), "plan\t")) << listed();
    EXPECT_TRUE(has(listed(), "2 messages\t" + home.database().string())) << listed();
    const Piped first = say({"--continue"});
    EXPECT_EQ(first.status, 0) << first.err;
    EXPECT_TRUE(has(first.err, "Copied 2 messages of session plan from " +
                                   home.database().string() + " to its tape.\n"))
        << first.err;
    EXPECT_TRUE(has(context("plan"), "buy grease")) << context("plan");
    EXPECT_TRUE(has(context("plan"), "and now?"));
    const Piped second = say({"--continue"}, "again");
    EXPECT_EQ(second.status, 0) << second.err;
    EXPECT_FALSE(has(second.err, "Copied")) << second.err;
    EXPECT_EQ(read_file(home.database()), before) << "it is only read";
    EXPECT_FALSE(has(listed(), home.database().string())) << listed();
    EXPECT_TRUE(has(listed(), "6 messages\ttape ")) << listed();
}

TEST_F(OldSessions, AreFoundByTheirName) {
    keep("plan", "buy grease");
    keep("other", "paint the door");
    const Piped named = say({"--session", "plan"});
    EXPECT_EQ(named.status, 0) << named.err;
    EXPECT_TRUE(has(named.err, "Copied 2 messages of session plan")) << named.err;
    EXPECT_FALSE(has(context("plan"), "paint the door"));
    const Piped fresh = say({"--session", "new"});
    EXPECT_EQ(fresh.status, 0) << fresh.err;
    EXPECT_FALSE(has(fresh.err, "Copied")) << fresh.err;
    EXPECT_TRUE(has(say({"--session", "other"}).err, "Copied 2 messages of session other"));
}

TEST_F(OldSessions, TheLastUsedOneIsContinuedInAnyStore) {
    EXPECT_EQ(say({"--session", "taped"}).status, 0);
    keep("plan", "buy grease");
    EXPECT_TRUE(has(say({"--continue"}).err, "session plan")) << "SQLite was used last";
    EXPECT_EQ(say({"--session", "taped"}).status, 0);
    EXPECT_EQ(say({"--continue"}, "on the tape").status, 0);
    EXPECT_TRUE(has(context("taped"), "on the tape"));
}

TEST_F(OldSessions, ATapeOfTheNameWins) {
    EXPECT_EQ(say({"--session", "plan"}, "on the tape").status, 0);
    keep("plan", "buy grease");
    const Piped run = say({"--session", "plan"});
    EXPECT_EQ(run.status, 0);
    EXPECT_FALSE(has(run.err, "Copied")) << run.err;
    EXPECT_FALSE(has(context("plan"), "buy grease"));
}

TEST_F(OldSessions, AreCopiedToOneDirectoryOnly) {
    keep("plan", "buy grease");
    EXPECT_EQ(say({"--session", "plan"}).status, 0);
    const std::string first_directory = home.work().string();
    home.work_in("elsewhere");
    EXPECT_EQ(say({"--continue"}).status, 1) << "it belongs to the other directory now";
    const Piped here = say({"--session", "plan"});
    EXPECT_EQ(here.status, 0);
    EXPECT_TRUE(has(here.err, "a tape of " + first_directory)) << here.err;
    EXPECT_FALSE(has(context("plan"), "buy grease"));
    EXPECT_FALSE(has(say({"--session", "plan"}).err, first_directory))
        << "the notice appears only once";
    EXPECT_EQ(run_piped(home, {"sessions", "delete", "plan"}).status, 0);
    home.work_in("work");
    EXPECT_TRUE(has(context("plan"), "buy grease")) << "it was the other directory's";
}

TEST_F(OldSessions, DeletingTakesTheOldMessagesToo) {
    keep("plan", "buy grease");
    keep("other", "paint the door");
    EXPECT_EQ(say({"--session", "plan"}).status, 0);
    for (const char* name : {"plan", "other"}) {
        const Piped deleted = run_piped(home, {"sessions", "delete", name});
        EXPECT_EQ(deleted.status, 0) << deleted.err;
        EXPECT_TRUE(has(deleted.err, home.database().string())) << deleted.err;
    }
    EXPECT_EQ(listed(), "");
    EXPECT_EQ(say({"--continue"}).status, 1);
}

TEST_F(OldSessions, ATapeNeedsNoDatabaseThatCanBeRead) {
    EXPECT_EQ(say({"--session", "plan"}).status, 0);
    const std::string junk(5000, 'x');
    write_file(home.database(), junk);
    EXPECT_EQ(say({"--session", "plan"}).status, 0);
    const Piped last = say({"--continue"});
    EXPECT_EQ(last.status, 0) << last.err;
    EXPECT_TRUE(has(last.err, "were not read")) << last.err;
    const Piped list = run_piped(home, {"sessions", "list"});
    EXPECT_EQ(list.status, 4);
    EXPECT_TRUE(has(list.out, "plan\t")) << list.out;
    EXPECT_TRUE(has(list.err, home.database().string())) << list.err;
    EXPECT_EQ(run_piped(home, {"sessions", "delete", "plan"}).status, 4);
    EXPECT_EQ(run_piped(home, {"sessions", "list"}).out, "") << "the tape is gone all the same";
    EXPECT_EQ(read_file(home.database()), junk) << "it is not ours to repair";
}

TEST_F(OldSessions, ADatabaseThatIsNoneIsStatusFourWhereItIsNeeded) {
    const std::string junk(5000, 'x');
    write_file(home.database(), junk);
    for (const char* flag : {"--session=plan", "--continue"}) {
        const Piped run = say({flag});
        EXPECT_EQ(run.status, 4) << run.err;
        EXPECT_TRUE(has(run.err, "mv " + home.database().string())) << run.err;
    }
    EXPECT_EQ(say({}).status, 0) << "not needed without a session";
    EXPECT_EQ(read_file(home.database()), junk) << "it is not ours to repair";
}

TEST_F(OldSessions, ALockedDatabaseIsStatusFourAndLosesNothing) {
    keep("plan", "buy grease");
    EXPECT_EQ(say({"--session", "taped"}).status, 0);
    sqlite3* other = nullptr;
    ASSERT_EQ(sqlite3_open(home.database().c_str(), &other), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(other, "BEGIN EXCLUSIVE", nullptr, nullptr, nullptr), SQLITE_OK);
    const Piped locked = say({"--session", "plan"});
    const Piped taped = say({"--session", "taped"});
    sqlite3_close(other);
    EXPECT_EQ(locked.status, 4) << locked.err;
    EXPECT_TRUE(has(locked.err, "another process holds")) << locked.err;
    EXPECT_EQ(taped.status, 0) << taped.err;
    EXPECT_TRUE(has(say({"--session", "plan"}).err, "Copied 2 messages"));
}

TEST_F(OldSessions, AChatSaysItToo) {
    keep("plan", "buy grease");
    Terminal chat(home, {"chat", "--offline", "--continue"}, 200);
    ASSERT_TRUE(chat.expect_on_screen("Session: plan")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("Copied 2 messages of session plan")) << chat.screen().text();
    chat.type("hello\r");
    ASSERT_TRUE(chat.expect_on_screen("You wrote: hello")) << chat.screen().text();
    chat.type("\x04");
    EXPECT_EQ(chat.wait(), 0);
    EXPECT_TRUE(has(context("plan"), "hello"));
}

}  // namespace
}  // namespace cubepi::terminal_tests
