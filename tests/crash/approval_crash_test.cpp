#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/tape_checkpointer.hpp>

#include "approval_worker.hpp"
#include "worker_process.hpp"

// A process is killed at every write between the question about a tool call, its answer, its effect and its result on a
// tape; the next one continues. And two processes that answer one question.

namespace cubepi::crash_tests {

namespace {

using namespace hitl_test;

std::shared_ptr<Checkpointer> open_tapes(const std::filesystem::path& directory) {
    bub::FileTapeOptions options;
    options.directory = directory / "tapes";
    options.sync = bub::TapeSync::never;
    return std::make_shared<bub::TapeCheckpointer>(
        std::make_shared<bub::FileTapeStore>(std::move(options)));
}

/// The number of marks of the index.
std::size_t marks_in(const std::filesystem::path& directory) {
    std::size_t count = 0;
    for (const auto& file : std::filesystem::directory_iterator(directory / "tapes" / "requests"))
        count += file.path().filename() == "complete" ? 0 : 1;
    return count;
}

}  // namespace

TEST(ApprovalCrash, D62_KillDuringApprovedCall_RepeatsNoCall) {
    EXPECT_GT(kill_at_every_write(open_tapes, "approved"), 30u / kill_stride);
}
TEST(ApprovalCrash, D104_ApprovedIdempotentCall_RunsAgainOthersDoNot) {
    kill_with_repeatable_call(open_tapes);
}

TEST(ApprovalCrash, D62_KillDuringDeniedCall_RunsNothingUnapproved) {
    (void)kill_at_every_write(open_tapes, "denied");
}
TEST(ApprovalCrash, D62_KillDuringSuspendedRun_RepeatsNoCall) {
    EXPECT_GT(kill_at_every_write(open_tapes, "suspended"), 30u / kill_stride);
}

TEST(ApprovalCrash, KillDuringRequest_KeepsTheInboxCorrect) {
    const std::vector<std::string> all = {"a", "b", "c", "d"};
    const std::size_t steps = kill_at_each_step("--inbox", [&](const Remains& remains) {
        const std::set<std::string> listed = threads_in_inbox(open_tapes, remains.directory);
        EXPECT_EQ(listed, threads_by_loading(open_tapes, remains.directory, all));
        if (!remains.killed) {
            EXPECT_EQ(listed, std::set<std::string>{"d"});
        }
        if (std::filesystem::exists(remains.directory / "tapes")) {
            EXPECT_EQ(marks_in(remains.directory), listed.size());
        }
    });
    EXPECT_GT(steps, 30u);
}

TEST(ApprovalCrash, TwoProcessesAnswerAQuestion_OneSucceeds) {
    const TestDirectory directory;
    const std::string place = directory.path().string();
    const std::shared_ptr<Checkpointer> tapes = open_tapes(directory.path());
    for (std::size_t round = 1; round <= 20; ++round) {
        SCOPED_TRACE(round);
        run(requests_of(*tapes).save_pending_request("t", "r", question("t", 1, 0)));
        WorkerProcess anna({"--answer", place, "anna"});
        WorkerProcess ben({"--answer", place, "ben"});
        ASSERT_TRUE(anna.wait_until_frozen());
        ASSERT_TRUE(ben.wait_until_frozen());
        anna.thaw();
        ben.thaw();
        const int first = anna.wait().status;
        EXPECT_EQ(first + ben.wait().status, was_stale);
        const std::vector<AnswerRecord> records =
            run(inbox_of(*tapes).load_answer_records("t", ""));
        ASSERT_EQ(records.size(), round);
        EXPECT_EQ(records.back().user, first == 0 ? "anna" : "ben");
    }
}

TEST(ApprovalCrash, D105_TwoProcessesApproveACall_OneRunsIt) {
    approve_in_two_processes(open_tapes);
}

}  // namespace cubepi::crash_tests

int main(int argc, char** argv) {
    using namespace cubepi::crash_tests;
    return approval_tests_or_worker(argc, argv, open_tapes);
}
