#include "approval_checks.hpp"

#include <gtest/gtest.h>

#include <cubepi/agent/transcript.hpp>
#include <cubepi/core/error.hpp>

#include "worker_process.hpp"

namespace cubepi::crash_tests {

using namespace hitl_test;

std::size_t count_in(const std::filesystem::path& file) {
    std::error_code missing;
    const std::uintmax_t size = std::filesystem::file_size(file, missing);
    return missing ? 0 : static_cast<std::size_t>(size);
}

std::set<std::string> threads_in_inbox(const OpenStore& open_store,
                                       const std::filesystem::path& directory) {
    std::set<std::string> threads;
    const std::shared_ptr<Checkpointer> store = open_store(directory);
    InboxQuery query;
    const InboxPage page = run(inbox_of(*store).list_requests(std::move(query)));
    for (const InboxEntry& entry : page.entries) {
        EXPECT_EQ(entry.damage, "");
        EXPECT_TRUE(threads.insert(entry.thread_id).second) << entry.thread_id << " twice";
    }
    return threads;
}

std::set<std::string> threads_by_loading(const OpenStore& open_store,
                                         const std::filesystem::path& directory,
                                         const std::vector<std::string>& all) {
    std::set<std::string> threads;
    const std::shared_ptr<Checkpointer> store = open_store(directory);
    for (const std::string& thread_id : all) {
        for (const PendingRequest& one :
             run(requests_of(*store).load_pending_requests(thread_id))) {
            if (!one.expired) threads.insert(thread_id);
        }
    }
    return threads;
}

void continue_run(const OpenStore& open_store, const std::filesystem::path& directory) {
    FauxProvider faux;
    faux.set_responses({"done", "done"});
    std::vector<std::string> effects;
    Process next(open_store(directory), faux, effects, {}, count_effects(directory));
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

void check_effects(const OpenStore& open_store, const std::filesystem::path& directory) {
    const std::shared_ptr<Checkpointer> store = open_store(directory);
    const MessageList messages = run(store->load("t"))->messages;
    EXPECT_TRUE(is_legal_transcript(messages));
    EXPECT_EQ(run(requests_of(*store).load_pending_requests("t")).size(), 0u);
    EXPECT_EQ(threads_in_inbox(open_store, directory), std::set<std::string>());
    const std::size_t effects = count_in(effects_file(directory));
    EXPECT_LE(effects, 1u);
    EXPECT_LE(effects, count_in(approvals_file(directory)));
    bool done = false;
    for (const Message& message : messages) done |= message.text() == "removed /a";
    if (done) {
        EXPECT_EQ(effects, 1u);
    }
}

std::size_t kill_at_every_write(const OpenStore& open_store, const std::string& way) {
    std::size_t with_effect = 0;
    const auto check = [&](const Remains& remains) {
        const std::filesystem::path& directory = remains.directory;
        EXPECT_EQ(threads_in_inbox(open_store, directory),
                  threads_by_loading(open_store, directory, {"t"}));
        continue_run(open_store, directory);
        check_effects(open_store, directory);
        with_effect += count_in(effects_file(directory));
    };
    EXPECT_GT(kill_at_each_step("--" + way, check, kill_stride), 40u);
    return with_effect;
}

void approve_in_two_processes(const OpenStore& open_store) {
    for (int round = 1; round <= 10; ++round) {
        SCOPED_TRACE(round);
        const TestDirectory directory;
        const std::string place = directory.path().string();
        {
            FauxProvider faux;
            faux.set_responses({calling({rm_call("/a", "c1")})});
            std::vector<std::string> effects;
            Process asking(open_store(directory.path()), faux, effects);
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
