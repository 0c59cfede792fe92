#include <cubepi/agent/run/model_turn.hpp>

#include <optional>
#include <utility>

#include <cubepi/agent/run/failure_message.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/error_with_text.hpp>

namespace cubepi::detail {

namespace {

/// Starts the call for a hook around it. `failure` receives an exception of the provider, to distinguish it from one of
/// the hook.
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

}  // namespace

ModelTurn::ModelTurn(RunCore& core)
    : core_(core),
      model_(core.model()),
      tools_(core.begin_call(model_)),
      message_id_(core.runtime().ids->next()),
      builder_(core, model_, tools_, message_id_),
      reader_(core) {}

Task<void> ModelTurn::run() {
    if (core_.stopped()) return conclude_aborted();
    if (!builder_.is_plain()) return run_with_hooks();
    ModelRequest request = builder_.build();
    if (std::optional<Notice> broken = builder_.prefix_break(request)) {
        return stream_after(std::move(*broken), std::move(request));
    }
    return stream(std::move(request));
}

Task<void> ModelTurn::run_with_hooks() {
    ModelRequest request = co_await builder_.build_with_hooks();
    if (std::optional<Notice> broken = builder_.prefix_break(request)) {
        co_await core_.notice(std::move(*broken));
    }
    if (core_.stopped()) {
        co_await conclude_aborted();
    } else if (core_.parts().hooks->around_model_call) {
        co_await stream_around(std::move(request));
    } else {
        co_await stream(std::move(request));
    }
}

Task<void> ModelTurn::stream_after(Notice notice, ModelRequest request) {
    co_await core_.notice(std::move(notice));
    if (core_.stopped()) {
        co_await conclude_aborted();
        co_return;
    }
    co_await stream(std::move(request));
}

// The call.

Task<void> ModelTurn::stream(ModelRequest&& request) {
    core_.time_passes();
    try {
        return receive(model_.provider()->stream(std::move(request)), true);
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
    core_.count(answer, model_.spec());
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

/// Emits message_start, unless the stream has begun the message.
Task<void> ModelTurn::announce_message() {
    if (reader_.has_started()) co_return;
    MessageStartEvent start;
    start.message = message_;
    co_await core_.emit(std::move(start));
}

}  // namespace cubepi::detail
