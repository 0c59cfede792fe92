// Several processes on one file. The children are this program with `--child`.
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/agent/claim_owner.hpp>
#include <cubepi/checkpoint/child_process_test.hpp>
#include <cubepi/checkpoint/store_support_test.hpp>
#include <cubepi/testing/manual_clock.hpp>

namespace cubepi {
namespace {

// The work of the child processes that no other store has.

void append_until_killed(const std::string& path) {
    SQLiteOptions options;
    options.path = path;
    options.wal = path.ends_with(".wal");
    SQLiteCheckpointer store(options);
    for (int i = 0;; ++i) {
        MessageList two = one(user(std::to_string(2 * i)));
        two.push_back(user(std::to_string(2 * i + 1) + std::string(5000, 'x')));
        run(store.append("t", std::move(two), AppendOptions()));
        say(std::to_string(i));
    }
}

void claim_and_complete_on_line(SQLiteCheckpointer& store) {
    const ClaimOwner owner = current_process_owner();
    run(store.claim_run("t", "child-run", owner, ClaimKind::new_run));
    run(store.append("t", one(user("from the child", "child-run")), AppendOptions()));
    say("appended");
    read_line();
    try {
        run(store.complete_run("t", "child-run", owner.owner_id));
        say("complete");
    } catch (const StaleAppendError&) {
        say("stale");
    }
}

ClaimOwner this_process() { return current_process_owner(); }

TEST(SQLiteProcesses, D20_TwoProcesses_NeverForkAThread) {
    TempDirectory directory;
    const std::string path = directory.file("sessions.db");
    SQLiteCheckpointer store(path);
    expect_no_forks(store, path);
}

void kill_in_the_middle_of_appends(const std::string& file) {
    TempDirectory directory;
    const std::string path = directory.file(file);
    for (int round = 0; round < 3; ++round) {
        SQLiteCheckpointer before(path);
        const std::optional<CheckpointData> old = run(before.load("t"));
        const std::size_t start = old ? old->messages.size() : 0;
        std::size_t acknowledged = 0;
        {
            Child child("append_until_killed", path);
            for (int i = 0; i < 5 + 3 * round; ++i)
                acknowledged = 2 * std::stoul(child.read_line()) + 2;
            child.kill_and_wait();
        }
        SQLiteCheckpointer store(path);
        const MessageList messages = run(store.load("t"))->messages;
        EXPECT_GE(messages.size(), start + acknowledged) << "acknowledged messages are stored";
        EXPECT_EQ((messages.size() - start) % 2, 0U) << "an append is whole";
        EXPECT_EQ(RawDatabase(path).query("PRAGMA integrity_check").front(), "ok");
    }
}

TEST(SQLiteProcesses, D1_KillDuringAppends_LeavesWholeFile) {
    kill_in_the_middle_of_appends("sessions.db");
}

TEST(SQLiteProcesses, D1_KillDuringAppendsWithWal_LeavesWholeFile) {
    kill_in_the_middle_of_appends("sessions.wal");
}

TEST(SQLiteProcesses, D50_ClaimOfKilledProcess_IsSupersededAtOnce) {
    TempDirectory directory;
    const std::string path = directory.file("sessions.db");
    SQLiteCheckpointer store(path);
    expect_killed_claim_superseded(store, path);
}

TEST(SQLiteProcesses, D50_FrozenProcessThatWakesUp_IsFenced) {
    TempDirectory directory;
    SQLiteOptions options;
    options.path = directory.file("sessions.db");
    auto clock = std::make_shared<testing::ManualClock>();
    options.clock = clock;
    SQLiteCheckpointer store(options);
    expect_frozen_process_fenced(store, *clock, options.path);
}

TEST(SQLiteProcesses, D50_ProcessWithItsClaim_CanWrite) {
    TempDirectory directory;
    const std::string path = directory.file("sessions.db");
    Child child("claim_and_append_on_line", path);
    child.read_line();
    child.send_line("go");
    EXPECT_EQ(child.read_line(), "stored");
}

TEST(SQLiteProcesses, D50_FrozenProcess_DoesNotCompleteAContinuedRun) {
    TempDirectory directory;
    SQLiteOptions options;
    options.path = directory.file("sessions.db");
    auto clock = std::make_shared<testing::ManualClock>();
    options.clock = clock;
    SQLiteCheckpointer store(options);
    Child child("claim_and_complete_on_line", options.path);
    EXPECT_EQ(child.read_line(), "appended");
    clock->set_wall(std::chrono::system_clock::now() + std::chrono::seconds(61));
    run(store.claim_run("t", "child-run", this_process(), ClaimKind::continue_run));
    child.send_line("go");
    EXPECT_EQ(child.read_line(), "stale");
    EXPECT_FALSE(run(store.is_run_complete("t", "child-run")));
    AppendOptions under = AppendOptions().claim("child-run", this_process().owner_id);
    run(store.append("t", one(user("ours", "child-run")), std::move(under)));
    run(store.complete_run("t", "child-run", this_process().owner_id));
    EXPECT_TRUE(run(store.is_run_complete("t", "child-run")));
}

TEST(SQLiteProcesses, D50_ProcessWithItsClaim_CompletesItsRun) {
    TempDirectory directory;
    const std::string path = directory.file("sessions.db");
    Child child("claim_and_complete_on_line", path);
    EXPECT_EQ(child.read_line(), "appended");
    child.send_line("go");
    EXPECT_EQ(child.read_line(), "complete");
    EXPECT_TRUE(run(SQLiteCheckpointer(path).is_run_complete("t", "child-run")));
}

TEST(SQLiteProcesses, D62_TwoProcessesAnswerAQuestion_OneSucceeds) {
    TempDirectory directory;
    const std::string path = directory.file("sessions.db");
    SQLiteCheckpointer store(path);
    expect_one_answer_each(store, path);
}

TEST(SQLiteProcesses, ProcessesForkThread_ForksAreUniqueAndWhole) {
    TempDirectory directory;
    const std::string path = directory.file("sessions.db");
    SQLiteCheckpointer store(path);
    expect_whole_forks(store, path);
}

}  // namespace

int run_store_child(const std::string& mode, const std::string& path) {
    if (mode == "append_until_killed") append_until_killed(path);
    using Work = void (*)(SQLiteCheckpointer&);
    const std::map<std::string, Work> children{
        {"answer_on_line", answer_on_line<SQLiteCheckpointer>},
        {"append_in_turns", append_in_turns<SQLiteCheckpointer>},
        {"claim_and_append_on_line", claim_and_append_on_line<SQLiteCheckpointer>},
        {"claim_and_complete_on_line", claim_and_complete_on_line},
        {"fork_on_line", fork_on_line<SQLiteCheckpointer>},
    };
    const auto child = children.find(mode);
    if (child == children.end()) return 2;
    SQLiteCheckpointer store(path);
    child->second(store);
    return 0;
}

}  // namespace cubepi

int main(int argc, char** argv) {
    if (argc == 4 && std::string(argv[1]) == "--child")
        return cubepi::run_store_child(argv[2], argv[3]);
    ::testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
