#include <cubepi/agent/run/prompt.hpp>

#include <optional>
#include <set>
#include <utility>

#include <cubepi/agent/run/prompt_run.hpp>
#include <cubepi/agent/run/run_core.hpp>
#include <cubepi/agent/run/suspended_run.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/provider/answer_end.hpp>

namespace cubepi::detail {

namespace {

/// Time limit for an aborted run to end, in addition to the grace period of its tools: for its listeners and its store.
constexpr std::chrono::seconds abort_margin{5};

Task<void> wait_while_aborted(std::shared_ptr<Agent::Impl> impl) {
    if (!impl->idle) impl->idle = std::make_unique<AsyncEvent>();
    while (impl->state.is_streaming && impl->input_queue.aborted()) co_await impl->idle->wait();
}

/// Returns the messages of a prompt, with ids, run id and time; the caller's messages are validated first.
std::vector<Input> prompt_inputs(const Agent::Impl& impl, MessageList given,
                                 const SharedString& run_id, double now) {
    for (const Message& message : given) {
        if (!message.run_id().empty() && message.run_id() != run_id) {
            throw Error(
                ErrorCode::invalid_argument,
                "a message of the prompt belongs to run " + message.run_id().str() +
                    ", not to this one: clear its run_id or pass PromptOptions().run_id(...)");
        }
    }
    const std::size_t count = given.size();
    std::vector<Input> inputs;
    inputs.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
        // Only this one is moved from. NOLINTNEXTLINE(bugprone-use-after-move)
        Message message = std::move(given).take(i);
        Input& one = inputs.emplace_back();
        one.identified = !message.id().empty();
        if (message.role() == Role::user) {
            if (!one.identified) message = std::move(message).with_id(impl.runtime->ids->next());
            if (!message.timestamp()) message = std::move(message).with_timestamp(now);
        }
        one.message = std::move(message).with_run_id(run_id);
    }
    return inputs;
}

/// Returns the result of a run that has ended earlier (D42).
RunResult answered_result(const Agent::Impl& impl, const SharedString& run_id) {
    RunResult result;
    result.run_id = run_id.str();
    for (const Message& message : impl.state.messages) {
        if (message.run_id() != run_id) continue;
        result.new_messages.push_back(message);
        if (const AssistantMessage* answer = message.assistant(); answer && answer->usage) {
            result.usage += *answer->usage;
        }
    }
    return result;
}

/// Returns true if the history ends with an answer that calls no tools and is not paused.
bool is_finished(const Agent::Impl& impl) {
    const MessageList& messages = impl.state.messages;
    const AssistantMessage* last = messages.empty() ? nullptr : messages.back().assistant();
    return last && !impl.log.has_open_calls() && !is_paused(*last);
}

[[noreturn]] void throw_finished() {
    throw Error(ErrorCode::cannot_continue,
                "Cannot continue: the thread ends with a finished answer and nothing is queued; "
                "call prompt() with a new message");
}

/// Returns the run that has the final answer to the message; nothing if there is none. It is another run than that of the message if it
/// has continued a message that was stored without a run, or whose run had been interrupted. A run that had begun before the message
/// answers another one. An answer after which the run was continued by middleware, such as that of a goal, is not final: the process may
/// have ended before the next one.
std::optional<SharedString> answering_run(const Agent::Impl& impl, const Message& input) {
    bool seen = false;
    bool is_followed = false;  // by another input
    std::optional<SharedString> run;
    std::optional<SharedString> answered_run;
    std::set<SharedString> older;
    for (const Message& message : impl.state.messages) {
        if (message.id() == input.id()) {
            seen = true;
            run = message.run_id();
        }
        if (answered_run) {
            if (message.run_id() != *answered_run || !is_synthetic_message(message)) return run;
            answered_run.reset();
        }
        const bool is_other = run && message.run_id() != *run && message.user();
        is_followed = is_followed || (is_other && !is_synthetic_message(message));
        if (!seen && !message.run_id().empty()) older.insert(message.run_id());
        if (seen && message.run_id() != *run && older.contains(message.run_id())) continue;
        const AssistantMessage* answer = message.assistant();
        if (seen && answer && !is_followed) run = message.run_id();
        if (!seen || !answer || answer->has_tool_calls() || is_paused(*answer)) continue;
        if (answer->stop_reason != stop_reason::error &&
            answer->stop_reason != stop_reason::aborted) {
            answered_run = message.run_id();
        }
    }
    if (!answered_run) run.reset();
    return run;
}

/// Restores the history; returns false if an abort came first (D51).
Task<bool> load(Agent::Impl& impl, std::stop_token token) {
    if (!impl.log.persistent()) co_return true;
    Outcome<> loaded = co_await outcome_of(cancel_on(token, impl.log.load()));
    if (loaded.cancelled() && token.stop_requested()) co_return false;
    loaded.rethrow();
    co_return true;
}

/// The state of a prompt whose input has an id (D42).
struct EarlierInput {
    bool known = false;                    // the log has the input
    std::optional<RunResult> result = {};  // there is nothing to run
};

EarlierInput with_result(RunResult result) { return EarlierInput{true, std::move(result)}; }

/// The thread is loaded.
Task<EarlierInput> find_earlier(std::shared_ptr<Agent::Impl> impl, std::string message_id) {
    const std::optional<Message> earlier = co_await impl->log.find(message_id);
    if (!earlier) co_return EarlierInput();
    if (const std::optional<SharedString> answered = answering_run(*impl, *earlier)) {
        impl->state.last_outcome = LastOutcome::complete;
        co_return with_result(answered_result(*impl, *answered));
    }
    const StoredQuestions questions =
        co_await load_stored_questions(impl->log, unix_seconds(*impl));
    if (questions.must_continue()) {
        impl->state.last_outcome = LastOutcome::suspended;
        co_return with_result(suspended_result(questions));
    }
    EarlierInput unanswered;
    unanswered.known = true;
    co_return unanswered;
}

/// Ends what a suspended run of the thread has left open, before another run starts (D60).
Task<void> end_suspended_run(Agent::Impl& impl, bool abandon, std::stop_token token) {
    StoredQuestions questions = co_await load_stored_questions(impl.log, unix_seconds(impl));
    if (!questions.any()) co_return;
    if (abandon) {
        co_await close_suspended_run(impl, std::move(questions), "abandoned by a new prompt",
                                     std::move(token));
        co_return;
    }
    if (questions.must_continue()) throw_pending_requests(impl.log.thread_id(), questions);
    co_await close_expired_calls(impl, std::move(questions));
}

/// The part of run_prompt() that holds the claim.
Task<RunResult> run_claimed(Agent::Impl& impl, PromptRun& prompt_run, std::vector<Input> prompts,
                            std::optional<std::string> continued_input, bool abandon_pending,
                            std::stop_token token) {
    const bool can_run = co_await load(impl, token);
    if (!can_run) co_return co_await prompt_run.abandon();
    if (impl.log.questions() && impl.log.has_open_calls())
        co_await end_suspended_run(impl, abandon_pending, std::move(token));
    co_return co_await prompt_run.run(std::move(prompts), std::move(continued_input));
}

/// The part of continue_killed_run() that holds the claim.
Task<RunResult> repeat_claimed(Agent::Impl& impl, PromptRun& prompt_run, std::string input_id,
                               std::stop_token token) {
    // Another process may have continued the run meanwhile.
    co_await reload(impl, token);
    std::optional<OpenCalls> open = co_await load_killed_calls(impl, prompt_run.core().parts());
    if (open) co_return co_await prompt_run.continue_run(std::move(*open), std::move(input_id));
    std::vector<Input> none;
    std::optional<std::string> continued(std::move(input_id));
    co_return co_await run_claimed(impl, prompt_run, std::move(none), std::move(continued), false,
                                   std::move(token));
}

/// Continues the run of a killed process, which has left calls whose tools may run again (D69). `input_id`: of its prompt; empty: the
/// last one of the history.
Task<RunResult> continue_killed_run(Agent::Impl& impl, ActiveRun& active, std::string input_id,
                                    PromptOptions options) {
    SharedString run_id = impl.log.open_calls_run_id();
    if (run_id.empty()) run_id = impl.state.active_run_id;
    active.set_run_id(run_id);
    const auto prompt_run = std::make_unique<PromptRun>(impl, run_id, active.token(), options);
    prompt_run->core().start_with(options.prior_spending());
    Task<RunResult> repeating =
        repeat_claimed(impl, *prompt_run, std::move(input_id), active.token());
    co_return co_await prompt_run->with_claim(ClaimKind::continue_run, std::move(repeating));
}

/// Returns true if the last run of the history has completed, or has reached a limit. A run that continues the conversation has limits
/// of its own then.
Task<bool> has_ended(Agent::Impl& impl) {
    const std::string run_id = impl.state.messages.back().run_id().str();
    if (run_id.empty() || !impl.log.runs()) co_return false;
    auto call = [&] { return impl.log.runs()->is_run_complete(impl.log.thread_id(), run_id); };
    Task<bool> asking =
        store_call("load the state of a run", impl.log.thread_id(), std::move(call));
    co_return co_await std::move(asking);
}

/// The part of run_resume() that holds the claim.
Task<RunResult> resume_claimed(Agent::Impl& impl, PromptRun& prompt_run, bool finished) {
    std::vector<Input> inputs;
    if (finished) {
        // Steering first; the loop takes the rest at its regular points.
        inputs = impl.input_queue.take_steering();
        if (inputs.empty()) inputs = impl.input_queue.take_follow_ups();
        // It was withdrawn meanwhile, or is intended for another run.
        if (inputs.empty()) throw_finished();
    }
    std::optional<std::string> continued;
    if (!finished && impl.log.persistent()) {
        const bool ended = co_await has_ended(impl);
        if (!ended) continued.emplace();
    }
    co_return co_await prompt_run.run(std::move(inputs), std::move(continued));
}

}  // namespace

