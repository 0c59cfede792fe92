// Several processes on one file. The children are this program with `--child`.
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <iostream>
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

// The work of the child processes. Each takes the path of the database.

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

void claim_and_append_when_told(const std::string& path) {
    SQLiteCheckpointer store(path);
    const ClaimOwner owner = current_process_owner();
    run(store.claim_run("t", "child-run", owner, ClaimKind::new_run));
    say(owner.owner_id);
    std::string line;
    std::getline(std::cin, line);
    AppendOptions options = AppendOptions().claim("child-run", owner.owner_id);
    try {
        run(store.append("t", one(user("from the child", "child-run")), std::move(options)));
        say("stored");
    } catch (const StaleAppendError&) {
        say("stale");
    }
}

void claim_and_complete_when_told(const std::string& path) {
    SQLiteCheckpointer store(path);
    const ClaimOwner owner = current_process_owner();
    run(store.claim_run("t", "child-run", owner, ClaimKind::new_run));
    run(store.append("t", one(user("from the child", "child-run")), AppendOptions()));
    say("appended");
    std::string line;
    std::getline(std::cin, line);
    try {
        run(store.complete_run("t", "child-run", owner.owner_id));
        say("complete");
    } catch (const StaleAppendError&) {
        say("stale");
    }
}

constexpr int questions = 20;

std::string question_id(int i) { return "q" + std::to_string(i); }

/// Answers all questions, and prints the number of answers that were accepted.
void answer_when_told(const std::string& path) {
    SQLiteCheckpointer store(path);
    run(store.open());
    say("ready");
    std::string line;
    std::getline(std::cin, line);
    int accepted = 0;
    for (int i = 0; i < questions; ++i) {
        AnswerRecord record;
        record.run_id = "r";
        record.question_id = question_id(i);
        record.answer = true;
        record.answered_at = 20;
        record.user = line;
        try {
            run(store.answer_request("t", std::move(record)));
            ++accepted;
        } catch (const CheckpointerError& error) {
            if (error.code() != ErrorCode::stale_answer) throw;
        }
    }
    say(std::to_string(accepted));
}

const std::map<std::string, std::function<void(const std::string&)>>& children() {
    static const std::map<std::string, std::function<void(const std::string&)>> known{
        {"answer_when_told", answer_when_told},
        {"append_in_turns", append_in_turns<SQLiteCheckpointer>},
        {"append_until_killed", append_until_killed},
        {"claim_and_append_when_told", claim_and_append_when_told},
        {"claim_and_complete_when_told", claim_and_complete_when_told},
    };
    return known;
}

ClaimOwner this_process() { return current_process_owner(); }

