#include <cubepi/agent/run/suspended_run.hpp>

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <utility>

#include <cubepi/agent/run/open_requests.hpp>
#include <cubepi/agent/run/prompt_run.hpp>
#include <cubepi/agent/run/prompt_work.hpp>
#include <cubepi/agent/run/suspended_cost.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/json_member.hpp>

namespace cubepi::detail {

namespace {

constexpr std::string_view turn_key = "cubepi.suspended_turn";
constexpr std::string_view refused_key = "refused";
constexpr std::string_view attempts_key = "attempts";
constexpr std::string_view turns_key = "turns";
constexpr std::string_view cost_key = "cost";  // null: unknown
constexpr std::string_view last_key = "last";  // the id of the last message that `cost` includes
constexpr std::string_view after_key = "calls_after";  // RepeatedCalls::begins_after()
/// The stored number may be damaged.
constexpr std::int64_t most_turns = 1'000'000;
/// So many processes in a row may end during the repeated calls of one answer.
constexpr std::int64_t max_attempts = 3;

/// Answers are stored in milliseconds; a claim that is held for longer is that of a process that runs.
constexpr int claim_attempts = 100;
constexpr std::chrono::milliseconds claim_interval(20);

/// Returns the saved state if it belongs to this answer; else null.
const JsonObject* saved_turn(const AgentState& state, const std::string& answer_id) {
    const Json* saved = state.extra.if_contains(turn_key);
    const JsonObject* object = saved ? saved->if_object() : nullptr;
    if (!object) return nullptr;
    const Json* id = object->if_contains("message_id");
    return id && *id == Json(answer_id) ? object : nullptr;
}

Task<bool> has_answer(ThreadLog& log, const std::string& run_id, const std::string& question_id) {
    auto call = [&] {
        return log.questions()->load_hitl_answer(log.thread_id(), run_id, question_id);
    };
    Task<std::optional<Json>> loading =
        store_call("load the answer to a request", log.thread_id(), std::move(call));
    const std::optional<Json> answer = co_await std::move(loading);
    co_return answer.has_value();
}

/// The answers of a store with a QuestionStore have no pending request any more.
Task<bool> has_answer_without_request(ThreadLog& log, const std::string& run_id) {
    std::set<std::string> ids;
    for (const ToolCall& call : log.open_calls()) ids.insert(call.id.str());
    if (log.question_store()) {
        auto call = [&] {
            return log.question_store()->load_answer_records(log.thread_id(), run_id);
        };
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

/// Assigns this run to the requests of old files, which name none.
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

/// Returns the open calls at the end of the history, and which of them were started by that run (D62).
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

/// Removes requests and answers of the run.
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

[[noreturn]] void throw_stale(const std::string& question_id) {
    throw Error(ErrorCode::stale_answer, "the request '" + question_id +
                                             "' does not wait for an answer: it was answered, has "
                                             "expired, or was never made in this run");
}

void require_durable_channel(const Agent::Impl& impl) {
    if (!impl.settings().channel) {
        throw Error(ErrorCode::no_channel,
                    "respond(): the agent has no channel (AgentOptions::channel)");
    }
    if (!impl.settings().channel->is_durable() || !impl.log.questions()) {
        throw Error(ErrorCode::invalid_state,
                    "respond(): nothing is suspended without a store for requests; answer this "
                    "channel with HitlChannel::answer()");
    }
}

}  // namespace

Task<void> reload(Agent::Impl& impl, std::stop_token token) {
    impl.log.forget();
    impl.state.messages.clear();
    co_await cancel_on(token, impl.log.load());
}

namespace {

const HitlRequest& request_to_answer(const StoredQuestions& questions,
                                     const std::string& question_id) {
    if (questions.open.empty() && question_id.empty()) {
        throw Error(ErrorCode::no_pending_request,
                    "respond(): no request of the thread waits for an answer");
    }
    if (question_id.empty()) {
        if (questions.open.size() == 1) return questions.open.front();
        throw Error(ErrorCode::invalid_argument,
                    "respond(): " + std::to_string(questions.open.size()) +
                        " requests wait; pass the id of the question");
    }
    const HitlRequest* const found = find_request(questions.open, question_id);
    if (!found && find_request(questions.expired, question_id)) {
        throw Error(ErrorCode::stale_answer,
                    "the request '" + question_id + "' has expired: the time to answer it is over");
    }
    if (!found) throw_stale(question_id);
    return *found;
}

Task<void> store_answer(Agent::Impl& impl, std::string run_id, std::string question_id, Json answer,
                        AnswerOrigin origin) {
    ThreadLog& log = impl.log;
    if (QuestionStore* questions = log.question_store()) {
        AnswerRecord record;
        record.run_id = std::move(run_id);
        record.question_id = std::move(question_id);
        record.answer = std::move(answer);
        record.answered_at = unix_seconds(impl);
        record.user = std::move(origin.user);
        record.channel = std::move(origin.channel);
        auto call = [&] { return questions->answer_request(log.thread_id(), std::move(record)); };
        Task<void> storing = store_call("store the answer", log.thread_id(), std::move(call));
        co_await std::move(storing);
        co_return;
    }
    HitlAnswer stored;
    stored.run_id = std::move(run_id);
    stored.question_id = std::move(question_id);
    stored.answer = std::move(answer);
    auto call = [&] {
        return log.questions()->save_hitl_answer(log.thread_id(), std::move(stored));
    };
    Task<void> storing = store_call("store the answer", log.thread_id(), std::move(call));
    co_await std::move(storing);
}

/// The messages of old files name no run: their suspended run gets an id.
void name_run(const Agent::Impl& impl, StoredQuestions& questions) {
    if (questions.run_id.empty()) questions.run_id = impl.runtime->ids->next();
}

/// Stores the answer under the claim of the run. Returns the questions that are open after it.
Task<StoredQuestions> accept_answer(Agent::Impl& impl, std::string run_id, std::string question_id,
                                    Json answer, AnswerOrigin origin) {
    if (impl.log.open_calls_run_id().empty()) co_await adopt_requests(impl.log, run_id);
    // Again, because another process may have had the claim until now.
    StoredQuestions questions =
        co_await load_stored_questions(impl.log, unix_seconds(impl), std::move(run_id));
    const HitlRequest& request = request_to_answer(questions, question_id);
    Json checked = check_answer(request, std::move(answer));
    std::string id = request.question_id;
    Task<void> storing =
        store_answer(impl, questions.run_id, id, std::move(checked), std::move(origin));
    co_await std::move(storing);
    std::erase_if(questions.open, [&](const HitlRequest& one) { return one.question_id == id; });
    co_return questions;
}

/// Stores the answer, and continues the run if no other question is open. Holds the claim.
Task<RunResult> answer_claimed(Agent::Impl& impl, PromptRun& prompt_run, std::string run_id,
                               std::string question_id, Json answer, AnswerOrigin origin) {
    StoredQuestions questions = co_await accept_answer(
        impl, std::move(run_id), std::move(question_id), std::move(answer), std::move(origin));
    if (!questions.open.empty()) {
        impl.state.last_outcome = LastOutcome::suspended;
        co_return suspended_result(questions);
    }
    OpenCalls open = co_await load_open_calls(impl.log, questions.run_id);
    co_return co_await prompt_run.continue_run(std::move(open));
}

/// Continues a run whose questions were answered. Holds the claim.
Task<RunResult> resume_claimed(Agent::Impl& impl, PromptRun& prompt_run, std::string run_id) {
    if (impl.log.open_calls_run_id().empty()) co_await adopt_requests(impl.log, run_id);
    OpenCalls open = co_await load_open_calls(impl.log, std::move(run_id));
    co_return co_await prompt_run.continue_run(std::move(open));
}

}  // namespace

double unix_seconds(const Agent::Impl& impl) {
    const auto since_epoch = impl.runtime->clock->wall().time_since_epoch();
    return std::chrono::duration<double>(since_epoch).count();
}

RunResult suspended_result(const StoredQuestions& questions) {
    RunResult result;
    result.run_id = questions.run_id;
    result.outcome = RunOutcome::suspended;
    result.pending_requests = questions.open;
    result.failure = std::make_shared<const PendingRequestsError>(
        questions.open_ids(), "the run is suspended: " + std::to_string(questions.open.size()) +
                                  " request(s) wait for an answer");
    return result;
}

void throw_pending_requests(const std::string& thread_id, const StoredQuestions& questions) {
    std::string text = "thread '" + thread_id + "' has a suspended run";
    if (questions.open.empty()) {
        text += " whose questions are answered: continue it with resume()";
    } else {
        text += " that waits for the answer to '" + questions.open.front().question_id + "'";
        if (questions.open.size() > 1)
            text += " and " + std::to_string(questions.open.size() - 1) + " more";
        text += ": answer with respond()";
    }
    throw PendingRequestsError(questions.open_ids(),
                               text + ", or close it with PromptOptions().abandon_pending()");
}

Task<RunResult> continue_suspended_run(Agent::Impl& impl, ActiveRun& active,
                                       StoredQuestions questions, PromptOptions options) {
    name_run(impl, questions);
    const SharedString run_id(questions.run_id);
    active.set_run_id(run_id);
    const auto prompt_run = std::make_unique<PromptRun>(impl, run_id, active.token(), options);
    prompt_run->core().start_with(options.prior_spending());
    Task<RunResult> resuming = resume_claimed(impl, *prompt_run, questions.run_id);
    co_return co_await prompt_run->with_claim(ClaimKind::continue_run, std::move(resuming));
}

Task<void> close_suspended_run(Agent::Impl& impl, StoredQuestions questions, std::string reason,
                               std::stop_token token) {
    const std::vector<ToolCall> calls = impl.log.open_calls();
    SharedString run_id(questions.run_id);
    if (!calls.empty()) run_id = impl.log.open_calls_run_id();
    const RunParts parts = impl.parts();
    RunCore core(parts, run_id, std::move(token));
    forget_turn(impl.state);
    for (const ToolCall& call : calls) {
        ToolResultMessage result = interrupted_tool_result(call, run_id, core.wall_seconds());
        result.id = impl.runtime->ids->next();
        result.content = {TextContent{"aborted: " + reason}};
        result.details =
            JsonObject{{"hitl", JsonObject{{"decision", "aborted"}, {"reason", reason}}}};
        Message message(std::move(result));
        co_await impl.log.append(std::move(message));
    }
    if (!calls.empty()) {
        AssistantMessage closing = *failure_message(core, std::string(), true).assistant();
        closing.content.clear();
        closing.content.emplace_back(TextContent{"Conversation aborted: " + reason});
        Message message(std::move(closing));
        co_await impl.log.append(std::move(message));
    }
    if (questions.any()) co_await remove_questions(impl.log, std::move(questions));
    co_await impl.log.save_extra();
    AgentAbortedEvent event;
    event.reason = std::move(reason);
    co_await core.emit(std::move(event));
}

Task<void> close_expired_calls(Agent::Impl& impl, StoredQuestions questions) {
    const SharedString run_id = impl.log.open_calls_run_id();
    for (const ToolCall& call : impl.log.open_calls()) {
        ToolResultMessage result = interrupted_tool_result(call, run_id, unix_seconds(impl));
        const bool expired =
            std::any_of(questions.expired.begin(), questions.expired.end(),
                        [&](const HitlRequest& one) { return one.question_id == call.id.str(); });
        result.id = impl.runtime->ids->next();
        if (expired) {
            result.content = {TextContent{"approval_timeout: no answer in time"}};
            result.details = JsonObject{{"hitl", JsonObject{{"decision", "timed_out"}}}};
        }
        Message message(std::move(result));
        co_await impl.log.append(std::move(message));
    }
    co_await remove_questions(impl.log, std::move(questions));
}

namespace {

/// Answers a question of a suspended run; continues the run if it was the last one.
Task<RunResult> run_respond(std::shared_ptr<Agent::Impl> impl, std::string question_id, Json answer,
                            AnswerOrigin origin, PromptOptions options) {
    require_durable_channel(*impl);
    ActiveRun active(*impl, impl->runtime->ids->next());
    co_await reload(*impl, active.token());
    StoredQuestions questions = co_await load_stored_questions(impl->log, unix_seconds(*impl));
    // Another process may continue the run before this one has the claim, and the next question may have the same id.
    const HitlRequest& request = request_to_answer(questions, question_id);
    question_id = request.request_id.empty() ? request.question_id : request.request_id;
    name_run(*impl, questions);
    const SharedString run_id(questions.run_id);
    active.set_run_id(run_id);
    const auto prompt_run = std::make_unique<PromptRun>(*impl, run_id, active.token(), options);
    prompt_run->core().start_with(options.prior_spending());
    for (int attempt = 1;; ++attempt) {
        Task<RunResult> answering =
            answer_claimed(*impl, *prompt_run, questions.run_id, question_id, answer, origin);
        Task<RunResult> claimed =
            prompt_run->with_claim(ClaimKind::continue_run, std::move(answering));
        Outcome<RunResult> result = co_await outcome_of(std::move(claimed));
        if (!is_claim_refusal(result.failure())) co_return std::move(result).value();
        // The owner of the claim stores its answer first. If it answers another question, it releases the claim then.
        co_await reload(*impl, active.token());
        const StoredQuestions now = co_await load_stored_questions(impl->log, unix_seconds(*impl));
        (void)request_to_answer(now, question_id);
        if (attempt == claim_attempts) result.rethrow();
        Task<> waiting = impl->runtime->clock->sleep_for(claim_interval);
        co_await cancel_on(active.token(), std::move(waiting));
    }
}

/// Removes the requests that no answer can reach: no call of the thread is open.
Task<void> discard_requests(ThreadLog& log) {
    if (log.question_store()) {
        auto call = [&log] { return log.question_store()->discard_requests(log.thread_id()); };
        Task<std::size_t> discarding =
            store_call("discard requests", log.thread_id(), std::move(call));
        (void)co_await std::move(discarding);
        co_return;
    }
    if (!log.questions()) co_return;
    auto load = [&log] { return log.questions()->load_pending_requests(log.thread_id()); };
    Task<std::vector<PendingRequest>> loading =
        store_call("load the pending requests", log.thread_id(), std::move(load));
    const std::vector<PendingRequest> pending = co_await std::move(loading);
    for (const PendingRequest& one : pending) {
        auto clear = [&] {
            return log.questions()->clear_pending_request(log.thread_id(), one.run_id,
                                                          one.request.question_id);
        };
        Task<bool> clearing = store_call("remove a request", log.thread_id(), std::move(clear));
        (void)co_await std::move(clearing);
    }
}

/// Closes the suspended run. No run is active.
Task<void> run_abort_pending(std::shared_ptr<Agent::Impl> impl, std::string reason) {
    ActiveRun active(*impl, impl->runtime->ids->next());
    if (impl->log.persistent()) co_await reload(*impl, active.token());
    StoredQuestions questions = co_await load_stored_questions(impl->log, unix_seconds(*impl));
    if (!impl->log.has_open_calls()) {
        co_await discard_requests(impl->log);
        co_await close_suspended_run(*impl, std::move(questions), std::move(reason),
                                     active.token());
        co_return;
    }
    const SharedString run_id = impl->log.open_calls_run_id();
    active.set_run_id(run_id);
    const auto prompt_run = std::make_unique<PromptRun>(*impl, run_id, active.token());
    Task<void> closing =
        close_suspended_run(*impl, std::move(questions), std::move(reason), active.token());
    co_await prompt_run->with_claim(ClaimKind::continue_run, std::move(closing));
    impl->state.last_outcome = LastOutcome::abandoned;
}

}  // namespace

}  // namespace cubepi::detail

namespace cubepi {

Task<RunResult> Agent::respond(std::string question_id, Json answer, AnswerOrigin origin) {
    return respond_with(std::move(question_id), std::move(answer), std::move(origin),
                        PromptOptions());
}

Task<RunResult> Agent::respond_with(std::string question_id, Json answer, AnswerOrigin origin,
                                    PromptOptions options) {
    Task<RunResult> work = detail::run_respond(impl_, std::move(question_id), std::move(answer),
                                               std::move(origin), options);
    return detail::run_guarded(impl_, std::move(work), std::move(options));
}

AgentRun Agent::start_response(std::string question_id, Json answer, AnswerOrigin origin) {
    auto work = [question_id = std::move(question_id), answer = std::move(answer),
                 origin = std::move(origin)](std::shared_ptr<Impl> impl) {
        return detail::run_respond(std::move(impl), question_id, answer, origin, PromptOptions());
    };
    return AgentRun(std::make_shared<AgentRun::State>(impl_, std::move(work), PromptOptions()));
}

Task<void> Agent::abort_pending(std::string reason) {
    const std::shared_ptr<Impl> impl = impl_;
    if (impl->state.is_streaming) {
        impl->input_queue.abort();
        co_await detail::wait_until_idle(impl);
    }
    Task<void> work = detail::run_abort_pending(impl, std::move(reason));
    std::function<void()> abort = [&impl] { impl->input_queue.abort(); };
    co_await detail::abort_when_cancelled(std::move(work), std::move(abort));
}

Task<std::vector<HitlRequest>> Agent::load_pending_hitl_requests() {
    const std::shared_ptr<Impl> impl = impl_;
    std::vector<HitlRequest> requests;
    HitlStore* store = impl->log.questions();
    if (!store) co_return requests;
    auto call = [&] { return store->load_pending_requests(impl->log.thread_id()); };
    Task<std::vector<PendingRequest>> loading =
        detail::store_call("load the pending requests", impl->log.thread_id(), std::move(call));
    std::vector<PendingRequest> pending = co_await std::move(loading);
    if (pending.empty()) co_return requests;
    // The stored history: another process may have continued the thread.
    auto load = [&] { return impl->log.store()->load(impl->log.thread_id()); };
    Task<std::optional<CheckpointData>> reading =
        detail::store_call("load the thread", impl->log.thread_id(), std::move(load));
    const std::optional<CheckpointData> data = co_await std::move(reading);
    if (!data) co_return requests;
    pending = detail::requests_of_open_calls(std::move(pending), data->messages);
    const double now = detail::unix_seconds(*impl);
    for (PendingRequest& one : pending) {
        if (!detail::is_expired(one, now)) requests.push_back(std::move(one.request));
    }
    co_return requests;
}

}  // namespace cubepi

namespace cubepi::detail {

// The questions and the state of the turn in the store.

std::vector<PendingRequest> requests_of_open_calls(std::vector<PendingRequest> pending,
                                                   const MessageList& messages,
                                                   std::string run_id) {
    if (open_tool_calls(messages).empty()) return {};
    const Message& caller = messages[end_of_answer(messages) - 1];
    if (!caller.run_id().empty()) run_id = caller.run_id().str();
    std::erase_if(pending, [&run_id](const PendingRequest& one) {
        return !one.run_id.empty() && one.run_id != run_id;
    });
    return pending;
}

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
    if (found.run_id.empty()) found.run_id = run_id;
    auto call = [&log] { return log.questions()->load_pending_requests(log.thread_id()); };
    Task<std::vector<PendingRequest>> loading =
        store_call("load the pending requests", log.thread_id(), std::move(call));
    std::vector<PendingRequest> pending = co_await std::move(loading);
    pending = requests_of_open_calls(std::move(pending), log.messages(), std::move(run_id));
    for (PendingRequest& one : pending) {
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

Task<> save_turn(RunCore& core, const std::string& answer_id, const MessageList& inject_messages,
                 std::uint32_t turns) {
    const JsonObject* saved = saved_turn(core.state(), answer_id);
    JsonObject turn = saved ? *saved : JsonObject();
    turn["message_id"] = answer_id;
    JsonArray messages;
    for (const Message& message : inject_messages) messages.emplace_back(to_json(message));
    if (!messages.empty()) turn["inject_messages"] = std::move(messages);
    if (const PrefixGuard* guard = core.parts().prefix_guard) turn["prompt"] = guard->digest();
    turn[turns_key] = std::int64_t{turns};
    const std::optional<double> cost = core.cost_of_attempts();
    turn[cost_key] = cost ? Json(*cost) : Json();
    turn[last_key] = core.state().messages.back().id();
    const std::string& after = core.repeated_calls().begins_after();
    if (!after.empty()) turn[after_key] = after;
    core.state().extra[turn_key] = std::move(turn);
    return core.parts().log->save_extra();
}

MessageList restore_turn(const RunCore& core, const std::string& answer_id) {
    MessageList messages;
    const JsonObject* turn = saved_turn(core.state(), answer_id);
    if (!turn) return messages;
    PrefixGuard* guard = core.parts().prefix_guard;
    const Json* prompt = turn->if_contains("prompt");
    if (guard && prompt) guard->restore(*prompt);
    const Json* saved = turn->if_contains("inject_messages");
    if (!saved || !saved->is_array()) return messages;
    for (const Json& message : saved->get_array()) messages.push_back(message_from_json(message));
    return messages;
}

std::uint32_t restore_work(RunCore& core, const std::string& input_id,
                           const std::string& answer_id) {
    const MessageList& history = core.state().messages;
    const std::size_t begin = begin_of_prompt(history, input_id);
    const PromptWork work = work_since(history, begin, *core.state().model);
    core.continue_with(work.cost, work.cost);
    if (!core.repeated_calls().enabled()) return work.turns;
    const JsonObject* const turn = saved_turn(core.state(), answer_id);
    std::string after = turn ? text_member(*turn, after_key) : std::string();
    const std::size_t calls = index_after(history, after).value_or(begin);
    core.repeated_calls().begin_after(std::move(after));
    core.repeated_calls().note_history(history, calls);
    return work.turns;
}

namespace {

/// Returns what a run has spent that had spent `at_suspension`. If a process has continued it since and was killed, the messages since
/// then record the remainder: all that is beyond the lesser of the two amounts that the process knew. The history may have more than the
/// state, after a limit at which the run has begun again, and less, if charges had no message yet.
std::optional<double> spent_since(const RunCore& core, double at_suspension,
                                  std::string_view last) {
    const MessageList& history = core.state().messages;
    const std::size_t begin = index_after(history, last).value_or(history.size());
    const std::optional<double> since = work_since(history, begin, *core.state().model).cost;
    if (!since) return std::nullopt;
    const double in_history = core.cost_of_attempts().value_or(at_suspension + *since);
    return std::max(at_suspension, std::min(at_suspension, in_history - *since) + *since);
}

}  // namespace

std::uint32_t restore_spending(RunCore& core, const std::string& answer_id, std::uint32_t counted) {
    const JsonObject* const turn = saved_turn(core.state(), answer_id);
    const Json* const turns = turn ? turn->if_contains(turns_key) : nullptr;
    // Earlier versions have stored neither.
    if (!turns || !turns->is_number()) return counted;
    std::optional<double> spent = suspended_cost(core.state().extra);
    if (spent) spent = spent_since(core, *spent, text_member(*turn, last_key));
    core.continue_with(spent, core.cost_of_attempts());
    const std::int64_t* const count = turns->if_int64();
    if (!count) return counted;
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(*count, 0, most_turns));
}

std::optional<double> suspended_cost(const JsonObject& extra) {
    const Json* const saved = extra.if_contains(turn_key);
    const JsonObject* const turn = saved ? saved->if_object() : nullptr;
    if (!turn || !turn->contains(turns_key)) return 0.0;
    std::optional<double> spent;
    const Json* const cost = turn->if_contains(cost_key);
    if (cost && cost->is_number()) spent = std::max(0.0, cost->to_number<double>());
    return spent;
}

void refuse_turn(AgentState& state, const std::string& answer_id) {
    state.extra[turn_key] = JsonObject{{"message_id", answer_id}, {refused_key, true}};
}

std::size_t end_of_answer(const MessageList& messages) {
    std::size_t end = messages.size();
    while (end > 1 && messages[end - 1].role() == Role::tool_result) --end;
    return end;
}

bool any_repeatable(const ThreadLog& log, const ToolList& tools) {
    const std::vector<ToolCall> open = log.open_calls();
    return std::any_of(open.begin(), open.end(), [&tools](const ToolCall& call) {
        return is_repeatable(tools.find(call.name), call.arguments);
    });
}

Task<std::optional<OpenCalls>> load_killed_calls(Agent::Impl& impl, const RunParts& parts) {
    std::optional<OpenCalls> killed;
    if (!impl.log.persistent() || !impl.log.has_open_calls()) co_return killed;
    const MessageList& messages = impl.state.messages;
    const Message answer = messages[end_of_answer(messages) - 1];
    const JsonObject* const turn = saved_turn(impl.state, answer.id());
    if (turn && turn->contains(refused_key)) co_return killed;
    if (!answer.assistant() || has_failed(*answer.assistant())) co_return killed;
    if (!any_repeatable(impl.log, parts.tools)) co_return killed;
    const StoredQuestions questions = co_await load_stored_questions(impl.log, unix_seconds(impl));
    if (questions.any()) co_return killed;
    killed.emplace();
    killed->killed = true;
    for (const ToolCall& call : impl.log.open_calls()) killed->ids.push_back(call.id.str());
    co_return killed;
}

Task<bool> note_attempt(RunCore& core, std::string answer_id) {
    const JsonObject* saved = saved_turn(core.state(), answer_id);
    JsonObject turn = saved ? *saved : JsonObject();
    turn["message_id"] = std::move(answer_id);
    Json& attempts = turn[attempts_key];
    const std::int64_t* const before = attempts.if_int64();
    const std::int64_t count = before ? *before : 0;
    if (count >= max_attempts) co_return false;
    attempts = count + 1;
    core.state().extra[turn_key] = std::move(turn);
    co_await core.parts().log->save_extra();
    co_return true;
}

void forget_attempts(AgentState& state) {
    Json* const saved = state.extra.if_contains(turn_key);
    JsonObject* const turn = saved ? saved->if_object() : nullptr;
    if (turn) turn->erase(attempts_key);
}

void forget_turn(AgentState& state) {
    if (Json* saved = state.extra.if_contains(turn_key)) *saved = nullptr;
}

}  // namespace cubepi::detail