Task<RunResult> run_prompt(std::shared_ptr<Agent::Impl> impl, PromptInput input,
                           PromptOptions options) {
    const Runtime& runtime = *impl->runtime;
    const SharedString run_id = options.run_id().empty() ? runtime.ids->next() : options.run_id();
    ActiveRun active(*impl, run_id);
    const double now =
        std::chrono::duration<double>(runtime.clock->wall().time_since_epoch()).count();
    std::vector<Input> prompts = prompt_inputs(*impl, std::move(input).messages(), run_id, now);
    const auto prompt_run = std::make_unique<PromptRun>(*impl, run_id, active.token(), options);
    prompt_run->core().start_with(options.prior_spending());

    EarlierInput earlier;
    std::optional<std::string> continued;
    if (prompts.size() == 1 && prompts.front().identified) {
        const bool loaded = co_await load(*impl, active.token());
        if (!loaded) co_return co_await prompt_run->abandon();
        const std::string message_id = prompts.front().message.id();
        earlier = co_await find_earlier(impl, message_id);
        if (earlier.result) {
            AnswerTask* const answer = prompt_run->core().answer_task();
            if (answer && *earlier.result) answer->read_earlier(*earlier.result);
            co_return std::move(*earlier.result);
        }
        if (earlier.known) {
            prompts.clear();
            continued = message_id;
        }
    }
    if (!impl->log.persistent()) co_return co_await prompt_run->run(std::move(prompts));
    if (earlier.known) {
        const auto killed = co_await load_killed_calls(*impl, prompt_run->core().parts());
        if (killed)
            co_return co_await continue_killed_run(*impl, active, *continued, std::move(options));
    }
    ClaimKind kind = options.run_id().empty() ? ClaimKind::fresh_run : ClaimKind::new_run;
    if (earlier.known && !options.run_id().empty()) kind = ClaimKind::continue_run;
    Task<RunResult> running =
        run_claimed(*impl, *prompt_run, std::move(prompts), std::move(continued),
                    options.abandon_pending(), active.token());
    co_return co_await prompt_run->with_claim(kind, std::move(running));
}

