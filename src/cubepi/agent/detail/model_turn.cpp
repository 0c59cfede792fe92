#include <cubepi/agent/detail/model_turn.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/agent/transcript.hpp>
#include <cubepi/core/cancellation.hpp>

namespace cubepi::detail {

namespace {

constexpr std::string_view aborted_text = "Request was aborted";

std::shared_ptr<const Error> error_of(const AssistantMessage& message) {
    if (message.stop_reason == stop_reason::aborted) {
        return std::make_shared<const Error>(ErrorCode::cancelled, std::string(aborted_text));
    }
    const std::string text =
        message.error_message.empty() ? "the model's answer failed" : message.error_message.str();
    if (!message.error) return std::make_shared<const Error>(ErrorCode::provider, text);
    try {
        throw_provider_error(*message.error, text);
    } catch (const ProviderError& error) {
        return std::make_shared<const ProviderError>(error);
    }
}

Task<MessageStream> start_stream(std::shared_ptr<Provider> provider, ModelRequest request) {
    MessageStream started = provider->stream(std::move(request));
    co_return started;
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

Task<void> ModelTurn::run() {
    message_id_ = core_.runtime().ids->next();
    tools_ = core_.state().tools;
    if (core_.stopped()) co_return co_await conclude_aborted();
    std::optional<ModelRequest> request = co_await build_request();
    if (core_.stopped() || !request) co_return co_await conclude_aborted();
    co_await stream(std::move(*request));
}

// The request.

Task<MessageList> ModelTurn::request_messages() {
    const HookSet& hooks = *core_.parts().hooks;
    MessageList messages = core_.state().messages;
    HookContext context = core_.hook_context();
    if (hooks.transform_context) {
        auto hook = hooks.transform_context(std::move(messages), context);
        messages = co_await core_.call_hook(std::move(hook));
    }
    if (hooks.convert_to_llm) {
        auto hook = hooks.convert_to_llm(std::move(messages), context);
        messages = co_await core_.call_hook(std::move(hook));
    }
    co_return messages;
}

Task<void> ModelTurn::make_legal(ModelRequest& request) {
    RepairedTranscript repaired = repair_request(request.messages);
    if (!repaired.changed()) co_return;
    request.messages = std::move(repaired.messages);
    Notice notice;
    notice.code = "repair";
    notice.text =
        "The request was made legal: results were made up for calls without one, results without "
        "their call were "
        "left out. The stored history is unchanged.";
    notice.details["added_results"] = repaired.added_results;
    notice.details["left_out"] = repaired.left_out;
    co_await core_.notice(std::move(notice));
}

Task<std::optional<ModelRequest>> ModelTurn::build_request() {
    const RunParts& parts = core_.parts();
    std::optional<ModelRequest> made;
    ModelRequest& request = made.emplace();
    request.messages = core_.state().messages;
    const bool transformed = parts.hooks->transform_context || parts.hooks->convert_to_llm;
    if (transformed) request.messages = co_await request_messages();
    if (transformed || !parts.log->is_legal()) co_await make_legal(request);
    request.system_prompt = core_.state().system_prompt;
    if (parts.hooks->transform_system_prompt) {
        HookContext context = core_.hook_context();
        auto hook = parts.hooks->transform_system_prompt(request.system_prompt.str(), context);
        request.system_prompt = co_await core_.call_hook(std::move(hook));
    }
    request.model = parts.model.spec();
    request.tools = tools_.definitions();
    StreamOptions options = StreamOptions()
                                .stop_token(core_.stop_token())
                                .on_payload(parts.on_payload)
                                .on_response(parts.on_response)
                                .message_id(message_id_)
                                .run_id(core_.run_id())
                                .runtime(parts.runtime);
    const std::optional<ReasoningControl>& reasoning = core_.state().reasoning;
    request.options = reasoning ? std::move(options).reasoning(*reasoning) : std::move(options);
    if (parts.prefix_guard) {
        std::optional<Notice> broken = parts.prefix_guard->check(request);
        if (broken) co_await core_.notice(std::move(*broken));
    }
    co_return made;
}

// The answer.

Task<void> ModelTurn::stream(ModelRequest request) {
    const std::shared_ptr<Provider> provider = core_.parts().model.provider();
    std::exception_ptr failure;
    std::optional<MessageStream> stream;
    try {
        if (core_.parts().hooks->around_model_call) {
            ModelCallNext next = [provider](ModelRequest inner) {
                return start_stream(provider, std::move(inner));
            };
            auto hook = core_.parts().hooks->around_model_call(std::move(request), std::move(next));
            stream.emplace(co_await core_.call_hook(std::move(hook)));
        } else {
            stream.emplace(provider->stream(std::move(request)));
        }
    } catch (...) {
        failure = std::current_exception();
    }
    if (failure) {
        if (core_.stopped() && is_cancellation(failure)) {
            co_await conclude_aborted();
        } else {
            co_await conclude_failed(std::move(failure));
        }
        co_return;
    }
    co_await pump(std::move(*stream));
}

Task<void> ModelTurn::pump(MessageStream stream) {
    std::exception_ptr failure;
    for (;;) {
        std::optional<StreamEvent> event;
        try {
            event = stream.ready();
            if (!event && !stream.finished()) event = co_await wait_event(stream);
        } catch (...) {
            failure = std::current_exception();
        }
        if (failure) co_return co_await conclude_failed(std::move(failure));
        const bool ended = event && event->is_terminal();
        if (!event || (core_.stopped() && !ended)) co_return co_await conclude_aborted();
        if (ended) co_return co_await conclude(event->partial.message());
        if (event->type == StreamEventType::notice) {
            co_await core_.notice(*event->notice);
        } else if (event->type == StreamEventType::start) {
            started_ = true;
            partial_ = event->partial;
            MessageStartEvent start;
            start.message = event->partial.message();
            core_.state().streaming_message = partial_;
            if (auto rest = core_.emit(std::move(start))) co_await std::move(*rest);
        } else {
            note_blocks(*event);
            partial_ = event->partial;
            MessageUpdateEvent update;
            update.stream_event = std::move(*event);
            if (auto rest = core_.emit(std::move(update))) co_await std::move(*rest);
        }
    }
}

/// Waits for the next event; empty when an abort ended the wait and the provider had no last word.
Task<std::optional<StreamEvent>> ModelTurn::wait_event(MessageStream& stream) {
    std::exception_ptr failure;
    std::optional<StreamEvent> event;
    try {
        event = co_await cancel_on(core_.stop_token(), stream.next());
    } catch (...) {
        failure = std::current_exception();
    }
    if (failure && !(core_.stopped() && is_cancellation(failure))) std::rethrow_exception(failure);
    if (failure) event = stream.ready();
    if (!failure && !event)
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

/// What was streamed, without calls whose arguments were not complete (D34).
AssistantMessage ModelTurn::so_far() const {
    AssistantMessage message = partial_.get();
    std::vector<std::int32_t> open = open_calls_;
    std::sort(open.rbegin(), open.rend());
    for (const std::int32_t index : open) {
        message.content.erase(message.content.begin() + index);
    }
    return message;
}

Task<void> ModelTurn::conclude(Message final_message) {
    AssistantMessage message = *final_message.assistant();
    if (message.id.empty()) message.id = message_id_;
    message.run_id = core_.run_id();
    core_.count(message);
    if (message.stop_reason == stop_reason::error || message.stop_reason == stop_reason::aborted) {
        failure_ = error_of(message);
    }
    message_ = Message(std::move(message));
    if (started_) co_return;
    MessageStartEvent start;
    start.message = message_;
    if (auto rest = core_.emit(std::move(start))) co_await std::move(*rest);
}

Task<void> ModelTurn::conclude_aborted() {
    AssistantMessage message = so_far();
    message.stop_reason = stop_reason::shared(stop_reason::aborted);
    message.error_message = aborted_text;
    if (!message.timestamp) message.timestamp = core_.wall_seconds();
    return conclude(Message(std::move(message)));
}

Task<void> ModelTurn::conclude_failed(std::exception_ptr failure) {
    AssistantMessage message = so_far();
    message.stop_reason = stop_reason::shared(stop_reason::error);
    try {
        std::rethrow_exception(failure);
    } catch (const ProviderError& error) {
        message.error_message = error.what();
        message.error = std::make_shared<const ErrorInfo>(error.info());
    } catch (const std::exception& error) {
        message.error_message = error.what();
    } catch (...) {
        message.error_message = "unknown exception";
    }
    if (!message.timestamp) message.timestamp = core_.wall_seconds();
    return conclude(Message(std::move(message)));
}

}  // namespace cubepi::detail
