// Conversations that are saved, also those that older versions saved in SQLite: found, and copied to a tape on their first use.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <sqlite3.h>
#include <sys/stat.h>

#include <cubepi/checkpoint/sqlite_checkpointer.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/faux.hpp>

#include "terminal.hpp"

namespace cubepi::terminal_tests {
namespace {

std::string calls_shell(const std::string& command) {
    Json call;
    call = {{"stop_reason", "tool_use"},
            {"content",
             {{{"type", "tool_call"},
               {"id", "c1"},
               {"name", "shell"},
               {"arguments", {{"command", command}}}}}}};
    return boost::json::serialize(call);
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

/// The current input of a model.
std::string context_of(const Home& home, const std::string& session) {
    return run_piped(home, {"tape", "export", "--messages", "--session", session}).out;
}

TEST(Sessions, Sessions_AreSavedContinuedListedAndDeleted) {
    const Home home;
    EXPECT_EQ(run_piped(home, {"sessions", "list"}).status, 0);
    EXPECT_EQ(run_piped(home, {"run", "--offline", "--session", "plan", "first"}).status, 0);
    EXPECT_EQ(run_piped(home, {"run", "--offline", "--session", "other", "else"}).status, 0);
    EXPECT_EQ(run_piped(home, {"run", "--offline", "--session", "plan", "second"}).status, 0);
    EXPECT_EQ(run_piped(home, {"run", "--offline", "--continue", "third"}).status, 0);
    const std::string listed = run_piped(home, {"sessions", "list"}).out;
    EXPECT_TRUE(listed.starts_with("plan\t")) << listed;
    EXPECT_TRUE(has(listed, "6 messages\ttape ")) << listed;
    EXPECT_TRUE(has(listed, "other\t")) << listed;
    EXPECT_EQ(run_piped(home, {"sessions", "delete", "unknown"}).status, 2);
    const Piped deleted = run_piped(home, {"sessions", "delete", "plan"});
    EXPECT_EQ(deleted.status, 0) << deleted.err;
    EXPECT_TRUE(has(deleted.err, "its tape ")) << deleted.err;
    EXPECT_FALSE(has(run_piped(home, {"sessions", "list"}).out, "plan"));
    EXPECT_FALSE(std::filesystem::exists(home.database())) << "only older versions used it";
}

TEST(Sessions, ListAtATerminal_FitsItsWidth) {
    const Home home;
    const std::string prompt = "Explain, with all details, what each module of this project is for";
    const std::string name = "explain-with-all-details-what-each";
    EXPECT_EQ(run_piped(home, {"run", "--offline", "--session", name, prompt}).status, 0);
    EXPECT_EQ(run_piped(home, {"sessions", "rename", name, prompt}).status, 0);
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"sessions", "list"}, {"sessions", "list", "--all"}}) {
        Terminal list(home, command, 80, 24);
        EXPECT_EQ(list.wait(), 0);
        const std::string text = list.screen().text();
        EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
        EXPECT_TRUE(has(text, "\nexplain-with-all-details-")) << text;
        EXPECT_TRUE(has(text, "Explain")) << text;
        EXPECT_FALSE(has(text, "tape")) << text;
    }
}

TEST(Sessions, NoName_SavesNothing) {
    const Home home;
    EXPECT_EQ(run_piped(home, {"run", "--offline", "first"}).status, 0);
    EXPECT_EQ(run_piped(home, {"sessions", "list"}).out, "");
    EXPECT_FALSE(std::filesystem::exists(home.tapes()));
}

TEST(Sessions, FirstPrompt_NamesTheChatWithResumeHint) {
    Home home;
    {
        Terminal chat(home, {"--offline", "fix the bug"});
        EXPECT_TRUE(chat.answer("You wrote: fix the bug", "/quit\r")) << chat.shown();
        EXPECT_TRUE(chat.expect("Resume this chat: cubepi chat --session fix-the-bug\n"))
            << chat.shown();
        EXPECT_EQ(chat.wait(), 0);
    }
    home.set("TERM", "dumb");
    Terminal plain(home, {"chat", "--offline", "Fix the bug!"});
    EXPECT_TRUE(plain.answer("You wrote: *Fix the bug!*", "/quit\r")) << plain.shown();
    EXPECT_TRUE(plain.expect("Resume this chat: cubepi chat --session fix-the-bug-2\n"))
        << plain.shown();
    EXPECT_EQ(plain.wait(), 0);
    EXPECT_TRUE(has(context_of(home, "fix-the-bug"), "\\nfix the bug\""));
    const Piped piped = run_piped(home, {"chat", "--offline"}, "and from a pipe\n");
    EXPECT_TRUE(has(piped.err, "--session and-from-a-pipe\n")) << piped.err;
}

