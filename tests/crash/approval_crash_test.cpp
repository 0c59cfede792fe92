#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <cubepi/agent/transcript.hpp>
#include <cubepi/core/error.hpp>

#include "approval_worker.hpp"
#include "worker_process.hpp"

// A process is killed at every write between the question about a tool call, its answer, its effect and its result on a
// tape; the next one continues. And two processes that answer one question.

namespace cubepi::crash_tests {

namespace {

using namespace hitl_test;

std::size_t count_in(const std::filesystem::path& file) {
    std::error_code missing;
    const std::uintmax_t size = std::filesystem::file_size(file, missing);
    return missing ? 0 : static_cast<std::size_t>(size);
}

std::set<std::string> threads_in_inbox(const std::filesystem::path& directory) {
    std::set<std::string> threads;
    InboxQuery query;
    const InboxPage page = run(open_tapes(directory)->list_requests(std::move(query)));
    for (const InboxEntry& entry : page.entries) {
        EXPECT_EQ(entry.damage, "");
        EXPECT_TRUE(threads.insert(entry.thread_id).second) << entry.thread_id << " twice";
    }
    return threads;
}

/// The inbox as the side states of the tapes have it, without the index.
std::set<std::string> threads_in_states(const std::filesystem::path& directory,
                                        const std::vector<std::string>& all) {
    std::set<std::string> threads;
    const std::shared_ptr<bub::TapeCheckpointer> tapes = open_tapes(directory);
    for (const std::string& thread_id : all) {
        for (const PendingRequest& one : run(tapes->load_pending_requests(thread_id))) {
            if (!one.expired) threads.insert(thread_id);
        }
    }
    return threads;
}

/// The number of marks of the index.
std::size_t marks_in(const std::filesystem::path& directory) {
    std::size_t count = 0;
    for (const auto& file : std::filesystem::directory_iterator(directory / "tapes" / "requests"))
        count += file.path().filename() == "complete" ? 0 : 1;
    return count;
}

/// Resumes what the killed process has left, and approves what is asked. Then the thread takes a prompt.
void continue_run(const std::filesystem::path& directory) {
    FauxProvider faux;
    faux.set_responses({"done", "done"});
    std::vector<std::string> effects;
    Process next(open_tapes(directory), faux, effects, {}, count_effects(directory));
    try {
        (void)next.run_with(next.agent->resume(), [&](const HitlRequest& request) {
            add_to(approvals_file(directory));
            next.answer(request.question_id, approve());
        });
    } catch (const Error& error) {
        const bool nothing_to_resume =
            error.code() == ErrorCode::cannot_continue || error.code() == ErrorCode::no_messages;
        EXPECT_TRUE(nothing_to_resume) << error.what();
    }
    faux.set_responses({"next"});
    EXPECT_EQ(next.prompt().outcome, RunOutcome::completed);
}

void check(const std::filesystem::path& directory) {
    const std::shared_ptr<bub::TapeCheckpointer> tapes = open_tapes(directory);
    const MessageList messages = run(tapes->load("t"))->messages;
    EXPECT_TRUE(is_legal_transcript(messages));
    EXPECT_EQ(run(tapes->load_pending_requests("t")).size(), 0u);
    EXPECT_EQ(threads_in_inbox(directory), std::set<std::string>());
    EXPECT_EQ(marks_in(directory), 0u);
    const std::size_t effects = count_in(effects_file(directory));
    EXPECT_LE(effects, 1u);
    EXPECT_LE(effects, count_in(approvals_file(directory)));
    bool done = false;
    for (const Message& message : messages) done |= message.text() == "removed /a";
    if (done) {
        EXPECT_EQ(effects, 1u);
    }
}

/// Returns the number of kills after which the call had its effect.
std::size_t kill_at_every_write(const std::string& way) {
    std::size_t with_effect = 0;
    const std::size_t steps = kill_at_each_step("--" + way, [&](const Remains& remains) {
        EXPECT_EQ(threads_in_inbox(remains.directory), threads_in_states(remains.directory, {"t"}));
        continue_run(remains.directory);
        check(remains.directory);
        with_effect += count_in(effects_file(remains.directory));
    });
    EXPECT_GT(steps, 40u);
    return with_effect;
}

}  // namespace

TEST(ApprovalCrash, D62_AKillAtAnyWriteOfAnApprovedCall) {
    EXPECT_GT(kill_at_every_write("approved"), 30u);
}
TEST(ApprovalCrash, D62_AKillAtAnyWriteOfADeniedCall) { (void)kill_at_every_write("denied"); }
TEST(ApprovalCrash, D62_AKillAtAnyWriteOfASuspendedRun) {
    EXPECT_GT(kill_at_every_write("suspended"), 30u);
}

TEST(ApprovalCrash, TheInboxIsRightAfterAKillAtAnyWriteOfARequest) {
    const std::vector<std::string> all = {"a", "b", "c", "d"};
    const std::size_t steps = kill_at_each_step("--inbox", [&](const Remains& remains) {
        const std::set<std::string> listed = threads_in_inbox(remains.directory);
        EXPECT_EQ(listed, threads_in_states(remains.directory, all));
        if (!remains.killed) {
            EXPECT_EQ(listed, std::set<std::string>{"d"});
        }
        if (std::filesystem::exists(remains.directory / "tapes")) {
            EXPECT_EQ(marks_in(remains.directory), listed.size());
        }
    });
    EXPECT_GT(steps, 30u);
}

TEST(ApprovalCrash, OfTwoProcessesThatAnswerAQuestionOneSucceeds) {
    const TestDirectory directory;
    const std::string place = directory.path().string();
    const std::shared_ptr<bub::TapeCheckpointer> tapes = open_tapes(directory.path());
    for (std::size_t round = 1; round <= 20; ++round) {
        SCOPED_TRACE(round);
        run(tapes->save_pending_request("t", "r", question("t", 1, 0)));
        WorkerProcess anna({"--answer", place, "anna"});
        WorkerProcess ben({"--answer", place, "ben"});
        ASSERT_TRUE(anna.wait_until_frozen());
        ASSERT_TRUE(ben.wait_until_frozen());
        anna.thaw();
        ben.thaw();
        const int first = anna.wait().status;
        EXPECT_EQ(first + ben.wait().status, was_stale);
        const std::vector<AnswerRecord> records = run(tapes->load_answer_records("t"));
        ASSERT_EQ(records.size(), round);
        EXPECT_EQ(records.back().user, first == 0 ? "anna" : "ben");
    }
}

TEST(ApprovalCrash, OfTwoProcessesThatApproveACallOneRunsIt) {
    for (int round = 1; round <= 10; ++round) {
        SCOPED_TRACE(round);
        const TestDirectory directory;
        const std::string place = directory.path().string();
        {
            FauxProvider faux;
            faux.set_responses({calling({rm_call("/a", "c1")})});
            std::vector<std::string> effects;
            Process asking(open_tapes(directory.path()), faux, effects);
            ASSERT_EQ(asking.prompt_and_detach().outcome, RunOutcome::suspended);
        }
        WorkerProcess one({"--respond", place});
        WorkerProcess other({"--respond", place});
        ASSERT_TRUE(one.wait_until_frozen());
        ASSERT_TRUE(other.wait_until_frozen());
        one.thaw();
        other.thaw();
        EXPECT_EQ(one.wait().status + other.wait().status, was_stale);
        EXPECT_EQ(count_in(effects_file(directory.path())), 1u);
    }
}

}  // namespace cubepi::crash_tests

int main(int argc, char** argv) {
    using namespace cubepi::crash_tests;
    using Arguments = std::vector<std::string>;
    std::map<std::string, Worker> workers;
    for (const char* way : {"approved", "denied", "suspended"}) {
        workers[std::string("--") + way] = [way](const Arguments& arguments) {
            return run_approval_worker(arguments.at(0), way, std::stoul(arguments.at(1)));
        };
    }
    workers["--inbox"] = [](const Arguments& arguments) {
        return run_inbox_worker(arguments.at(0), std::stoul(arguments.at(1)));
    };
    workers["--answer"] = [](const Arguments& arguments) {
        return run_answer_worker(arguments.at(0), arguments.at(1));
    };
    workers["--respond"] = [](const Arguments& arguments) {
        return run_respond_worker(arguments.at(0));
    };
    return tests_or_worker(argc, argv, workers);
}
