#include <cubepi/agent/run/stored_questions.hpp>

#include <optional>
#include <set>
#include <utility>

#include <cubepi/agent/run/store_call.hpp>

namespace cubepi::detail {

namespace {

Task<bool> has_answer(ThreadLog& log, const std::string& run_id, const std::string& question_id) {
    auto call = [&] {
        return log.questions()->load_hitl_answer(log.thread_id(), run_id, question_id);
    };
    Task<std::optional<Json>> loading =
        store_call("load the answer to a request", log.thread_id(), std::move(call));
    const std::optional<Json> answer = co_await std::move(loading);
    co_return answer.has_value();
}

/// The answers of a store with an inbox have no pending request any more.
Task<bool> has_answer_without_request(ThreadLog& log, const std::string& run_id) {
    std::set<std::string> ids;
    for (const ToolCall& call : log.open_calls()) ids.insert(call.id.str());
    if (log.inbox()) {
        auto call = [&] { return log.inbox()->load_answer_records(log.thread_id()); };
        Task<std::vector<AnswerRecord>> loading =
            store_call("load the answers of the thread", log.thread_id(), std::move(call));
        const std::vector<AnswerRecord> records = co_await std::move(loading);
        for (const AnswerRecord& one : records) {
            if (one.run_id == run_id) ids.insert(one.question_id);
        }
    }
    for (const std::string& id : ids) {
        const bool found = co_await has_answer(log, run_id, id);
        if (found) co_return true;
    }
    co_return false;
}

}  // namespace

bool is_expired(const PendingRequest& pending, double now) {
    if (pending.expired) return true;
    const HitlRequest& request = pending.request;
    return request.timeout_seconds && request.created_at + *request.timeout_seconds <= now;
}

std::vector<std::string> StoredQuestions::open_ids() const {
    std::vector<std::string> ids;
    for (const HitlRequest& one : open) ids.push_back(one.question_id);
    return ids;
}

Task<StoredQuestions> load_stored_questions(ThreadLog& log, double now, std::string run_id) {
    StoredQuestions found;
    if (!log.questions() || !log.has_open_calls()) co_return found;
    found.run_id = log.open_calls_run_id().str();
    if (found.run_id.empty()) found.run_id = std::move(run_id);
    auto call = [&log] { return log.questions()->load_pending_requests(log.thread_id()); };
    Task<std::vector<PendingRequest>> loading =
        store_call("load the pending requests", log.thread_id(), std::move(call));
    std::vector<PendingRequest> pending = co_await std::move(loading);
    for (PendingRequest& one : pending) {
        // Rows of old files name no run.
        if (!one.run_id.empty() && one.run_id != found.run_id) continue;
        const bool answered = co_await has_answer(log, found.run_id, one.request.question_id);
        if (answered) {
            found.has_unused_answers = true;
        } else if (is_expired(one, now)) {
            found.expired.push_back(std::move(one.request));
        } else {
            found.open.push_back(std::move(one.request));
        }
    }
    if (!found.has_unused_answers)
        found.has_unused_answers = co_await has_answer_without_request(log, found.run_id);
    co_return found;
}

Task<void> adopt_requests(ThreadLog& log, std::string run_id) {
    auto load = [&log] { return log.questions()->load_pending_requests(log.thread_id()); };
    Task<std::vector<PendingRequest>> loading =
        store_call("load the pending requests", log.thread_id(), std::move(load));
    const std::vector<PendingRequest> pending = co_await std::move(loading);
    for (const PendingRequest& one : pending) {
        if (!one.run_id.empty()) continue;
        auto clear = [&] {
            return log.questions()->clear_pending_request(log.thread_id(), std::string(),
                                                          one.request.question_id);
        };
        Task<bool> clearing = store_call("remove a request", log.thread_id(), std::move(clear));
        (void)co_await std::move(clearing);
        auto save = [&] {
            return log.questions()->save_pending_request(log.thread_id(), run_id, one.request);
        };
        Task<void> saving = store_call("store a request", log.thread_id(), std::move(save));
        co_await std::move(saving);
    }
}

Task<OpenCalls> load_open_calls(ThreadLog& log, std::string run_id) {
    OpenCalls open;
    for (const ToolCall& call : log.open_calls()) open.ids.push_back(call.id.str());
    if (!log.batches()) co_return open;
    auto call = [&] { return log.batches()->load_started_batch(log.thread_id(), run_id); };
    Task<std::optional<StartedBatch>> loading =
        store_call("load the started tool calls", log.thread_id(), std::move(call));
    std::optional<StartedBatch> started = co_await std::move(loading);
    if (started && started->batch_id == log.open_calls_message_id())
        open.interrupted = std::move(started->tool_call_ids);
    co_return open;
}

Task<void> remove_questions(ThreadLog& log, StoredQuestions questions) {
    std::vector<HitlRequest> requests = std::move(questions.open);
    for (HitlRequest& one : questions.expired) requests.push_back(std::move(one));
    for (const HitlRequest& one : requests) {
        auto call = [&] {
            return log.questions()->clear_pending_request(log.thread_id(), questions.run_id,
                                                          one.question_id);
        };
        Task<bool> clearing = store_call("remove a request", log.thread_id(), std::move(call));
        const bool cleared = co_await std::move(clearing);
        if (cleared) continue;
        // A row of an old file names no run.
        auto legacy = [&] {
            return log.questions()->clear_pending_request(log.thread_id(), std::string(),
                                                          one.question_id);
        };
        Task<bool> removing = store_call("remove a request", log.thread_id(), std::move(legacy));
        (void)co_await std::move(removing);
    }
    auto call = [&] {
        return log.questions()->clear_hitl_answers(log.thread_id(), questions.run_id, {});
    };
    Task<void> clearing = store_call("remove unused answers", log.thread_id(), std::move(call));
    co_await std::move(clearing);
}

}  // namespace cubepi::detail
