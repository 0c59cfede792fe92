#include "approval_worker.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <utility>

#include <cubepi/agent/question_store.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/core/error.hpp>

#include "worker_process.hpp"

namespace cubepi::crash_tests {

using namespace hitl_test;

HitlStore& requests_of(Checkpointer& store) { return dynamic_cast<HitlStore&>(store); }
QuestionStore& inbox_of(Checkpointer& store) { return dynamic_cast<QuestionStore&>(store); }

void add_to(const std::filesystem::path& file) {
    const int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    write_without_step(fd, "x");
    close(fd);
}

std::function<void(AgentOptions&, const std::shared_ptr<HitlChannel>&)> count_effects(
    std::filesystem::path directory) {
    return [directory = std::move(directory)](AgentOptions& options,
                                              const std::shared_ptr<HitlChannel>&) {
        options.tools = ToolList();
        options.tools.push_back(tool<PathArgs>("rm", "Removes a file.", [directory](PathArgs args) {
            step();
            add_to(effects_file(directory));
            step();
            return "removed " + args.path;
        }));
    };
}

namespace {

/// The tool of count_effects() as one that may run again, and a tool `plain` that needs no approval and may not.
std::function<void(AgentOptions&, const std::shared_ptr<HitlChannel>&)> count_both_effects(
    std::filesystem::path directory) {
    return [directory = std::move(directory)](AgentOptions& options,
                                              const std::shared_ptr<HitlChannel>& channel) {
        count_effects(directory)(options, channel);
        AgentTool repeatable = *options.tools.find("rm");
        options.tools = ToolList();
        options.tools.push_back(std::move(repeatable).replay(ReplayPolicy::idempotent));
        options.tools.push_back(tool<PathArgs>("plain", "Has an effect.", [directory](PathArgs) {
            step();
            add_to(plain_effects_file(directory));
            step();
            return std::string("plain done");
        }));
    };
}

}  // namespace

HitlRequest question(const std::string& thread_id, double created_at, double timeout) {
    ConfirmRequest payload;
    payload.prompt = "Continue?";
    HitlRequest request;
    request.question_id = "q";
    request.thread_id = thread_id;
    request.payload = std::move(payload);
    request.created_at = created_at;
    if (timeout > 0) request.timeout_seconds = timeout;
    return request;
}

namespace {

int run_approval_worker(const OpenStore& open_store, const std::filesystem::path& directory,
                        const std::string& way, std::size_t kill_at) {
    arm(kill_at);
    FauxProvider faux;
    faux.set_responses({calling({rm_call("/a", "c1")}), "done"});
    std::vector<std::string> effects;
    bool suspended = false;
    {
        Process first(open_store(directory), faux, effects, {}, count_effects(directory));
        const RunResult result = first.prompt([&](const HitlRequest& request) {
            if (way == "suspended") {
                (void)first.agent->detach();
                return;
            }
            if (way == "approved") add_to(approvals_file(directory));
            first.answer(request.question_id, way == "approved" ? approve() : deny("no"));
        });
        suspended = result.outcome == RunOutcome::suspended;
    }
    if (suspended) {
        Process second(open_store(directory), faux, effects, {}, count_effects(directory));
        add_to(approvals_file(directory));
        (void)second.respond("c1", approve());
    }
    disarm();
    return 0;
}

int run_mixed_worker(const OpenStore& open_store, const std::filesystem::path& directory,
                     std::size_t kill_at) {
    arm(kill_at);
    FauxProvider faux;
    faux.set_responses(
        {calling({faux_tool_call("plain", JsonObject{{"path", "/p"}}, "c0"), rm_call("/a", "c1")}),
         "done"});
    std::vector<std::string> effects;
    {
        Process first(open_store(directory), faux, effects, {}, count_both_effects(directory));
        (void)first.prompt([&](const HitlRequest& request) {
            add_to(approvals_file(directory));
            first.answer(request.question_id, approve());
        });
    }
    disarm();
    return 0;
}

int run_inbox_worker(const OpenStore& open_store, const std::filesystem::path& directory,
                     std::size_t kill_at) {
    arm(kill_at);
    const std::shared_ptr<Checkpointer> store = open_store(directory);
    QuestionStore& inbox = inbox_of(*store);
    const auto ask = [&](const char* thread_id, double created_at, double timeout) {
        HitlRequest request = question(thread_id, created_at, timeout);
        run(requests_of(*store).save_pending_request(thread_id, "r", std::move(request)));
    };
    ask("a", 1, 5);
    ask("b", 2, 0);
    QuestionQuery query;
    (void)run(inbox.list_requests(std::move(query)));
    AnswerRecord record;
    record.run_id = "r";
    record.question_id = "q";
    record.answer = true;
    run(inbox.answer_request("b", std::move(record)));
    ask("c", 3, 0);
    (void)run(inbox.expire_due(100, 10));
    (void)run(inbox.discard_requests("c"));
    ask("d", 4, 0);
    disarm();
    return 0;
}

int run_answer_worker(const OpenStore& open_store, const std::filesystem::path& directory,
                      const std::string& user) {
    const std::shared_ptr<Checkpointer> store = open_store(directory);
    AnswerRecord record;
    record.run_id = "r";
    record.question_id = "q";
    record.answer = true;
    record.user = user;
    (void)raise(SIGSTOP);
    try {
        run(inbox_of(*store).answer_request("t", std::move(record)));
    } catch (const Error& error) {
        return error.code() == ErrorCode::stale_answer ? was_stale : 1;
    }
    return 0;
}

int run_respond_worker(const OpenStore& open_store, const std::filesystem::path& directory) {
    FauxProvider faux;
    faux.set_responses({"done"});
    std::vector<std::string> effects;
    Process process(open_store(directory), faux, effects, {}, count_effects(directory));
    (void)raise(SIGSTOP);
    try {
        (void)process.respond("c1", approve());
    } catch (const Error& error) {
        return error.code() == ErrorCode::stale_answer ? was_stale : 1;
    }
    return 0;
}

}  // namespace

int approval_tests_or_worker(int argc, char** argv, const OpenStore& open_store) {
    using Arguments = std::vector<std::string>;
    std::map<std::string, Worker> workers;
    for (const char* way : {"approved", "denied", "suspended"}) {
        workers[std::string("--") + way] = [&open_store, way](const Arguments& arguments) {
            return run_approval_worker(open_store, arguments.at(0), way,
                                       std::stoul(arguments.at(1)));
        };
    }
    workers["--mixed"] = [&open_store](const Arguments& arguments) {
        return run_mixed_worker(open_store, arguments.at(0), std::stoul(arguments.at(1)));
    };
    workers["--inbox"] = [&open_store](const Arguments& arguments) {
        return run_inbox_worker(open_store, arguments.at(0), std::stoul(arguments.at(1)));
    };
    workers["--answer"] = [&open_store](const Arguments& arguments) {
        return run_answer_worker(open_store, arguments.at(0), arguments.at(1));
    };
    workers["--respond"] = [&open_store](const Arguments& arguments) {
        return run_respond_worker(open_store, arguments.at(0));
    };
    return tests_or_worker(argc, argv, workers);
}

std::size_t count_in(const std::filesystem::path& file) {
    std::error_code missing;
    const std::uintmax_t size = std::filesystem::file_size(file, missing);
    return missing ? 0 : static_cast<std::size_t>(size);
}

std::set<std::string> threads_in_inbox(const OpenStore& open_store,
                                       const std::filesystem::path& directory) {
    std::set<std::string> threads;
    const std::shared_ptr<Checkpointer> store = open_store(directory);
    QuestionQuery query;
    const QuestionPage page = run(inbox_of(*store).list_requests(std::move(query)));
    for (const QuestionEntry& entry : page.entries) {
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

namespace {

void continue_with(const OpenStore& open_store, const std::filesystem::path& directory,
                   std::function<void(AgentOptions&, const std::shared_ptr<HitlChannel>&)> tools) {
    FauxProvider faux;
    faux.set_responses({"done", "done"});
    std::vector<std::string> effects;
    Process next(open_store(directory), faux, effects, {}, std::move(tools));
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

}  // namespace

void continue_run(const OpenStore& open_store, const std::filesystem::path& directory) {
    continue_with(open_store, directory, count_effects(directory));
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

void kill_with_repeatable_call(const OpenStore& open_store) {
    std::size_t repeated = 0;
    const auto check = [&](const Remains& remains) {
        const std::filesystem::path& directory = remains.directory;
        continue_with(open_store, directory, count_both_effects(directory));
        const MessageList messages = run(open_store(directory)->load("t"))->messages;
        EXPECT_TRUE(is_legal_transcript(messages));
        EXPECT_LE(count_in(plain_effects_file(directory)), 1u) << "a call took effect twice";
        const std::size_t effects = count_in(effects_file(directory));
        if (effects > 0) {
            EXPECT_GT(count_in(approvals_file(directory)), 0u);
        }
        std::size_t asked = 0;
        std::size_t removed = 0;
        for (const Message& message : messages) {
            const AssistantMessage* answer = message.assistant();
            asked += answer && answer->has_tool_calls() ? 1 : 0;
            removed += message.text() == "removed /a" ? 1 : 0;
        }
        EXPECT_EQ(removed, asked);
        repeated += effects > 1 ? 1 : 0;
    };
    EXPECT_GT(kill_at_each_step("--mixed", check, 3 * kill_stride), 40u);
    EXPECT_GT(repeated, 0u);
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