TEST(Sessions, TemporaryOrPromptlessChat_LeavesNothing) {
    const Home home;
    EXPECT_EQ(run_piped(home, {"chat", "--offline", "--no-save"}, "hello\n").status, 0);
    const Piped silent = run_piped(home, {"chat", "--offline"}, "");
    EXPECT_EQ(silent.status, 0);
    EXPECT_EQ(silent.err, "");
    EXPECT_FALSE(std::filesystem::exists(home.tapes()));
}

TEST(Sessions, UnsavableChat_SaysSoAndWorks) {
    const Home home;
    write_file(home.tapes().parent_path(), "a file where the directory should be\n");
    const Piped chat = run_piped(home, {"chat", "--offline"}, "hello\n");
    EXPECT_EQ(chat.status, 0) << chat.err;
    EXPECT_TRUE(has(chat.err, "This chat is not saved: ")) << chat.err;
    EXPECT_TRUE(has(chat.out, "You wrote: *hello*")) << chat.out;
    EXPECT_FALSE(has(chat.err, "Resume")) << chat.err;
}

TEST(Sessions, B11_CommandLinePrompt_IsNeverACommand) {
    const Home home;
    Terminal chat(home, {"--offline", "--yes", ",touch made"});
    EXPECT_TRUE(chat.answer_on_screen("You wrote: *,touch made*", "/quit\r"))
        << chat.screen().text();
    EXPECT_EQ(chat.wait(), 0);
    EXPECT_FALSE(std::filesystem::exists(home.work() / "made"));
}

TEST(Sessions, EmptyName_IsWrongUsage) {
    const Home home;
    const Piped run = run_piped(home, {"run", "--offline", "--session", "", "first"});
    EXPECT_EQ(run.status, 2);
    EXPECT_TRUE(has(run.err, "the session name is empty")) << run.err;
}

TEST(Sessions, NextPrompt_HasTheConversation) {
    const Home home;
    EXPECT_EQ(run_piped(home, {"run", "--offline", "--session", "plan", "first"}).status, 0);
    EXPECT_EQ(run_piped(home, {"run", "--offline", "--session", "plan", "second"}).status, 0);
    const std::string context = context_of(home, "plan");
    EXPECT_LT(context.find("\\nfirst\""), context.find("\\nsecond\"")) << context;
    EXPECT_EQ(run_piped(home, {"tape", "show", "--session", "cli:plan"}).status, 0)
        << "the pipeline's id will do, too";
}

TEST(Sessions, Session_BelongsToItsDirectory) {
    Home home;
    EXPECT_EQ(run_piped(home, {"run", "--offline", "--session", "plan", "first"}).status, 0);
    home.work_in("elsewhere");
    EXPECT_EQ(run_piped(home, {"run", "--offline", "--continue", "x"}).status, 2);
    EXPECT_EQ(run_piped(home, {"sessions", "list"}).out, "");
    EXPECT_EQ(run_piped(home, {"sessions", "delete", "plan"}).status, 2);
    EXPECT_EQ(run_piped(home, {"run", "--offline", "--session", "plan", "second"}).status, 0);
    EXPECT_FALSE(has(context_of(home, "plan"), "\\nfirst\""));
    const std::string all = run_piped(home, {"sessions", "list", "--all"}).out;
    EXPECT_TRUE(has(all, (home.root() / "work").string() + "\n")) << all;
    EXPECT_TRUE(has(all, (home.root() / "elsewhere").string() + "\n")) << all;
}

TEST(Sessions, NothingToContinue_IsReported) {
    const Home home;
    const Piped run = run_piped(home, {"run", "--offline", "--continue", "x"});
    EXPECT_NE(run.status, 0);
    EXPECT_TRUE(has(run.err, "start one: cubepi chat")) << run.err;
}

TEST(Sessions, SessionInJson_IsNamedWithUnchangedEvents) {
    const Home home;
    const std::string script = home.script(R"(["Hello."])");
    std::vector<std::vector<std::string>> types;
    for (const bool saved : {false, true}) {
        std::vector<std::string> line = {"run", "--json", "--script", script, "hi"};
        if (saved) line.insert(line.end(), {"--session", "plan"});
        const Piped run = run_piped(home, line);
        EXPECT_EQ(run.status, 0) << run.err;
        std::istringstream lines(run.out);
        types.emplace_back();
        for (std::string text; std::getline(lines, text);) {
            const Json event = boost::json::parse(text);
            types.back().emplace_back(event.at("type").get_string());
            const Json* thread = event.get_object().if_contains("thread_id");
            EXPECT_EQ(thread != nullptr, saved) << text;
            if (thread) {
                EXPECT_EQ(*thread, Json("plan"));
            }
        }
    }
    EXPECT_EQ(types[0], types[1]);
    EXPECT_EQ(types[0].back(), "agent_end");
}

