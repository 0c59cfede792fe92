#include "approval_worker.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <utility>

#include <bub/tape/file_tape_store.hpp>
#include <cubepi/core/error.hpp>

#include "kill_at_write.hpp"

namespace cubepi::crash_tests {

using namespace hitl_test;

void add_to(const std::filesystem::path& file) {
    const int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    write_without_step(fd, "x");
    close(fd);
}

std::shared_ptr<bub::TapeCheckpointer> open_tapes(const std::filesystem::path& directory) {
    bub::FileTapeOptions options;
    options.directory = directory / "tapes";
    options.sync = bub::TapeSync::never;
    return std::make_shared<bub::TapeCheckpointer>(
        std::make_shared<bub::FileTapeStore>(std::move(options)));
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

int run_approval_worker(const std::filesystem::path& directory, const std::string& way,
                        std::size_t kill_at) {
    arm(kill_at);
    FauxProvider faux;
    faux.set_responses({calling({rm_call("/a", "c1")}), "done"});
    std::vector<std::string> effects;
    bool suspended = false;
    {
        Process first(open_tapes(directory), faux, effects, {}, count_effects(directory));
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
        Process second(open_tapes(directory), faux, effects, {}, count_effects(directory));
        add_to(approvals_file(directory));
        (void)second.respond("c1", approve());
    }
    disarm();
    return 0;
}

int run_inbox_worker(const std::filesystem::path& directory, std::size_t kill_at) {
    arm(kill_at);
    const std::shared_ptr<bub::TapeCheckpointer> tapes = open_tapes(directory);
    const auto ask = [&](const char* thread_id, double created_at, double timeout) {
        run(tapes->save_pending_request(thread_id, "r", question(thread_id, created_at, timeout)));
    };
    ask("a", 1, 5);
    ask("b", 2, 0);
    InboxQuery query;
    (void)run(tapes->list_requests(std::move(query)));
    AnswerRecord record;
    record.run_id = "r";
    record.question_id = "q";
    record.answer = true;
    run(tapes->answer_request("b", std::move(record)));
    ask("c", 3, 0);
    (void)run(tapes->expire_due(100, 10));
    (void)run(tapes->discard_requests("c"));
    ask("d", 4, 0);
    disarm();
    return 0;
}

int run_answer_worker(const std::filesystem::path& directory, const std::string& user) {
    const std::shared_ptr<bub::TapeCheckpointer> tapes = open_tapes(directory);
    AnswerRecord record;
    record.run_id = "r";
    record.question_id = "q";
    record.answer = true;
    record.user = user;
    (void)raise(SIGSTOP);
    try {
        run(tapes->answer_request("t", std::move(record)));
    } catch (const Error& error) {
        return error.code() == ErrorCode::stale_answer ? was_stale : 1;
    }
    return 0;
}

int run_respond_worker(const std::filesystem::path& directory) {
    FauxProvider faux;
    faux.set_responses({"done"});
    std::vector<std::string> effects;
    Process process(open_tapes(directory), faux, effects, {}, count_effects(directory));
    (void)raise(SIGSTOP);
    try {
        (void)process.respond("c1", approve());
    } catch (const Error& error) {
        const bool late = error.code() == ErrorCode::stale_answer ||
                          error.code() == ErrorCode::no_pending_request ||
                          error.code() == ErrorCode::run_already_claimed;
        return late ? was_stale : 1;
    }
    return 0;
}

}  // namespace cubepi::crash_tests