Task<RunResult> run_resume(std::shared_ptr<Agent::Impl> impl, PromptOptions options) {
    const Runtime& runtime = *impl->runtime;
    const SharedString run_id = options.run_id().empty() ? runtime.ids->next() : options.run_id();
    ActiveRun active(*impl, run_id);
    const auto prompt_run = std::make_unique<PromptRun>(*impl, run_id, active.token(), options);
    prompt_run->core().start_with(options.prior_spending());
    const bool loaded = co_await load(*impl, active.token());
    if (!loaded) co_return co_await prompt_run->abandon();
    if (impl->state.messages.empty()) {
        throw Error(ErrorCode::no_messages,
                    "No messages to continue from: prompt() starts a thread");
    }
    if (impl->settings().channel && impl->log.questions() && impl->log.has_open_calls()) {
        StoredQuestions questions = co_await load_stored_questions(impl->log, unix_seconds(*impl));
        if (questions.any())
            co_return co_await continue_suspended_run(*impl, active, std::move(questions),
                                                      std::move(options));
    }
    const auto killed = co_await load_killed_calls(*impl, prompt_run->core().parts());
    if (killed) {
        std::string last;
        co_return co_await continue_killed_run(*impl, active, std::move(last), std::move(options));
    }
    const bool finished = is_finished(*impl);
    if (finished && !impl->input_queue.has_steering() && !impl->input_queue.has_follow_ups()) {
        throw_finished();
    }
    const ClaimKind kind =
        options.run_id().empty() ? ClaimKind::fresh_run : ClaimKind::continue_run;
    Task<RunResult> resuming = resume_claimed(*impl, *prompt_run, finished);
    co_return co_await prompt_run->with_claim(kind, std::move(resuming));
}