TEST(Sessions, B11_ScriptedPrompt_IsNeverACommand) {
    const Home home;
    const Piped run = run_piped(home, {"run", "--offline", "--yes", ",touch made"});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_TRUE(has(run.out, ",touch made")) << run.out;
    const Piped chat = run_piped(home, {"chat", "--offline", "--yes"}, ",touch made\n");
    EXPECT_TRUE(has(chat.out, ",touch made")) << chat.out;
    EXPECT_FALSE(std::filesystem::exists(home.work() / "made"));
}

/// A pipe with a name, to wait for a program in the middle of its work.
struct NamedPipe {
    explicit NamedPipe(std::filesystem::path place) : path(std::move(place)) {
        EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
    }
    std::filesystem::path path;
};

TEST(Sessions, D50_Session_IsAnsweredByOneProcess) {
    const Home home;
    const NamedPipe begun(home.root() / "begun");
    const NamedPipe go(home.root() / "go");
    const std::string waits = "echo > " + begun.path.string() + "; cat " + go.path.string();
    const std::string script = home.script("[" + calls_shell(waits) + ", \"Done.\"]");
    Terminal first(home, {"run", "--yes", "--script", script, "--session", "plan", "wait"});
    (void)read_file(begun.path);
    const Piped second = run_piped(home, {"run", "--offline", "--session", "plan", "me too"});
    const Piped removed = run_piped(home, {"sessions", "delete", "plan"});
    const Piped other = run_piped(home, {"run", "--offline", "--session", "other", "me too"});
    write_file(go.path, "go\n");
    EXPECT_EQ(first.wait(), 0) << first.shown();
    EXPECT_EQ(second.status, 4) << second.err;
    EXPECT_TRUE(has(second.err, "session plan is in use: ")) << second.err;
    EXPECT_TRUE(has(second.err, "--session NAME")) << second.err;
    EXPECT_NE(removed.status, 0) << "a session in use was deleted";
    EXPECT_EQ(other.status, 0) << other.err;
    EXPECT_EQ(run_piped(home, {"run", "--offline", "--session", "plan", "now"}).status, 0);
    const std::string context = context_of(home, "plan");
    EXPECT_TRUE(has(context, "\"Done.\"")) << context;
    EXPECT_TRUE(has(context, "\\nnow\"")) << context;
}

TEST(Sessions, D1_KillInTool_ContinuesAndTellsTheModel) {
    const Home home;
    const std::string deadly =
        // The parent of the command is its supervisor; the parent of that is the program.
        "echo once >> calls.txt; kill -9 $(cut -d' ' -f4 /proc/$PPID/stat)";
    const std::string script = home.script("[" + calls_shell(deadly) + "]");
    const Piped killed = run_piped(
        home, {"run", "--yes", "--sandbox", "off", "--script", script, "--session", "plan", "go"});
    EXPECT_EQ(killed.status, 128 + 9) << killed.err;
    const Piped next = run_piped(home, {"run", "--offline", "--continue", "What happened?"});
    EXPECT_EQ(next.status, 0) << next.err;
    EXPECT_TRUE(has(next.out, "You wrote: *What happened?*")) << next.out;
    EXPECT_EQ(read_file(home.work() / "calls.txt"), "once\n") << "the call was made again";
    const std::string context = context_of(home, "plan");
    EXPECT_TRUE(has(context, "unknown")) << context;
    EXPECT_TRUE(has(context, "What happened?")) << context;
}

TEST(Sessions, LongResults_OutliveTheProcess) {
    const Home home;
    const std::string script = home.script("[" + calls_shell("seq 1 40000") + ", \"Counted.\"]");
    const Piped counted =
        run_piped(home, {"run", "--yes", "--script", script, "--session", "plan", "count"});
    EXPECT_EQ(counted.status, 0) << counted.err;
    const std::filesystem::path saved = home.tapes().parent_path() / "spill";
    std::string file;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(saved))
        if (entry.is_regular_file()) file = entry.path().string();
    ASSERT_FALSE(file.empty());
    EXPECT_TRUE(has(context_of(home, "plan"), file)) << "the model is told where it is";
    EXPECT_TRUE(has(read_file(file), "\n39999\n40000"));
}