TEST(SQLiteProcesses, D20_two_processes_never_fork_a_thread) {
    TempDirectory directory;
    const std::string path = directory.file("sessions.db");
    Child first("append_in_turns", path);
    Child second("append_in_turns", path);
    EXPECT_EQ(first.wait(), 0);
    EXPECT_EQ(second.wait(), 0);
    SQLiteCheckpointer store(path);
    std::map<std::string, int> next;
    const MessageList messages = run(store.load("t"))->messages;
    EXPECT_EQ(messages.size(), 2U * appends_per_process);
    for (const Message& message : messages) {
        const std::string text = message.text();
        const std::string name = text.substr(0, text.find(' '));
        EXPECT_EQ(text, name + " " + std::to_string(next[name]++))
            << "in order, none twice, none lost";
    }
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

TEST(SQLiteProcesses, D1_a_kill_in_the_middle_of_appends_leaves_a_whole_file) {
    kill_in_the_middle_of_appends("sessions.db");
}

TEST(SQLiteProcesses, D1_a_kill_in_the_middle_of_appends_leaves_a_whole_file_with_wal) {
    kill_in_the_middle_of_appends("sessions.wal");
}

TEST(SQLiteProcesses, D50_the_claim_of_a_killed_process_is_superseded_at_once) {
    TempDirectory directory;
    const std::string path = directory.file("sessions.db");
    SQLiteCheckpointer store(path);
    Child child("claim_and_append_when_told", path);
    const std::string owner = child.read_line();
    Task<ClaimResult> claim = store.claim_run("t", "ours", this_process(), ClaimKind::new_run);
    const auto error = error_of<RunAlreadyClaimedError>(std::move(claim));
    EXPECT_NE(std::string(error.what()).find("pid " + std::to_string(child.pid())),
              std::string::npos)
        << error.what();
    expect_one_line(error);
    child.kill_and_wait();
    const ClaimResult result =
        run(store.claim_run("t", "ours", this_process(), ClaimKind::new_run));
    ASSERT_TRUE(result.superseded);
    EXPECT_EQ(result.superseded->owner_id, owner);
    EXPECT_EQ(result.superseded_run_id, "child-run");
}

TEST(SQLiteProcesses, D50_a_frozen_process_that_wakes_up_is_fenced_off) {
    TempDirectory directory;
    SQLiteOptions options;
    options.path = directory.file("sessions.db");
    auto clock = std::make_shared<testing::ManualClock>();
    options.clock = clock;
    SQLiteCheckpointer store(options);
    Child child("claim_and_append_when_told", options.path);
    child.read_line();
    clock->set_wall(std::chrono::system_clock::now() + std::chrono::seconds(61));
    const ClaimResult result =
        run(store.claim_run("t", "ours", this_process(), ClaimKind::new_run));
    EXPECT_TRUE(result.superseded);
    AppendOptions under = AppendOptions().claim("ours", this_process().owner_id);
    run(store.append("t", one(user("ours", "ours")), std::move(under)));
    child.tell("go");
    EXPECT_EQ(child.read_line(), "stale");
    EXPECT_EQ(child.wait(), 0);
    EXPECT_EQ(run(store.load("t"))->messages.size(), 1U);
}

TEST(SQLiteProcesses, D50_a_process_that_keeps_its_claim_can_write) {
    TempDirectory directory;
    const std::string path = directory.file("sessions.db");
    Child child("claim_and_append_when_told", path);
    child.read_line();
    child.tell("go");
    EXPECT_EQ(child.read_line(), "stored");
}

TEST(SQLiteProcesses, D50_a_frozen_process_does_not_complete_a_run_that_another_continued) {
    TempDirectory directory;
    SQLiteOptions options;
    options.path = directory.file("sessions.db");
    auto clock = std::make_shared<testing::ManualClock>();
    options.clock = clock;
    SQLiteCheckpointer store(options);
    Child child("claim_and_complete_when_told", options.path);
    EXPECT_EQ(child.read_line(), "appended");
    clock->set_wall(std::chrono::system_clock::now() + std::chrono::seconds(61));
    run(store.claim_run("t", "child-run", this_process(), ClaimKind::continue_run));
    child.tell("go");
    EXPECT_EQ(child.read_line(), "stale");
    EXPECT_FALSE(run(store.is_run_complete("t", "child-run")));
    AppendOptions under = AppendOptions().claim("child-run", this_process().owner_id);
    run(store.append("t", one(user("ours", "child-run")), std::move(under)));
    run(store.complete_run("t", "child-run", this_process().owner_id));
    EXPECT_TRUE(run(store.is_run_complete("t", "child-run")));
}

TEST(SQLiteProcesses, D50_a_process_that_keeps_its_claim_completes_its_run) {
    TempDirectory directory;
    const std::string path = directory.file("sessions.db");
    Child child("claim_and_complete_when_told", path);
    EXPECT_EQ(child.read_line(), "appended");
    child.tell("go");
    EXPECT_EQ(child.read_line(), "complete");
    EXPECT_TRUE(run(SQLiteCheckpointer(path).is_run_complete("t", "child-run")));
}

TEST(SQLiteProcesses, D62_of_two_processes_that_answer_a_question_one_succeeds) {
    TempDirectory directory;
    const std::string path = directory.file("sessions.db");
    SQLiteCheckpointer store(path);
    for (int i = 0; i < questions; ++i) {
        HitlRequest request;
        request.question_id = question_id(i);
        request.created_at = 10;
        run(store.save_pending_request("t", "r", std::move(request)));
    }
    Child first("answer_when_told", path);
    Child second("answer_when_told", path);
    EXPECT_EQ(first.read_line(), "ready");
    EXPECT_EQ(second.read_line(), "ready");
    first.tell("anna");
    second.tell("ben");
    std::map<std::string, int> accepted;
    accepted["anna"] = std::stoi(first.read_line());
    accepted["ben"] = std::stoi(second.read_line());
    EXPECT_EQ(first.wait(), 0);
    EXPECT_EQ(second.wait(), 0);
    EXPECT_EQ(accepted["anna"] + accepted["ben"], questions);
    std::map<std::string, int> recorded;
    for (const AnswerRecord& one : run(store.load_answer_records("t"))) ++recorded[one.user];
    EXPECT_EQ(recorded["anna"], accepted["anna"]);
    EXPECT_EQ(recorded["ben"], accepted["ben"]);
    EXPECT_TRUE(run(store.load_pending_requests("t")).empty());
}

}  // namespace

int run_store_child(const std::string& mode, const std::string& path) {
    const auto child = children().find(mode);
    if (child == children().end()) return 2;
    child->second(path);
    return 0;
}

}  // namespace cubepi

int main(int argc, char** argv) {
    if (argc == 4 && std::string(argv[1]) == "--child")
        return cubepi::run_store_child(argv[2], argv[3]);
    ::testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
