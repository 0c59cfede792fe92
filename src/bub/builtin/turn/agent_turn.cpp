#include <bub/builtin/turn/agent_turn.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

#include <bub/builtin/client_tools.hpp>
#include <bub/builtin/tools/subagent_tool.hpp>
#include <bub/session_tape.hpp>
#include <bub/tape/prompt_context.hpp>
#include <bub/tape/turn_lease.hpp>
#include <bub/turn_span.hpp>
#include <bub/turn_usage.hpp>
#include <cubepi/core/cancellation.hpp>

// The course of a turn: it begins with a message or with the answer to a question, starts a run or continues one, and ends.

namespace bub::detail {

namespace {

/// Shown text is in the journal after this delay; writing costs little compared with drawing a frame.
constexpr std::chrono::milliseconds shown_text_interval{50};

[[noreturn]] void throw_failure(const cubepi::Error& failure) {
    if (const auto* error = dynamic_cast<const cubepi::ProviderError*>(&failure)) {
        cubepi::throw_provider_error(error->info(), error->what());
    }
    if (dynamic_cast<const SessionTakenError*>(&failure)) throw SessionTakenError(failure.what());
    throw cubepi::Error(failure.code(), failure.what());
}

constexpr std::string_view late_mark =
    "[This message is late: it was sent before the messages above. Its turn was interrupted; what "
    "that turn had done is above.]";

/// The mark follows the context of the message, which users are not shown.
std::string late_text(std::string_view text) {
    const std::size_t context = text.size() - without_context(text).size();
    return std::string(text.substr(0, context)) + std::string(late_mark) + "\n" +
           std::string(text.substr(context));
}

Prompt marked_late(const Prompt& prompt) {
    if (const std::string* text = prompt.if_text()) return Prompt(late_text(*text));
    JsonArray parts = *prompt.if_parts();
    JsonObject* const first = parts.empty() ? nullptr : parts.front().if_object();
    Json* const text = first ? first->if_contains("text") : nullptr;
    if (text && text->is_string()) {
        *text = late_text(text->get_string());
    } else {
        JsonObject mark{{"type", "text"}, {"text", late_mark}};
        parts.insert(parts.begin(), Json(std::move(mark)));
    }
    return Prompt(std::move(parts));
}

void request_form(cubepi::PromptOptions& options, const AnswerForm& form) {
    cubepi::detail::AnswerRequest request;
    request.schema = form.schema;
    request.read = [on_answer = form.on_answer](const Json& value) {
        if (on_answer) on_answer(value);
        return std::vector<cubepi::SchemaIssue>();
    };
    cubepi::detail::PromptAccess::request_answer(options, std::move(request));
}

std::string list_of(const std::vector<cubepi::HitlRequest>& requests) {
    std::string text;
    for (const cubepi::HitlRequest& one : requests) text += "\n\n" + question_text(one);
    return text;
}

std::string not_one_text(const std::string& name, const std::vector<cubepi::HitlRequest>& open) {
    return "'" + name +
           "' is not the name of one question that waits for an answer; these are:" + list_of(open);
}

/// Returns the question that an answer names. Throws Error(stale_answer) with the open questions.
const cubepi::HitlRequest& find_question(const std::vector<cubepi::HitlRequest>& open,
                                         const std::string& name) {
    if (open.empty()) {
        throw cubepi::Error(cubepi::ErrorCode::stale_answer,
                            "no question of this session waits for an answer");
    }
    const std::vector<const cubepi::HitlRequest*> named = questions_named(name, open);
    if (named.size() == 1) return *named.front();
    throw cubepi::Error(cubepi::ErrorCode::stale_answer, not_one_text(name, open));
}

/// Throws Error(stale_answer) if the answer names no question and was sent before the open one was asked: the user meant another one.
void require_seen_question(const Answer& given, const Envelope* message,
                           const std::vector<cubepi::HitlRequest>& open) {
    // A program needs no time to read.
    const bool is_unseen =
        message && !open.empty() && is_older(*message, open.front(), std::chrono::seconds(0));
    if (!given.question.empty() || !is_unseen) return;
    throw cubepi::Error(cubepi::ErrorCode::stale_answer,
                        "the answer names no question, and was sent before this one was asked. "
                        "Name the question to answer it:" +
                            list_of(open));
}

/// Returns true for the codes of what is wrong with an answer, whose texts are for the user who has answered.
bool is_about_answer(cubepi::ErrorCode code) {
    using cubepi::ErrorCode;
    return code == ErrorCode::bad_answer || code == ErrorCode::stale_answer ||
           code == ErrorCode::no_pending_request || code == ErrorCode::validation ||
           code == ErrorCode::invalid_argument;
}

}  // namespace

std::string_view text_of_user(std::string_view text) {
    text = without_context(text);
    if (text.starts_with(late_mark))
        text.remove_prefix(std::min(late_mark.size() + 1, text.size()));
    return text;
}

const cubepi::AssistantMessage* last_answer(const cubepi::MessageList& messages) {
    const cubepi::AssistantMessage* answer = nullptr;
    for (const cubepi::Message& message : messages) {
        if (message.assistant()) answer = message.assistant();
    }
    return answer;
}

namespace {

/// Returns the texts of the complete answers.
std::vector<std::string> texts_of(const cubepi::MessageList& messages) {
    std::vector<std::string> texts;
    for (const cubepi::Message& message : messages) {
        const cubepi::AssistantMessage* const answer = message.assistant();
        if (!answer || is_broken_off(*answer)) continue;
        if (std::string text = answer->text(); !text.empty()) texts.push_back(std::move(text));
    }
    return texts;
}

}  // namespace

AgentTurn::AgentTurn(std::shared_ptr<BuiltinCore> core, Prompt prompt, AgentTurnPlan plan,
                     TurnState& state)
    : core_(std::move(core)), prompt_(std::move(prompt)), plan_(std::move(plan)), state_(state) {}

std::optional<StreamEvent> AgentTurn::ready() {
    if (events_.empty()) return std::nullopt;
    StreamEvent event = std::move(events_.front());
    events_.pop_front();
    return event;
}

Task<std::optional<StreamEvent>> AgentTurn::next() {
    while (true) {
        if (std::optional<StreamEvent> event = ready()) co_return event;
        if (over_) co_return std::nullopt;
        if (!std::exchange(begun_, true)) {
            co_await begin();
            continue;
        }
        std::optional<cubepi::AgentEvent> event = co_await next_event();
        if (over_) continue;
        if (event) {
            translate(*event);
        } else {
            co_await finish();
        }
    }
}

Task<> AgentTurn::begin() {
    // The run records the message. Recorded by the kernel when the tape cannot be opened, it would have neither its run nor its images.
    state_.mark_recorded();
    Tape tape = co_await core_->tape(plan_.session_id, state_);
    if (plan_.inherits) {
        message_id_ = std::string(inherited_prefix) + core_->runtime().ids->next();
        tape_.emplace(tape.in(plan_.inherits));
    } else {
        TurnTransactionOptions options;
        options.turn_id = core_->runtime().ids->next();
        options.runtime = core_->framework().runtime();
        options.flush_interval = shown_text_interval;
        options.meta = trace_meta(state_);
        fork_ = tape.fork(std::move(options));
        // From here on the tape has all that an earlier turn of the message has done, or no turn begins.
        co_await fork_->open();
        tape_.emplace(tape.in(fork_));
        co_await tape_->bootstrap();
        state_.replace(std::make_shared<RunningTurn>(RunningTurn{fork_}));
    }
    state_.replace(std::make_shared<Tape>(*tape_));
    co_await recognize_answer();
    if (plan_.answer) co_await answer_task();
    if (over_) co_return;
    if (plan_.answer) {
        co_await continue_answered_run();
    } else if (!plan_.input_id.empty()) {
        co_await recover_input();
    }
    if (!over_) co_await start_agent();
}

/// In a private chat, the text of the user who was asked answers the only question (B24).
Task<> AgentTurn::recognize_answer() {
    const Json* alone =
        plan_.message ? plan_.message->context.if_contains("private_chat") : nullptr;
    const bool is_typed = plan_.message && !plan_.answer && !plan_.receives_results &&
                          !plan_.message->rest.contains(before_question_key);
    if (!is_typed || !asks_user() || !alone || *alone != Json(true)) co_return;
    const std::optional<EarlierAnswer> earlier =
        co_await find_earlier_answer(*tape_, plan_.input_id);
    const std::vector<cubepi::HitlRequest> open = co_await open_questions();
    const auto* ask =
        open.size() == 1 ? std::get_if<cubepi::AskRequest>(&open.front().payload) : nullptr;
    const bool answers = ask && ask->questions.size() == 1 && may_answer(open.front()) &&
                         !is_older(*plan_.message, open.front());
    if (!answers && !earlier) co_return;
    Answer given;
    given.question = answers ? question_name(open.front()) : earlier->question;
    given.text = plan_.message->content_text();
    given.user = sender_of(*plan_.message);
    given.place = default_session(*plan_.message);
    plan_.answer = std::move(given);
}

/// Answers a question of a sub-agent in the background, if the answer of this turn names one.
Task<> AgentTurn::answer_task() {
    const Answer& given = *plan_.answer;
    const std::shared_ptr<AgentsOfSession> agents = core_->options().agents->find(plan_.session_id);
    if (!agents || given.question.empty() || plan_.is_subagent) co_return;
    const std::vector<cubepi::HitlRequest> of_tasks = agents->questions->pending();
    if (of_tasks.empty()) co_return;
    const std::vector<cubepi::HitlRequest> of_run = co_await open_questions();
    std::vector<cubepi::HitlRequest> open = of_run;
    open.insert(open.end(), of_tasks.begin(), of_tasks.end());
    const std::vector<const cubepi::HitlRequest*> named = questions_named(given.question, open);
    const auto is_of_task = [&](const auto* one) {
        return static_cast<std::size_t>(one - open.data()) >= of_run.size();
    };
    if (std::none_of(named.begin(), named.end(), is_of_task)) co_return;
    // The beginning of a name may be that of questions of both (D83).
    if (named.size() > 1)
        co_return refuse_answer(not_one_text(given.question, open), !of_run.empty());
    const cubepi::HitlRequest& request = *named.front();
    if (!may_answer(request)) co_return refuse_answer(not_allowed_text(request), !of_run.empty());
    AcceptedAnswer accepted{question_name(request), Json("withdrawn")};
    std::string problem;
    try {
        if (given.action == AnswerAction::abandon) {
            co_await agents->questions->cancel(request.request_id, "withdrawn by the user");
        } else {
            accepted.answer = cubepi::check_answer(request, answer_value(given, request));
            Json value = accepted.answer;
            cubepi::AnswerOrigin origin;
            origin.user = given.user;
            origin.channel = given.place;
            Task<> answering =
                agents->questions->answer(request.request_id, std::move(value), std::move(origin));
            co_await std::move(answering);
        }
    } catch (const cubepi::Error& error) {
        problem = error.what();
    }
    if (!problem.empty()) co_return refuse_answer(std::move(problem), !of_run.empty());
    state_.replace(std::make_shared<AcceptedAnswer>(std::move(accepted)));
    if (!of_run.empty()) state_.replace(std::make_shared<QuestionsRemain>());
    reply_and_end("The sub-agent has the answer.");
}

/// Finds the message for which a run acts that an answer continues.
void AgentTurn::act_for_asker() {
    if (!plan_.message || !asker_.contains("channel")) return;
    asked_for_ = message_from(asker_);
    // Outputs there have the id of the message that this turn answers (D288).
    if (asked_for_->channel == plan_.message->channel &&
        asked_for_->chat_id == plan_.message->chat_id) {
        asked_for_->inbound_id = plan_.message->inbound_id;
        asked_for_->output_channel = plan_.message->output_channel;
    }
}

/// The answer may have been received before, by a process that died (D42).
Task<> AgentTurn::continue_answered_run() {
    if (!asks_user()) co_return;
    const bool has_expired = plan_.answer->action == AnswerAction::expire;
    const std::vector<cubepi::HitlRequest> open = co_await open_questions(has_expired);
    earlier_answer_ = co_await find_earlier_answer(*tape_, plan_.input_id);
    if (earlier_answer_) require_same_request(*earlier_answer_, plan_.message);
    if (!open.empty()) {
        asker_ = asker_of(open.front().extra);
    } else if (earlier_answer_) {
        asker_ = earlier_answer_->asker;
    }
    act_for_asker();
    if (!earlier_answer_ || earlier_answer_->answered || earlier_answer_->superseded) co_return;
    message_id_ = earlier_answer_->message_id;
    run_id_ = earlier_answer_->run_id;
}

/// The input may have been received before, by a process that died (D42). Its run continues only at the end of the tape: after
/// another input has followed, the message is repeated in a run of its own (D90).
Task<> AgentTurn::recover_input() {
    message_id_ = plan_.input_id;
    const std::optional<EarlierTurn> earlier = co_await find_earlier_turn(*tape_, message_id_);
    if (!earlier) co_return;
    require_same_request(*earlier, plan_.message);
    message_id_ = earlier->message_id;
    if (earlier->superseded && !earlier->answered) {
        message_id_ = next_message_id(message_id_);
        prompt_ = marked_late(prompt_);
        co_return;
    }
    run_id_ = earlier->run_id;
    over_ = earlier->answered;
    if (over_) status_ = TurnStatus::ok;
    if (over_ && earlier->joined) {
        // The turn to which it was added has answered it.
        state_.mark_silent();
        co_return;
    }
    if (over_) {
        repeat_answers(earlier->texts, earlier->last);
    } else {
        for (const std::string& text : earlier->texts) repeat(text);
    }
}

/// Ends the turn with answers that an earlier one has made.
void AgentTurn::repeat_answers(const std::vector<std::string>& texts,
                               const std::optional<cubepi::AssistantMessage>& last) {
    if (!has_text_)
        for (const std::string& text : texts) repeat(text);
    JsonObject data;
    data["ok"] = !texts.empty();
    data["text"] = texts.empty() ? std::string() : texts.back();
    push(event_kind::final, std::move(data), nullptr);
    if (last) finish_answer(*last);
    const bool explained = last && cubepi::answer_end(*last) != cubepi::AnswerEnd::complete;
    if (explained || !texts.empty()) return;
    JsonObject silence;
    silence["kind"] = "temporary";
    silence["message"] = "the turn was over without an answer";
    push(event_kind::error, std::move(silence), nullptr);
}

void AgentTurn::repeat(std::string text) {
    if (std::exchange(has_text_, true)) events_.push_back(StreamEvent::text("\n\n"));
    events_.push_back(StreamEvent::text(std::move(text)));
}

cubepi::PromptOptions AgentTurn::run_options(std::string run_id) const {
    cubepi::PromptOptions origin = plan_.parent.value_or(cubepi::PromptOptions());
    cubepi::PromptOptions how = std::move(origin).run_id(std::move(run_id));
    if (plan_.parent) return how;
    cubepi::TraceContext trace = trace_of_run(state_, plan_.message);
    if (trace.empty()) return how;
    return std::move(how).tracing_context(std::move(trace));
}

/// Starts the run with the message of the turn, or with the results that it receives.
Task<> AgentTurn::start_agent() {
    co_await make_agent();
    cubepi::MessageList inputs;
    if (plan_.receives_results) {
        inputs = co_await open_results();
        if (inputs.empty()) co_return end_silently();
    } else {
        cubepi::Message message = user_message_of(prompt_);
        // A run that continues has its prompt.
        const bool is_new = !plan_.is_subagent && !plan_.answer && run_id_.empty();
        if (is_new) {
            const std::string refused = co_await submit(message);
            if (!refused.empty()) co_return reply_and_end(refused);
        }
        if (!message_id_.empty()) message = std::move(message).with_id(message_id_);
        if (const std::string digest = request_digest(plan_.message); !digest.empty()) {
            cubepi::UserMessage marked = *message.user();
            marked.metadata[request_digest_key] = digest;
            message = std::move(marked);
        }
        inputs.push_back(std::move(message));
    }
    cubepi::PromptOptions how = run_options(run_id_);
    const std::optional<AnswerForm>& form = core_->options().answer_form;
    if (form && !plan_.is_subagent) request_form(how, *form);
    if (plan_.message && !plan_.is_subagent && run_id_.empty()) {
        if (std::optional<cubepi::ToolChoice> choice = client_choice_of(plan_.message->rest))
            how = std::move(how).tool_choice(std::move(*choice));
    }
    co_await start_run(std::move(inputs), std::move(how));
}

/// Returns the results of sub-agents that no run has received, and those of an earlier process as interrupted. A run that waits
/// receives them when it continues.
Task<cubepi::MessageList> AgentTurn::open_results() {
    cubepi::MessageList results;
    if (!has_tasks() || plan_.message->rest.contains(questions_only_key)) co_return results;
    const std::vector<cubepi::HitlRequest> open = co_await open_questions();
    if (!open.empty()) {
        state_.replace(std::make_shared<QuestionsRemain>());
        co_return results;
    }
    TapeCheckpointer memory(fork_);
    const std::optional<cubepi::CheckpointData> stored = co_await memory.load(tape_->name());
    const cubepi::CheckpointData data = stored.value_or(cubepi::CheckpointData());
    const std::shared_ptr<AgentsOfSession> agents = core_->agents(plan_.session_id);
    results = cubepi::detail::open_results(*agents->owner->shared, data.extra, data.messages,
                                           tape_->name());
    if (results.empty() && plan_.message->context.contains(redelivered_key)) {
        // The process that has begun this turn was killed.
        std::optional<cubepi::Message> last = cubepi::detail::unanswered_result(data.messages);
        if (last) results.push_back(std::move(*last));
    }
    if (!results.empty()) prompt_ = Prompt(results.front().text());
    co_return results;
}

/// Ends a turn that has nothing to do, but questions of sub-agents to show.
void AgentTurn::end_silently() {
    const auto agents = core_->options().agents->find(plan_.session_id);
    if (!agents || !agents->has_new_questions()) state_.mark_silent();
    status_ = TurnStatus::ok;
    over_ = true;
}

/// Passes a message of the user to the hooks, which may add context to it. Returns why it is not sent; empty: it is.
Task<std::string> AgentTurn::submit(cubepi::Message& message) {
    if (!hooks_) co_return std::string();
    std::string text(text_of_user(message.text()));
    HookReply reply = co_await hooks_->submit_prompt(std::move(text));
    if (reply.blocks) co_return "A hook of the user has blocked the message: " + reply.reason;
    if (reply.context.empty()) co_return std::string();
    cubepi::UserMessage more = *message.user();
    more.content.emplace_back(
        cubepi::TextContent{"[Context from a hook of the user]\n" + reply.context});
    message = std::move(more);
    co_return std::string();
}

/// Starts the run of this turn: an answer continues the suspended one.
Task<> AgentTurn::start_run(cubepi::MessageList inputs, cubepi::PromptOptions how) {
    const bool expires = plan_.answer && plan_.answer->action == AnswerAction::expire;
    if (expires && !closes_run_) closes_run_ = co_await has_expired_client_calls_only();
    if (closes_run_) co_await close_expired();
    if (!asks_user()) co_return begin_run(std::move(inputs), std::move(how));
    if (plan_.answer) {
        cubepi::Message message = inputs.front();
        co_return co_await give_answer(std::move(message), std::move(how));
    }
    const std::vector<cubepi::PendingRequest> of_run = co_await requests_of_run(true);
    const std::vector<cubepi::HitlRequest> open = unexpired(of_run);
    // A message that is on the tape already is the one whose run waits: its turn was killed, and ends with the questions.
    if (open.empty() || !run_id_.empty()) co_return begin_run(std::move(inputs), std::move(how));
    end_suspended(open, true);
}

void AgentTurn::begin_run(cubepi::MessageList inputs, cubepi::PromptOptions how) {
    // The limits of sub-agents are those of a prompt (D127); a turn that only waits is none.
    if (has_tasks() && !plan_.receives_results && !plan_.answer)
        core_->agents(plan_.session_id)->begin_prompt();
    inputs_ = inputs;
    run_.emplace(agent_->start(std::move(inputs), std::move(how)));
}

Task<> AgentTurn::give_answer(cubepi::Message message, cubepi::PromptOptions how) {
    const Answer& given = *plan_.answer;
    const std::vector<cubepi::HitlRequest> open = co_await open_questions();
    if (given.action == AnswerAction::abandon && given.question.empty())
        co_return co_await withdraw(open);
    if (given.action == AnswerAction::expire)
        co_return co_await resume_expired(open, std::move(message), std::move(how));
    if (continue_answer(open, std::move(message), std::move(how))) co_return;
    std::string problem;
    bool stale = false;
    try {
        const cubepi::HitlRequest& request = find_question(open, given.question);
        require_seen_question(given, plan_.message, open);
        if (!may_answer(request)) co_return refuse_answer(not_allowed_text(request), true);
        co_await require_new_name(given.question, request);
        if (given.action == AnswerAction::abandon) co_return co_await withdraw(open);
        Json value = cubepi::check_answer(request, answer_value(given, request));
        cubepi::AnswerOrigin origin;
        origin.user = given.user;
        origin.channel = given.place;
        JsonObject event = answer_record(request);
        event["user"] = origin.user;
        event["channel"] = origin.channel;
        given_ = event_entry(std::string(answer_event), std::move(event), hidden_from_context());
        std::string name = request.request_id.empty() ? request.question_id : request.request_id;
        run_.emplace(agent_->start_response(std::move(name), std::move(value), std::move(origin)));
    } catch (const cubepi::Error& error) {
        // The answer of a user is not refused because a store or the program fails (D90).
        if (!is_about_answer(error.code())) throw;
        problem = error.what();
        stale = error.code() == cubepi::ErrorCode::stale_answer;
    }
    if (stale) problem = co_await stale_text(std::move(problem));
    if (!problem.empty()) {
        refuse_answer(std::move(problem), !open.empty());
    }
    if (given_) (void)co_await tape_->append(std::move(*given_));
}

/// Continues with an answer that was received before. Returns false if there is none, or it was not stored.
bool AgentTurn::continue_answer(const std::vector<cubepi::HitlRequest>& open,
                                cubepi::Message message, cubepi::PromptOptions how) {
    if (!earlier_answer_) return false;
    for (const cubepi::HitlRequest& one : open) {
        const std::string& answered = earlier_answer_->question;
        if (question_name(one) == answered || one.question_id == answered) return false;
    }
    if (earlier_answer_->superseded && !earlier_answer_->answered) {
        // Later turns have seen the results of its run, which ends in the middle of the tape (D90).
        for (const std::string& text : earlier_answer_->texts) repeat(text);
        reply_and_end(
            "Your answer was received. Its turn was interrupted, and the conversation has "
            "continued since.");
    } else if (!open.empty()) {
        end_suspended(open);
    } else if (earlier_answer_->answered) {
        status_ = TurnStatus::ok;
        over_ = true;
        repeat_answers(earlier_answer_->texts, earlier_answer_->last);
    } else {
        for (const std::string& text : earlier_answer_->texts) repeat(text);
        run_.emplace(agent_->start(std::move(message), std::move(how)));
    }
    return true;
}

/// Returns the data of answer_event without its sender.
JsonObject AgentTurn::answer_record(const cubepi::HitlRequest& request) const {
    JsonObject record;
    record["question_id"] = request.question_id;
    record["question"] = question_name(request);
    record["asker"] = asker_of(request.extra);
    if (!plan_.input_id.empty()) record["input"] = plan_.input_id;
    const std::string digest = request_digest(plan_.message);
    if (!digest.empty()) record[request_digest_key] = digest;
    return record;
}

/// Returns the next event of the run. A prompt for a run whose questions are answered, but which no process has continued,
/// becomes a message that follows in this run.
Task<std::optional<cubepi::AgentEvent>> AgentTurn::next_event() {
    bool stale = false;
    try {
        co_return co_await run_->next();
    } catch (const cubepi::PendingRequestsError& error) {
        const bool answered = error.question_ids().empty();
        if (!answered) throw;
    } catch (const cubepi::Error& error) {
        stale = plan_.answer && error.code() == cubepi::ErrorCode::stale_answer;
        if (!stale) throw;
    }
    if (stale) {
        // Another process has answered the question since it was found.
        run_.reset();
        is_stale_ = true;
        std::string problem =
            co_await stale_text("no question of this session waits for this answer");
        refuse_answer(std::move(problem), false);
        co_return std::nullopt;
    }
    follow_up_ = agent_->follow_up(std::move(inputs_));
    run_.emplace(agent_->start_resume(run_options("")));
    co_return co_await run_->next();
}

void AgentTurn::report(const cubepi::RunResult& result) {
    if (!core_->options().on_result || plan_.is_subagent) return;
    const std::filesystem::path directory = core_->workspace_of(state_);
    const TurnContext occasion{plan_.session_id, directory, state_, run_message()};
    core_->options().on_result(result, occasion);
}

Task<> AgentTurn::finish() {
    cubepi::RunResult result = co_await run_->result();
    report(result);
    if (plan_.inherits) made_ = result.new_messages;
    if (result) {
        const cubepi::AssistantMessage* const answer = last_answer(result.new_messages);
        if (!has_step_) {
            // The run had ended before (D42).
            std::optional<cubepi::AssistantMessage> last;
            if (answer) last = *answer;
            repeat_answers(texts_of(result.new_messages), last);
        } else if (answer) {
            finish_answer(*answer);
        }
        status_ = TurnStatus::ok;
        over_ = true;
        co_return;
    }
    if (result.outcome == cubepi::RunOutcome::suspended && result.pending_requests.empty()) {
        // Its questions are answered: a process was killed before it continued.
        run_.emplace(agent_->start_resume(run_options("")));
        co_return;
    }
    if (result.outcome == cubepi::RunOutcome::suspended) {
        const bool unread = follow_up_ && follow_up_->state() == cubepi::ReceiptState::queued;
        end_suspended(std::move(result.pending_requests), unread);
        co_return;
    }
    if (result.outcome == cubepi::RunOutcome::aborted) cubepi::throw_cancelled();
    const cubepi::Error& failure = result.error();
    over_ = true;
    if (result.outcome == cubepi::RunOutcome::failed) {
        status_ = TurnStatus::error;
        throw_failure(failure);
    }
    // A limit was reached: the turn ends with the output so far.
    status_ = TurnStatus::ok;
    JsonObject data;
    data["kind"] = "temporary";
    data["message"] = failure.what();
    if (const auto* reached = dynamic_cast<const cubepi::LimitReachedError*>(&failure))
        data["limit"] = reached->limit();
    push(event_kind::error, std::move(data), nullptr);
}

/// Ends the turn with what waits for an answer.
void AgentTurn::end_suspended(std::vector<cubepi::HitlRequest> requests, bool unread) {
    status_ = TurnStatus::suspended;
    over_ = true;
    JsonArray pending;
    for (const cubepi::HitlRequest& one : requests) pending.emplace_back(cubepi::to_json(one));
    JsonObject data;
    data["requests"] = std::move(pending);
    if (unread) data["unread"] = true;
    push(event_kind::suspended, std::move(data), nullptr);
    OpenQuestions open;
    open.requests = std::move(requests);
    open.unread = unread;
    state_.replace(std::make_shared<OpenQuestions>(std::move(open)));
}

void AgentTurn::reply_and_end(std::string text) {
    status_ = TurnStatus::ok;
    over_ = true;
    JsonObject data;
    data["ok"] = true;
    data["text"] = text;
    events_.push_back(StreamEvent::text(std::move(text)));
    push(event_kind::final, std::move(data), nullptr);
}

/// Reports an answer that is not complete (D87): to the parent of a subagent, or with the outputs of the turn.
void AgentTurn::finish_answer(const cubepi::AssistantMessage& answer) {
    TurnFinish finish{cubepi::answer_end(answer), cubepi::answer_end_text(answer)};
    if (!plan_.is_subagent) {
        state_.replace(std::make_shared<TurnFinish>(std::move(finish)));
    } else if (!finish.problem.empty()) {
        JsonObject data;
        data["kind"] = "provider";
        data["message"] = std::move(finish.problem);
        push(event_kind::error, std::move(data), nullptr);
    }
}

/// Appends the messages of a turn that inherits after those of its outer turn.
Task<> AgentTurn::keep_inherited() {
    if (made_.empty()) co_return;
    const std::shared_ptr<TurnTransaction> own =
        std::make_shared<TurnTransaction>(plan_.inherits, plan_.inherits->tape());
    TapeCheckpointer memory(own);
    cubepi::AppendOptions options;
    cubepi::MessageList made = std::move(made_);
    made_.clear();
    (void)co_await memory.append(own->tape(), std::move(made), std::move(options));
    std::vector<TapeEntry> entries = own->entries();
    co_await plan_.inherits->append_behind(std::move(entries));
    co_await own->discard();
}

Task<> AgentTurn::close() {
    if (!tape_ || std::exchange(closed_, true)) co_return;
    run_.reset();  // aborts the current run, whose last step goes to the tape
    co_await wait_for_run();
    // At once: each further wait throws if the turn is ended.
    put_back_unread();
    if (notifying_) co_await notifying_->idle();
    agent_.reset();
    tape_.reset();
    if (plan_.inherits) {
        co_await keep_inherited();
        co_return;
    }
    const std::shared_ptr<TurnTransaction> fork = std::exchange(fork_, nullptr);
    const std::shared_ptr<RunningTurn> running = state_.service<RunningTurn>();
    state_.replace(std::make_shared<RunningTurn>());
    // Later readers of the tape in this turn must see the tape into which the fork was merged.
    Tape after = co_await core_->tape(plan_.session_id, state_);
    state_.replace(std::make_shared<Tape>(std::move(after)));
    core_->release_session(plan_.session_id);
    // A turn whose answer was stale has done nothing, and its record of the answer is not true.
    if (is_temporary(plan_.session_id) || is_stale_) {
        co_await fork->discard();
    } else {
        co_await fork->merge(status_);
        // Also of a turn that is suspended: the results of calls that have ended are on the tape.
        if (running) co_await remove_tapes(std::move(running->ended_tapes));
    }
}

/// Waits for the end of the run. It uses this object, the state of the turn and the framework until then, also when the time for the end
/// of a cancelled turn is over: a cancellation does not interrupt the wait.
Task<> AgentTurn::wait_for_run() {
    const bool throws = co_await cubepi::detail::throws_when_cancelled;
    co_await cubepi::detail::throw_when_cancelled(false);
    std::exception_ptr failure;
    for (bool waits = agent_ != nullptr; waits;) {
        const cubepi::Outcome<> idle = co_await cubepi::outcome_of(agent_->wait_for_idle());
        waits = idle.cancelled();
        failure = idle.failure();
    }
    co_await cubepi::detail::throw_when_cancelled(throws);
    if (failure) std::rethrow_exception(failure);
}

/// Removes the tapes of subagents whose results are on the tape of this turn.
Task<> AgentTurn::remove_tapes(std::vector<std::string> tapes) {
    if (tapes.empty()) co_return;
    const std::shared_ptr<TapeStore> store = co_await core_->store(state_);
    for (std::string& tape : tapes) co_await store->reset(std::move(tape));
}

}  // namespace bub::detail