Task<void> wait_until_idle(std::shared_ptr<Agent::Impl> impl) {
    if (!impl->idle) impl->idle = std::make_unique<AsyncEvent>();
    while (impl->state.is_streaming) co_await impl->idle->wait();
}

Task<bool> wait_for_aborted_run(std::shared_ptr<Agent::Impl> impl) {
    if (!impl->input_queue.aborted()) throw_busy(*impl);
    const std::stop_token given_up = impl->input_queue.waiting_token();
    const std::chrono::milliseconds limit = impl->settings().limits.abort_grace + abort_margin;
    std::exception_ptr failure;
    try {
        Task<void> ended = wait_while_aborted(impl);
        Task<void> in_time = with_timeout(*impl->runtime->clock, limit, std::move(ended));
        co_await cancel_on(given_up, std::move(in_time));
    } catch (const TimeoutError&) {
        throw Error(ErrorCode::busy, "run " + impl->state.active_run_id.str() +
                                         " was aborted and has not ended within " +
                                         std::to_string(limit.count()) +
                                         " ms: await its end with wait_for_idle()");
    } catch (...) {
        failure = std::current_exception();
    }
    const auto state = co_await this_cancellation;
    if (state.cancelled() != boost::asio::cancellation_type::none) throw_cancelled();
    if (failure && !(given_up.stop_requested() && is_cancellation(failure))) {
        std::rethrow_exception(failure);
    }
    co_return !given_up.stop_requested();
}

RunResult aborted_before_start(const PromptOptions& options) {
    RunResult result;
    result.run_id = options.run_id();
    result.outcome = RunOutcome::aborted;
    result.usage = options.prior_spending().usage;
    result.cost = options.prior_spending().cost;
    result.failure = std::make_shared<const Error>(ErrorCode::cancelled, std::string(aborted_text));
    return result;
}

[[noreturn]] void throw_busy(const Agent::Impl& impl) {
    throw Error(ErrorCode::busy,
                "the agent is already processing a prompt (run " + impl.state.active_run_id.str() +
                    "): queue the message with steer() or follow_up(), await the run's end with "
                    "wait_for_idle(), or end it with abort()");
}

ActiveRun::ActiveRun(Agent::Impl& impl, const SharedString& run_id) : impl_(impl) {
    const SerialSection here(impl_.serial);
    if (impl_.state.is_streaming) throw_busy(impl_);
    token_ = impl_.input_queue.begin_run(run_id);
    impl_.state.is_streaming = true;
    impl_.state.streaming_message = PartialMessage();
    impl_.state.error_message = {};
    impl_.state.active_run_id = run_id;
    impl_.state.last_outcome = LastOutcome::none;
}

ActiveRun::~ActiveRun() {
    const SerialSection here(impl_.serial);
    impl_.input_queue.end_run();
    impl_.state.is_streaming = false;
    impl_.state.streaming_message = PartialMessage();
    impl_.state.pending_tool_calls = std::vector<SharedString>();
    impl_.state.active_run_id = {};
    if (impl_.state.last_outcome == LastOutcome::none) {
        impl_.state.last_outcome = LastOutcome::abandoned;
    }
    if (impl_.idle) impl_.idle->pulse();
}

void ActiveRun::set_run_id(const SharedString& run_id) {
    const SerialSection here(impl_.serial);
    impl_.input_queue.set_run_id(run_id);
    impl_.state.active_run_id = run_id;
}

Task<RunResult> run_guarded(std::shared_ptr<Agent::Impl> impl, Task<RunResult> work,
                            PromptOptions options) {
    if (impl->state.is_streaming) {
        const bool free = co_await wait_for_aborted_run(impl);
        if (!free) co_return aborted_before_start(options);
    }
    const auto cancellation = co_await this_cancellation;
    if (!cancellation.slot().is_connected()) co_return co_await std::move(work);
    std::function<void()> abort = [&impl] { impl->input_queue.abort(); };
    co_return co_await abort_when_cancelled(std::move(work), std::move(abort));
}

}  // namespace cubepi::detail
