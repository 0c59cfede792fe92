#include <cubepi/agent/run/model_turn.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/agent/run/prompt_settings.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/number_text.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/error_with_text.hpp>
#include <cubepi/core/support/random_word.hpp>
#include <cubepi/net/retry.hpp>
#include <cubepi/provider/error_classification.hpp>

namespace cubepi::detail {

namespace {

/// Starts the call for a hook around it. `failure` receives an exception of the provider, to distinguish it from one of
/// the hook.
Task<MessageStream> start_stream(std::shared_ptr<Provider> provider, ModelRequest request,
                                 std::shared_ptr<std::exception_ptr> failure) {
    try {
        MessageStream started = provider->call(std::move(request));
        co_return started;
    } catch (...) {
        *failure = std::current_exception();
        throw;
    }
}

// The provider reports a failed hook of the user as an error event, without the exception: `failure` stores it.

Task<std::optional<JsonObject>> ask_payload_hook(std::shared_ptr<std::exception_ptr> failure,
                                                 PayloadHook hook, JsonObject payload, Model model,
                                                 HttpHeaders headers) {
    *failure = nullptr;
    try {
        Task<std::optional<JsonObject>> call =
            hook(std::move(payload), std::move(model), std::move(headers));
        co_return co_await std::move(call);
    } catch (...) {
        *failure = std::current_exception();
        throw;
    }
}

Task<void> ask_response_hook(std::shared_ptr<std::exception_ptr> failure, ResponseHook hook,
                             ProviderResponse response, Model model) {
    *failure = nullptr;
    try {
        Task<void> call = hook(std::move(response), std::move(model));
        co_await std::move(call);
    } catch (...) {
        *failure = std::current_exception();
        throw;
    }
}

}  // namespace

ModelTurn::ModelTurn(RunCore& core)
    : core_(core),
      model_(core.model()),
      message_id_(core.runtime().ids->next()),
      builder_(core, model_, message_id_),
      reader_(core) {}

Task<void> ModelTurn::run() {
    if (core_.stopped()) return conclude_uncalled();
    if (!builder_.is_plain()) return run_with_hooks();
    ModelRequest request = builder_.build();
    if (auto reached = reservation_.reserve(core_.account(), *model_.provider(), request))
        return conclude_limited(std::move(*reached));
    core_.set_request(request);
    if (std::optional<Notice> broken = builder_.prefix_break(request)) {
        return stream_after(std::move(*broken), std::move(request));
    }
    return stream(std::move(request));
}

Task<void> ModelTurn::run_with_hooks() {
    ModelRequest request = co_await builder_.build_with_hooks();
    auto reached = reservation_.reserve(core_.account(), *model_.provider(), request);
    if (reached) co_return co_await conclude_limited(std::move(*reached));
    core_.set_request(request);
    if (std::optional<Notice> broken = builder_.prefix_break(request)) {
        co_await core_.notice(std::move(*broken));
    }
    if (core_.stopped()) {
        co_await conclude_uncalled();
    } else if (core_.parts().hooks->around_model_call) {
        co_await stream_around(std::move(request));
    } else {
        co_await stream(std::move(request));
    }
}

Task<void> ModelTurn::stream_after(Notice notice, ModelRequest request) {
    co_await core_.notice(std::move(notice));
    if (core_.stopped()) {
        co_await conclude_uncalled();
        co_return;
    }
    co_await stream(std::move(request));
}

// The call.

Task<void> ModelTurn::stream(ModelRequest&& request) {
    core_.invalidate_timestamp();
    try {
        return receive(model_.provider()->call(std::move(request)), true);
    } catch (...) {
        return conclude_failed(std::current_exception());
    }
}

Task<void> ModelTurn::stream_around(ModelRequest request) {
    Outcome<MessageStream> started = co_await outcome_of(call_around(std::move(request)));
    if (started.ok()) {
        co_await receive(std::move(started).value(), false);
    } else {
        co_await conclude_failed(started.failure());
    }
}

/// Calls around_model_call. Throws HookFailed, or the exception of the provider unchanged.
Task<MessageStream> ModelTurn::call_around(ModelRequest request) {
    const std::shared_ptr<Provider> provider = model_.provider();
    const auto provider_failure = std::make_shared<std::exception_ptr>();
    ModelCallNext next = [provider, provider_failure](ModelRequest inner) {
        return start_stream(provider, std::move(inner), provider_failure);
    };
    try {
        auto hook = core_.parts().hooks->around_model_call(std::move(request), std::move(next));
        MessageStream started = co_await core_.call_run_hook("around_model_call", std::move(hook));
        co_return started;
    } catch (const HookFailed& failed) {
        if (failed.cause == *provider_failure) std::rethrow_exception(failed.cause);
        throw;
    }
}

Task<void> ModelTurn::receive(MessageStream stream, bool is_own_request) {
    Task<std::optional<Message>> reading = reader_.read(std::move(stream), is_own_request);
    Outcome<std::optional<Message>> answer = co_await outcome_of(std::move(reading));
    if (!answer.ok()) {
        co_await conclude_failed(answer.failure());
    } else if (answer.value()) {
        co_await conclude(std::move(*answer.value()));
    } else {
        co_await conclude_aborted();
    }
}

// The end of the call.

Task<void> ModelTurn::conclude(Message final_message) {
    set_message(std::move(final_message));
    return announce_message();
}

/// Ends the answer of a call that is not made, because the run was aborted before it.
Task<void> ModelTurn::conclude_uncalled() {
    refused_ = true;
    return conclude_aborted();
}

Task<void> ModelTurn::conclude_aborted() {
    AssistantMessage message = reader_.so_far();
    message.stop_reason = stop_reason::shared(stop_reason::aborted);
    message.error_message = aborted_text;
    if (!message.timestamp) message.timestamp = core_.wall_seconds();
    return conclude(Message(std::move(message)));
}

/// Ends the answer after an exception of the provider or of a hook. Rethrows that of a listener.
Task<void> ModelTurn::conclude_failed(const std::exception_ptr& failure) {
    if (core_.stopped() && is_cancellation(failure)) return conclude_aborted();
    try {
        std::rethrow_exception(failure);
    } catch (const ListenerFailed&) {
        throw;
    } catch (const HookFailed& failed) {
        return conclude_error(failed.cause, failed.text());
    } catch (...) {
        return conclude_error(failure, exception_text(failure));
    }
}

Task<void> ModelTurn::conclude_limited(LimitReachedError reached) {
    refused_ = true;
    const std::string text = reached.what();
    return conclude_error(std::make_exception_ptr(std::move(reached)), text);
}

/// Ends the answer with an error. `text` is what the message says; the typed error keeps code and type of `cause`.
Task<void> ModelTurn::conclude_error(const std::exception_ptr& cause, const std::string& text) {
    const std::shared_ptr<const Error> error = error_with_text(cause, text);
    AssistantMessage message = reader_.so_far();
    message.stop_reason = stop_reason::shared(stop_reason::error);
    message.error_message = text;
    if (const auto* provider_error = dynamic_cast<const ProviderError*>(error.get())) {
        message.error = SharedValue<ErrorInfo>(provider_error->info());
    }
    if (!message.timestamp) message.timestamp = core_.wall_seconds();
    set_message(Message(std::move(message)));
    failure_ = error;
    return announce_message();
}

void ModelTurn::set_message(Message final_message) {
    const AssistantMessage& answer = *final_message.assistant();
    if (!refused_) reservation_.end(core_.count(answer, model_.spec(), reservation_.usd()));
    if (has_failed(answer)) {
        failure_ = error_of(answer);
        const std::exception_ptr by_hook = builder_.hook_failure();
        if (by_hook && answer.stop_reason == stop_reason::error) {
            failure_ = error_with_text(by_hook, answer.error_message.str());
        }
    }
    if (answer.id.empty()) final_message = std::move(final_message).with_id(message_id_);
    if (final_message.run_id() != core_.run_id())
        final_message = std::move(final_message).with_run_id(core_.run_id());
    message_ = std::move(final_message);
}

// The repetition of a call whose answer was cut off.

bool ModelTurn::may_repeat() const {
    const AssistantMessage& answer = *message_.assistant();
    if (answer.stop_reason != stop_reason::error || !answer.error || !reader_.has_content())
        return false;
    const bool is_shown = reader_.has_text() && !core_.parts().limits.repeats_shown_text;
    return !is_shown && is_temporary_cut(*answer.error);
}

std::chrono::milliseconds ModelTurn::repeat_delay(std::size_t number) const {
    const double random = random_fraction(*core_.runtime().ids);
    const auto steps = static_cast<int>(std::min<std::size_t>(number, 16)) - 1;
    const double asked = message_.assistant()->error->retry_after.value_or(0);
    return std::max(
        backoff_delay(RetryPolicy(), steps, random),
        std::chrono::ceil<std::chrono::milliseconds>(std::chrono::duration<double>(asked)));
}

Notice ModelTurn::repeat_notice(std::size_t number, std::chrono::milliseconds delay) const {
    const ErrorInfo& info = *message_.assistant()->error;
    const std::size_t most = core_.parts().limits.max_cut_answers;
    Notice notice;
    notice.code = "retry";
    notice.text = "the answer was cut off: " + model_.spec().id + " " +
                  plain_failure(info, "the connection was lost") + "; trying again in " +
                  rounded_seconds_text(delay) + " (" + std::to_string(number) + " of " +
                  std::to_string(most) + ")";
    notice.details["attempt"] = number;
    notice.details["max_retries"] = most;
    notice.details["delay_ms"] = delay.count();
    notice.details["error_type"] = info.type;
    notice.details["discarded"] = message_.id();
    return notice;
}

void ModelTurn::abort() {
    AssistantMessage answer = *message_.assistant();
    answer.stop_reason = stop_reason::shared(stop_reason::aborted);
    answer.error_message = aborted_text;
    answer.error = SharedValue<ErrorInfo>();
    failure_ = error_of(answer);
    message_ = Message(std::move(answer));
}

/// Emits message_start, unless the stream has begun the message.
Task<void> ModelTurn::announce_message() {
    if (reader_.has_started()) co_return;
    MessageStartEvent start;
    start.message = message_;
    co_await core_.emit(std::move(start));
}

// The request.

RequestBuilder::RequestBuilder(RunCore& core, BoundModel model, std::string message_id)
    : core_(core), model_(std::move(model)), message_id_(std::move(message_id)) {
    const RunParts& parts = core_.parts();
    if (parts.on_payload || parts.on_response)
        hook_failure_ = std::make_shared<std::exception_ptr>();
}

bool RequestBuilder::is_plain() const {
    const HookSet& hooks = *core_.parts().hooks;
    return !hooks.transform_context && !hooks.convert_to_llm && !hooks.transform_system_prompt &&
           !hooks.around_model_call && core_.parts().log->is_legal();
}

ModelRequest RequestBuilder::build() {
    return request(core_.state().messages, core_.parts().system_prompt);
}

Task<ModelRequest> RequestBuilder::build_with_hooks() {
    const RunParts& parts = core_.parts();
    MessageList messages = core_.state().messages;
    const bool transforms = parts.hooks->transform_context || parts.hooks->convert_to_llm;
    if (transforms) messages = co_await transformed_messages();
    // A history that hooks leave unchanged is not checked from its beginning before each call.
    const MessageList& history = core_.state().messages;
    const bool is_history =
        messages.size() == history.size() && messages.begin() == history.begin();
    if (!is_history || !parts.log->is_legal()) messages = co_await repaired(std::move(messages));
    SharedString system_prompt = parts.system_prompt;
    if (parts.hooks->transform_system_prompt) {
        HookContext context = core_.hook_context();
        auto hook = parts.hooks->transform_system_prompt(system_prompt.str(), context);
        system_prompt = co_await core_.call_run_hook("transform_system_prompt", std::move(hook));
    }
    ModelRequest made = request(std::move(messages), std::move(system_prompt));
    co_return made;
}

Task<MessageList> RequestBuilder::transformed_messages() {
    const HookSet& hooks = *core_.parts().hooks;
    MessageList messages = core_.state().messages;
    HookContext context = core_.hook_context();
    if (hooks.transform_context) {
        auto hook = hooks.transform_context(std::move(messages), context);
        messages = co_await core_.call_run_hook("transform_context", std::move(hook));
    }
    if (hooks.convert_to_llm) {
        auto hook = hooks.convert_to_llm(std::move(messages), context);
        messages = co_await core_.call_run_hook("convert_to_llm", std::move(hook));
    }
    co_return messages;
}

/// Returns the messages as a legal history (D1), and reports a new repair.
Task<MessageList> RequestBuilder::repaired(MessageList messages) {
    RepairedTranscript repaired = repair_request(messages);
    if (!repaired.changed()) co_return messages;
    const TranscriptRepairs& repairs = repaired.repairs;
    if (core_.parts().log->is_new_repair(repairs)) {
        Notice notice;
        notice.code = "repair";
        if (repairs.added_results > 0)
            notice.text =
                "Tool calls without a result were interrupted earlier, and the model is told so. ";
        if (repairs.moved_results > 0 || repairs.left_out > 0)
            notice.text +=
                "Results that do not follow their tool call were moved to it, or left out. ";
        notice.text += "The stored conversation is unchanged.";
        notice.details["added_results"] = repairs.added_results;
        notice.details["moved_results"] = repairs.moved_results;
        notice.details["left_out"] = repairs.left_out;
        co_await core_.notice(std::move(notice));
    }
    co_return std::move(repaired.messages);
}

ModelRequest RequestBuilder::request(MessageList messages, SharedString system_prompt) {
    const RunParts& parts = core_.parts();
    tools_ = core_.begin_call(model_);
    ModelRequest made;
    made.model = model_.spec();
    made.messages = std::move(messages);
    made.system_prompt = std::move(system_prompt);
    made.tools = tools_.definitions();
    StreamOptions& options = made.options;
    std::move(options)
        .stop_token(core_.stop_token())
        .on_payload(payload_hook())
        .on_response(response_hook())
        .message_id(message_id_)
        .max_answer_bytes(parts.limits.max_answer_bytes)
        .run_id(core_.run_id())
        .runtime(parts.runtime);
    // A setter returns the object on which it was called. NOLINTNEXTLINE(bugprone-use-after-move)
    if (parts.reasoning) std::move(options).reasoning(*parts.reasoning);
    if (parts.prompt) add_prompt_settings(options);
    return made;
}

/// Adds the tool choice of the prompt and the form of its answer.
void RequestBuilder::add_prompt_settings(StreamOptions& options) const {
    const std::optional<ToolChoice>& choice = core_.parts().prompt->tool_choice;
    // Only at the first call: a run whose every answer calls a tool would not end.
    const bool applies = choice && (core_.turn() == 1 || choice->mode == ToolChoice::Mode::none);
    if (applies) std::move(options).tool_choice(*choice);
    if (core_.answer_task()) core_.answer_task()->complete(options);
}

std::optional<Notice> RequestBuilder::prefix_break(const ModelRequest& request) const {
    PrefixGuard* const guard = core_.parts().prefix_guard;
    std::optional<Notice> broken = guard ? guard->check(request) : std::nullopt;
    if (core_.account()->take_expected_break()) broken.reset();
    return broken;
}

PayloadHook RequestBuilder::payload_hook() const {
    const PayloadHook& hook = core_.parts().on_payload;
    if (!hook) return {};
    return [failure = hook_failure_, hook](JsonObject payload, Model model, HttpHeaders headers) {
        return ask_payload_hook(failure, hook, std::move(payload), std::move(model),
                                std::move(headers));
    };
}

ResponseHook RequestBuilder::response_hook() const {
    const ResponseHook& hook = core_.parts().on_response;
    if (!hook) return {};
    return [failure = hook_failure_, hook](ProviderResponse response, Model model) {
        return ask_response_hook(failure, hook, std::move(response), std::move(model));
    };
}

// The answer.

Task<std::optional<Message>> AnswerReader::read(MessageStream stream, bool is_own_request) {
    std::optional<Message> final_message;
    for (;;) {
        std::optional<StreamEvent> event = stream.ready();
        if (!event && !stream.finished()) {
            core_.invalidate_timestamp();
            event = co_await wait_event(stream, is_own_request);
        }
        if (event && event->is_terminal()) {
            final_message.emplace(std::move(event->partial).message());
            StreamAccess::drop_result(stream);
            co_return final_message;
        }
        if (core_.stopped()) co_return final_message;
        if (!event) {
            // A hook around the call has consumed the events, including the last one.
            final_message.emplace(StreamAccess::final_message(stream).message());
            StreamAccess::drop_result(stream);
            co_return final_message;
        }
        MaybeTask<> delivery = pass_on(std::move(*event));
        if (delivery.is_pending()) co_await std::move(delivery).task();
    }
}

/// Waits for the next event; empty if an abort ended the wait and the provider sent no final event.
Task<std::optional<StreamEvent>> AnswerReader::wait_event(MessageStream& stream,
                                                          bool is_own_request) {
    Task<std::optional<StreamEvent>> next = stream.next();
    if (!is_own_request || !stream.honors_stop_token()) {
        next = cancel_on(core_.stop_token(), std::move(next));
    }
    Outcome<std::optional<StreamEvent>> outcome = co_await outcome_of(std::move(next));
    if (outcome.cancelled() && core_.stopped()) co_return stream.ready();
    std::optional<StreamEvent> event = std::move(outcome).value();
    if (!event)
        throw Error(ErrorCode::protocol, "the provider's stream ended without done or error");
    co_return event;
}

/// Delivers an event that does not end the answer to the listeners.
MaybeTask<> AnswerReader::pass_on(StreamEvent&& event) {
    if (event.type == StreamEventType::notice) return core_.notice(*event.notice);
    if (event.type != StreamEventType::start) {
        note_blocks(event);
        return core_.deliver_update(std::move(event));
    }
    started_ = true;
    MessageStartEvent start;
    start.message = event.partial.message();
    core_.state().streaming_message = event.partial;
    return core_.deliver(std::move(start));
}

void AnswerReader::note_blocks(const StreamEvent& event) {
    has_content_ = true;
    if (event.type == StreamEventType::text_delta) has_text_ = true;
    if (event.type == StreamEventType::toolcall_start) {
        open_calls_.push_back(event.content_index);
    } else if (event.type == StreamEventType::toolcall_end) {
        std::erase(open_calls_, event.content_index);
    }
}

AssistantMessage AnswerReader::so_far() const {
    AssistantMessage message = core_.state().streaming_message.get();
    std::vector<std::int32_t> open = open_calls_;
    std::sort(open.rbegin(), open.rend());
    for (const std::int32_t index : open) {
        message.content.erase(message.content.begin() + index);
    }
    return message;
}

}  // namespace cubepi::detail