TEST(Sessions, FullDisk_IsStatusFourAndLosesNothing) {
    const Home home;
    ASSERT_EQ(run_piped(home, {"run", "--offline", "--session", "plan", "first"}).status, 0);
    const std::size_t size = 20'000;
    const std::string prompt(size, 'x');
    const Piped run =
        run_with_file_limit(home, {"run", "--offline", "--session", "plan", prompt}, size);
    EXPECT_EQ(run.status, 4) << run.err;
    EXPECT_TRUE(has(run.err, "no space to store the conversation")) << run.err;
    EXPECT_TRUE(has(run.err, "df -h " + home.tapes().string())) << run.err;
    EXPECT_FALSE(has(run.err, "xxxx")) << "the prompt is in the error";
    // The session is unchanged and can be continued.
    EXPECT_TRUE(has(context_of(home, "plan"), "\\nfirst\""));
    EXPECT_EQ(run_piped(home, {"run", "--offline", "--session", "plan", "again"}).status, 0);
    EXPECT_TRUE(has(context_of(home, "plan"), "\\nagain\""));
}

TEST(Sessions, UnreadableTape_DoesNotHideTheOthers) {
    const Home home;
    for (const char* name : {"plan", "other"})
        ASSERT_EQ(run_piped(home, {"run", "--offline", "--session", name, "hi"}).status, 0);
    const std::string listed = run_piped(home, {"sessions", "list"}).out;
    const std::size_t tape = listed.find("tape ", listed.find("plan\t")) + 5;
    const std::string name = listed.substr(tape, listed.find('\n', tape) - tape);
    write_file(home.tapes() / (name + ".jsonl.state"), "junk");
    const std::string rest = run_piped(home, {"sessions", "list"}).out;
    EXPECT_TRUE(has(rest, "other\t")) << rest;
    EXPECT_EQ(run_piped(home, {"run", "--offline", "--continue", "continue"}).status, 0);
    EXPECT_TRUE(has(context_of(home, "other"), "continue"));
    const Piped broken = run_piped(home, {"run", "--offline", "--session", "plan", "x"});
    EXPECT_EQ(broken.status, 4) << broken.err;
    EXPECT_TRUE(has(broken.err, "delete " + (home.tapes() / (name + ".jsonl.state")).string()))
        << broken.err;
}

TEST(Sessions, Doctor_CountsTheSessions) {
    const Home home;
    ASSERT_EQ(run_piped(home, {"run", "--offline", "--session", "plan", "hi"}).status, 0);
    const std::string report = run_piped(home, {"doctor"}).out;
    EXPECT_TRUE(has(report, home.tapes().string() + ": 1 session, 1 of this directory")) << report;
}

TEST(Sessions, UncreatableDirectory_IsStatusFour) {
    Home home;
    write_file(home.root() / "a-file", "x");
    home.set("BUB_HOME", (home.root() / "a-file/below").string());
    const Piped run = run_piped(home, {"run", "--offline", "--session", "plan", "x"});
    EXPECT_EQ(run.status, 4) << run.err;
    EXPECT_TRUE(has(run.err, "a-file/below")) << run.err;
    EXPECT_TRUE(has(run.err, "export BUB_HOME=")) << run.err;
}

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

    Home home;
};

TEST_F(OldSessions, Continue_CopiesThemOnceAndSaysSo) {
    keep("plan", "buy grease");
    const std::string before = read_file(home.database());
    EXPECT_TRUE(has(listed(), "plan\t")) << listed();
    EXPECT_TRUE(has(listed(), "2 messages\t" + home.database().string())) << listed();
    const Piped first = say({"--continue"});
    EXPECT_EQ(first.status, 0) << first.err;
    EXPECT_TRUE(has(first.err, "Copied 2 messages of session plan from " +
                                   home.database().string() + " to its tape.\n"))
        << first.err;
    EXPECT_TRUE(has(context_of(home, "plan"), "buy grease")) << context_of(home, "plan");
    EXPECT_TRUE(has(context_of(home, "plan"), "and now?"));
    const Piped second = say({"--continue"}, "again");
    EXPECT_EQ(second.status, 0) << second.err;
    EXPECT_FALSE(has(second.err, "Copied")) << second.err;
    EXPECT_EQ(read_file(home.database()), before) << "it is only read";
    EXPECT_FALSE(has(listed(), home.database().string())) << listed();
    EXPECT_TRUE(has(listed(), "6 messages\ttape ")) << listed();
}

