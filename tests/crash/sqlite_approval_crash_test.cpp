#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <cubepi/checkpoint/sqlite_checkpointer.hpp>

#include "approval_worker.hpp"
#include "worker_process.hpp"

// A process is killed at every write of SQLite between the question about a tool call, its answer, the mark of its start, its
// effect and its result; the next one continues. And two processes that approve one call.

namespace cubepi::crash_tests {

namespace {

using namespace hitl_test;

/// Not synchronised: that protects against a power failure and makes no difference to a killed process.
std::shared_ptr<Checkpointer> open_database(const std::filesystem::path& directory) {
    SQLiteOptions options;
    options.path = (directory / "t.db").string();
    options.synchronous = SQLiteSynchronous::off;
    return std::make_shared<SQLiteCheckpointer>(std::move(options));
}

}  // namespace

TEST(SQLiteApprovalCrash, D62_KillDuringSuspendedRun_RepeatsNoCall) {
    EXPECT_GT(kill_at_every_write(open_database, "suspended"), 30u / kill_stride);
}

TEST(SQLiteApprovalCrash, D104_ApprovedIdempotentCall_RunsAgainOthersDoNot) {
    kill_with_repeatable_call(open_database);
}

TEST(SQLiteApprovalCrash, D62_KillDuringDeniedCall_RunsNothingUnapproved) {
    (void)kill_at_every_write(open_database, "denied");
}

TEST(SQLiteApprovalCrash, KillDuringRequest_KeepsTheInboxCorrect) {
    const std::vector<std::string> all = {"a", "b", "c", "d"};
    (void)kill_at_each_step("--inbox", [&](const Remains& remains) {
        const std::set<std::string> listed = threads_in_inbox(open_database, remains.directory);
        EXPECT_EQ(listed, threads_by_loading(open_database, remains.directory, all));
        if (!remains.killed) {
            EXPECT_EQ(listed, std::set<std::string>{"d"});
        }
    });
}

TEST(SQLiteApprovalCrash, D105_TwoProcessesApproveACall_OneRunsIt) {
    approve_in_two_processes(open_database);
}

}  // namespace cubepi::crash_tests

int main(int argc, char** argv) {
    using namespace cubepi::crash_tests;
    return approval_tests_or_worker(argc, argv, open_database);
}
