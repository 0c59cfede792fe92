#include <cubepi/agent/run/model_turn.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/agent/transcript.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/error_with_text.hpp>

namespace cubepi::detail {

namespace {

std::shared_ptr<const Error> error_of(const AssistantMessage& message) {
    if (message.stop_reason == stop_reason::aborted) {
        return std::make_shared<const Error>(ErrorCode::cancelled, std::string(aborted_text));
    }
    const std::string text =
        message.error_message.empty() ? "the model's answer failed" : message.error_message.str();
    if (!message.error) return std::make_shared<const Error>(ErrorCode::provider, text);
    const ErrorInfo& info = *message.error;
    if (info.code == ErrorCode::limit && info.provider_code == max_answer_bytes_name) {
        return std::make_shared<const LimitReachedError>(std::string(max_answer_bytes_name), text);
    }
    try {
        throw_provider_error(*message.error, text);
    } catch (const ProviderError& error) {
        return std::make_shared<const ProviderError>(error);
    }
}

/// `failure` receives an exception of the provider, to distinguish it from one of the hook around the call.
Task<MessageStream> start_stream(std::shared_ptr<Provider> provider, ModelRequest request,
                                 std::shared_ptr<std::exception_ptr> failure) {
    try {
        MessageStream started = provider->stream(std::move(request));
        co_return started;
    } catch (...) {
        *failure = std::current_exception();
        throw;
    }
}

// The provider reports a failed hook of the user as an error event, without the exception: `failure` stores it.

Task<std::optional<JsonObject>> ask_payload_hook(std::shared_ptr<std::exception_ptr> failure,
                                                 PayloadHook hook, JsonObject payload,
                                                 Model model) {
    *failure = nullptr;
    try {
        Task<std::optional<JsonObject>> call = hook(std::move(payload), std::move(model));
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

/// Returns the next event if it is available already.
std::optional<StreamEvent> take_ready(MessageStream& stream, std::exception_ptr& failure) {
    try {
        return stream.ready();
    } catch (...) {
        failure = std::current_exception();
        return std::nullopt;
    }
}

}  // namespace

Message failure_message(const RunCore& core, const std::string& text, bool aborted) {
    AssistantMessage message;
    message.content.emplace_back(TextContent{});
    message.id = core.runtime().ids->next();
    message.stop_reason = stop_reason::shared(aborted ? stop_reason::aborted : stop_reason::error);
    message.error_message = text;
    message.timestamp = core.wall_seconds();
    message.run_id = core.run_id();
    return message;
}

/// Returns true if no hook changes the history or the call.
bool ModelTurn::is_plain() {
    const HookSet& hooks = *core_.parts().hooks;
    return !hooks.transform_context && !hooks.convert_to_llm && !hooks.transform_system_prompt &&
           !hooks.around_model_call && core_.parts().log->is_legal();
}

Task<void> ModelTurn::run() {
    message_id_ = core_.runtime().ids->next();
    if (core_.parts().on_payload || core_.parts().on_response) {
        hook_failure_ = std::make_shared<std::exception_ptr>();
    }
    model_ = core_.model();
    tools_ = core_.parts().tools;
    if (core_.stopped()) return conclude_aborted();
    if (!is_plain()) return run_hooked();
    ModelRequest plain = request(core_.state().messages, core_.parts().system_prompt);
    if (std::optional<Notice> broken = prefix_break(plain)) {
        return stream_after(std::move(*broken), std::move(plain));
    }
    return stream(std::move(plain));
}

Task<void> ModelTurn::stream(ModelRequest&& request) {
    std::exception_ptr failure;
    std::optional<MessageStream> opened = open(std::move(request), failure);
    if (!opened) return conclude_without(std::move(failure));
    return pump(std::move(*opened));
}

Task<void> ModelTurn::stream_after(Notice notice, ModelRequest request) {
    co_await core_.notice(std::move(notice));
    if (core_.stopped()) {
        co_await conclude_aborted();
        co_return;
    }
    co_await stream(std::move(request));
}

Task<void> ModelTurn::run_hooked() {
    std::optional<ModelRequest> request = co_await hooked_request();
    if (core_.stopped()) {
        co_await conclude_aborted();
        co_return;
    }
    const AroundModelCallHook& around = core_.parts().hooks->around_model_call;
    if (!around) {
        co_await stream(std::move(*request));
        co_return;
    }
    std::exception_ptr failure;
    std::optional<MessageStream> made;
    const auto provider_failure = std::make_shared<std::exception_ptr>();
    try {
        const std::shared_ptr<Provider> provider = model_.provider();
        ModelCallNext next = [provider, provider_failure](ModelRequest inner) {
            return start_stream(provider, std::move(inner), provider_failure);
        };
        own_request_ = false;
        auto hook = around(std::move(*request), std::move(next));
        made.emplace(co_await core_.call_run_hook("around_model_call", std::move(hook)));
    } catch (const HookFailed& failed) {
        failure = failed.cause == *provider_failure ? failed.cause : std::current_exception();
    } catch (...) {
        failure = std::current_exception();
    }
    if (made) {
        co_await pump(std::move(*made));
    } else {
        co_await conclude_without(std::move(failure));
    }
}

// Building the request.

PayloadHook ModelTurn::payload_hook() const {
    const PayloadHook& hook = core_.parts().on_payload;
    if (!hook) return {};
    return [failure = hook_failure_, hook](JsonObject payload, Model model) {
        return ask_payload_hook(failure, hook, std::move(payload), std::move(model));
    };
}

ResponseHook ModelTurn::response_hook() const {
    const ResponseHook& hook = core_.parts().on_response;
    if (!hook) return {};
    return [failure = hook_failure_, hook](ProviderResponse response, Model model) {
        return ask_response_hook(failure, hook, std::move(response), std::move(model));
    };
}

ModelRequest ModelTurn::request(MessageList messages, SharedString system_prompt) const {
    const RunParts& parts = core_.parts();
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
    return made;
}

std::optional<Notice> ModelTurn::prefix_break(const ModelRequest& request) const {
    PrefixGuard* const guard = core_.parts().prefix_guard;
    return guard ? guard->check(request) : std::nullopt;
}

Task<MessageList> ModelTurn::hooked_messages() {
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

Task<void> ModelTurn::make_legal(MessageList& messages) {
    RepairedTranscript repaired = repair_request(messages);
    if (!repaired.changed()) co_return;
    messages = std::move(repaired.messages);
    const TranscriptRepairs& repairs = repaired.repairs;
    if (!core_.parts().log->is_new_repair(repairs)) co_return;
    Notice notice;
    notice.code = "repair";
    notice.text =
        "Tool calls and results of the history do not match. In the request, results were moved "
        "directly after their calls, missing results were added as errors, and results without a "
        "call were left out. The stored history is unchanged.";
    notice.details["added_results"] = repairs.added_results;
    notice.details["moved_results"] = repairs.moved_results;
    notice.details["left_out"] = repairs.left_out;
    co_await core_.notice(std::move(notice));
}

Task<std::optional<ModelRequest>> ModelTurn::hooked_request() {
    const RunParts& parts = core_.parts();
    MessageList messages = core_.state().messages;
    const bool transformed = parts.hooks->transform_context || parts.hooks->convert_to_llm;
    if (transformed) messages = co_await hooked_messages();
    if (transformed || !parts.log->is_legal()) co_await make_legal(messages);
    SharedString system_prompt = parts.system_prompt;
    if (parts.hooks->transform_system_prompt) {
        HookContext context = core_.hook_context();
        auto hook = parts.hooks->transform_system_prompt(system_prompt.str(), context);
        system_prompt = co_await core_.call_run_hook("transform_system_prompt", std::move(hook));
    }
    std::optional<ModelRequest> made(request(std::move(messages), std::move(system_prompt)));
    if (std::optional<Notice> broken = prefix_break(*made)) {
        co_await core_.notice(std::move(*broken));
    }
    co_return made;
}

// Receiving the answer.

std::optional<MessageStream> ModelTurn::open(ModelRequest&& request,
                                             std::exception_ptr& failure) const {
    std::optional<MessageStream> stream;
    core_.time_passes();
    try {
        stream.emplace(model_.provider()->stream(std::move(request)));
    } catch (...) {
        failure = std::current_exception();
    }
    return stream;
}

Task<void> ModelTurn::pump(MessageStream stream) {
    for (;;) {
        std::exception_ptr failure;
        std::optional<StreamEvent> event = take_ready(stream, failure);
        if (!event && !failure && !stream.finished()) {
            core_.time_passes();
            Outcome<std::optional<StreamEvent>> next = co_await outcome_of(wait_event(stream));
            failure = next.failure();
            if (!failure) event = std::move(next).value();
        }
        bool ended = event && event->is_terminal();
        if (!event && !failure && stream.finished() && !core_.stopped()) {
            // A hook around the call has consumed the events, including the last one.
            event.emplace();
            event->partial = StreamAccess::final_message(stream);
            ended = true;
        }
        if (!failure && event && !ended && !core_.stopped()) {
            MaybeTask<> delivery = pass_on(std::move(*event));
            if (delivery.is_pending()) co_await std::move(delivery).task();
            continue;
        }
        if (failure) {
            co_await conclude_failed(failure);
        } else if (ended) {
            Message final_message = std::move(event->partial).message();
            StreamAccess::drop_result(stream);
            co_await conclude(std::move(final_message));
        } else {
            co_await conclude_aborted();
        }
        co_return;
    }
}

/// Delivers an event that does not end the answer to the listeners.
MaybeTask<> ModelTurn::pass_on(StreamEvent&& event) {
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

/// Waits for the next event; empty if an abort ended the wait and the provider sent no final event.
Task<std::optional<StreamEvent>> ModelTurn::wait_event(MessageStream& stream) {
    Task<std::optional<StreamEvent>> next = stream.next();
    if (!own_request_ || !stream.honors_stop_token()) {
        next = cancel_on(core_.stop_token(), std::move(next));
    }
    Outcome<std::optional<StreamEvent>> outcome = co_await outcome_of(std::move(next));
    if (outcome.cancelled() && core_.stopped()) co_return stream.ready();
    std::optional<StreamEvent> event = std::move(outcome).value();
    if (!event)
        throw Error(ErrorCode::protocol, "the provider's stream ended without done or error");
    co_return event;
}

void ModelTurn::note_blocks(const StreamEvent& event) {
    if (event.type == StreamEventType::toolcall_start) {
        open_calls_.push_back(event.content_index);
    } else if (event.type == StreamEventType::toolcall_end) {
        std::erase(open_calls_, event.content_index);
    }
}

/// Returns the streamed content, without calls whose arguments were incomplete (D34).
AssistantMessage ModelTurn::so_far() const {
    AssistantMessage message = core_.state().streaming_message.get();
    std::vector<std::int32_t> open = open_calls_;
    std::sort(open.rbegin(), open.rend());
    for (const std::int32_t index : open) {
        message.content.erase(message.content.begin() + index);
    }
    return message;
}

Task<void> ModelTurn::conclude(Message final_message) {
    set_message(std::move(final_message));
    return announce_message();
}

void ModelTurn::set_message(Message final_message) {
    const AssistantMessage& answer = *final_message.assistant();
    core_.count(answer, model_.spec());
    if (answer.stop_reason == stop_reason::error || answer.stop_reason == stop_reason::aborted) {
        failure_ = error_of(answer);
        const bool by_hook = hook_failure_ && *hook_failure_;
        if (by_hook && answer.stop_reason == stop_reason::error) {
            failure_ = error_with_text(*hook_failure_, answer.error_message.str());
        }
    }
    if (answer.id.empty()) final_message = std::move(final_message).with_id(message_id_);
    if (final_message.run_id() != core_.run_id())
        final_message = std::move(final_message).with_run_id(core_.run_id());
    message_ = std::move(final_message);
}

Task<void> ModelTurn::announce_message() {
    if (started_) co_return;
    MessageStartEvent start;
    start.message = message_;
    co_await core_.emit(std::move(start));
}

Task<void> ModelTurn::conclude_without(std::exception_ptr failure) {
    const bool aborted = core_.stopped() && is_cancellation(failure);
    return aborted ? conclude_aborted() : conclude_failed(failure);
}

Task<void> ModelTurn::conclude_aborted() {
    AssistantMessage message = so_far();
    message.stop_reason = stop_reason::shared(stop_reason::aborted);
    message.error_message = aborted_text;
    if (!message.timestamp) message.timestamp = core_.wall_seconds();
    return conclude(Message(std::move(message)));
}

Task<void> ModelTurn::conclude_failed(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const HookFailed& failed) {
        return conclude_error(failed.cause, failed.text());
    } catch (...) {
        return conclude_error(failure, exception_text(failure));
    }
}

/// Ends the answer with an error. `text` is what the message says; the typed error keeps code and type of `cause`.
Task<void> ModelTurn::conclude_error(const std::exception_ptr& cause, const std::string& text) {
    const std::shared_ptr<const Error> error = error_with_text(cause, text);
    AssistantMessage message = so_far();
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

}  // namespace cubepi::detail