TEST_F(OldSessions, SessionName_FindsTheOldSession) {
    keep("plan", "buy grease");
    keep("other", "paint the door");
    const Piped named = say({"--session", "plan"});
    EXPECT_EQ(named.status, 0) << named.err;
    EXPECT_TRUE(has(named.err, "Copied 2 messages of session plan")) << named.err;
    EXPECT_FALSE(has(context_of(home, "plan"), "paint the door"));
    const Piped fresh = say({"--session", "new"});
    EXPECT_EQ(fresh.status, 0) << fresh.err;
    EXPECT_FALSE(has(fresh.err, "Copied")) << fresh.err;
    EXPECT_TRUE(has(say({"--session", "other"}).err, "Copied 2 messages of session other"));
}

TEST_F(OldSessions, LastUsedSession_IsContinuedFromAnyStore) {
    EXPECT_EQ(say({"--session", "taped"}).status, 0);
    keep("plan", "buy grease");
    EXPECT_TRUE(has(say({"--continue"}).err, "session plan")) << "SQLite was used last";
    EXPECT_EQ(say({"--session", "taped"}).status, 0);
    EXPECT_EQ(say({"--continue"}, "on the tape").status, 0);
    EXPECT_TRUE(has(context_of(home, "taped"), "on the tape"));
}

TEST_F(OldSessions, TapeOfSameName_TakesPrecedence) {
    EXPECT_EQ(say({"--session", "plan"}, "on the tape").status, 0);
    keep("plan", "buy grease");
    const Piped run = say({"--session", "plan"});
    EXPECT_EQ(run.status, 0);
    EXPECT_FALSE(has(run.err, "Copied")) << run.err;
    EXPECT_FALSE(has(context_of(home, "plan"), "buy grease"));
}

TEST_F(OldSessions, Copy_IsMadeToOneDirectoryOnly) {
    keep("plan", "buy grease");
    EXPECT_EQ(say({"--session", "plan"}).status, 0);
    const std::string first_directory = home.work().string();
    home.work_in("elsewhere");
    EXPECT_EQ(say({"--continue"}).status, 2) << "it belongs to the other directory now";
    const Piped here = say({"--session", "plan"});
    EXPECT_EQ(here.status, 0);
    EXPECT_TRUE(has(here.err, "a tape of " + first_directory)) << here.err;
    EXPECT_FALSE(has(context_of(home, "plan"), "buy grease"));
    EXPECT_FALSE(has(say({"--session", "plan"}).err, first_directory))
        << "the notice appears only once";
    EXPECT_EQ(run_piped(home, {"sessions", "delete", "plan"}).status, 0);
    home.work_in("work");
    EXPECT_TRUE(has(context_of(home, "plan"), "buy grease")) << "it was the other directory's";
}

TEST_F(OldSessions, Delete_RemovesTheOldMessages) {
    keep("plan", "buy grease");
    keep("other", "paint the door");
    EXPECT_EQ(say({"--session", "plan"}).status, 0);
    for (const char* name : {"plan", "other"}) {
        const Piped deleted = run_piped(home, {"sessions", "delete", name});
        EXPECT_EQ(deleted.status, 0) << deleted.err;
        EXPECT_TRUE(has(deleted.err, home.database().string())) << deleted.err;
    }
    EXPECT_EQ(listed(), "");
    EXPECT_EQ(say({"--continue"}).status, 2);
}

TEST_F(OldSessions, UnreadableDatabase_DoesNotAffectTapes) {
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
    EXPECT_EQ(run_piped(home, {"sessions", "delete", "plan"}).status, 0) << "it is on a tape";
    EXPECT_EQ(run_piped(home, {"sessions", "list"}).out, "");
    EXPECT_EQ(read_file(home.database()), junk) << "it is not ours to repair";
}

TEST_F(OldSessions, InvalidDatabase_IsStatusFourWhereNeeded) {
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

TEST_F(OldSessions, LockedDatabase_IsStatusFourAndLosesNothing) {
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

TEST_F(OldSessions, Chat_ReportsTheCopy) {
    keep("plan", "buy grease");
    Terminal chat(home, {"chat", "--offline", "--continue"}, 200);
    ASSERT_TRUE(chat.expect_on_screen("Session: plan")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("Copied 2 messages of session plan", "hello\r"))
        << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("You wrote: hello", "\x04")) << chat.screen().text();
    EXPECT_EQ(chat.wait(), 0);
    EXPECT_TRUE(has(context_of(home, "plan"), "hello"));
}

}  // namespace
}  // namespace cubepi::terminal_tests
