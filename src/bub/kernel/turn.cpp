#include <bub/kernel/turn.hpp>

#include <chrono>
#include <string>
#include <utility>

#include <bub/envelope.hpp>
#include <bub/questions.hpp>
#include <bub/session_tape.hpp>
#include <bub/tape/tape.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/tape/tape_session.hpp>
#include <bub/turn_error.hpp>
#include <bub/turn_span.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/error_code_of.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/tracing/tracer.hpp>

namespace bub::detail {

using cubepi::Outcome;
using cubepi::outcome_of;

namespace {

std::string text_of(const Json& value) {
    if (const auto* text = value.if_string()) return std::string(*text);
    return value.is_null() ? std::string() : cubepi::json_text(value);
}

void append_delta(std::string& output, const StreamEvent& event) {
    const Json* delta = event.data.if_contains("delta");
    if (!delta) return;
    if (const auto* text = delta->if_string()) {
        output += *text;
    } else {
        output += text_of(*delta);
    }
}

template <class R>
Task<> discard_value(Task<R> task) {
    (void)co_await std::move(task);
}

// As coroutines, so that an exception of the call itself is part of the outcome.

Task<> close_stream(EventStream& stream) { co_await stream.close(); }

Task<> call_closer(TurnState::Closer closer, std::exception_ptr failure) {
    co_await closer(std::move(failure));
}

}  // namespace

Turn::Turn(Framework& owner, Framework::Impl& impl, PluginList asked,
           std::shared_ptr<Envelope> message, bool wants_stream)
    : framework(owner),
      kernel(impl),
      plugins(std::move(asked)),
      inbound(std::move(message)),
      streaming(wants_stream),
      trace(impl.options, *inbound),
      input_id_(impl.has_store ? input_id_of(*inbound) : std::string()) {}

// A stage that throws ends the turn. Each has a default, for hooks that return nothing.
Task<> Turn::run_stages() {
    trace.begin("resolve_session");
    result.session_id = co_await framework.resolve_session(inbound);
    inbound->session_id = result.session_id;
    trace.begin("load_state");
    co_await load_state();
    trace.begin("build_prompt");
    result.prompt = co_await framework.build_prompt(inbound, result.session_id, result.state);
    trace.begin("run_model");
    co_await run_model();
    trace.begin("render_outbound");
    co_await render_outbound();
    trace.begin("dispatch_outbound");
    co_await dispatch_outbound();
}

Task<> Turn::load_state() {
    JsonObject& merged = result.state.values;
    merged.reserve(8);
    merged[TurnState::workspace_key] = kernel.workspace;
    trace.offer_to(result.state);
    std::vector<JsonObject> found;
    found.reserve(plugins->size());
    LoadStateCall call{*inbound, result.session_id, result.state};
    auto keep = [&found](const Plugin&, std::optional<JsonObject> values) {
        if (values) found.push_back(std::move(*values));
    };
    co_await all_results(plugins, &Plugin::load_state, call, keep);
    // The first asked has the highest precedence, so it is merged last.
    for (auto values = found.rbegin(); values != found.rend(); ++values) {
        for (auto& [key, value] : *values) merged[key] = std::move(value);
    }
}

Task<> Turn::run_model() {
    const Outcome<> answered = co_await outcome_of(answer());
    if (is_cancelled_by(answered.failure())) co_await cubepi::shield();
    trace.begin("save_state", answered.failure());
    const std::exception_ptr failure = co_await save_state(answered.failure());
    if (failure) std::rethrow_exception(failure);
}

Task<> Turn::answer() {
    if (!input_id_.empty()) {
        Outcome<bool> again = co_await outcome_of(answer_again());
        // No plugin was asked: the message would be recorded without what they record with it (D263).
        if (!again) result.state.mark_recorded();
        answered_ = again.value();
    }
    for (const auto& plugin : *plugins) {
        if (answered_) co_return;
        const bool asks_stream = plugin->run_model_stream && (streaming || !plugin->run_model);
        if (asks_stream) {
            answered_ = co_await ask_stream(*plugin);
        } else if (plugin->run_model) {
            answered_ = co_await ask_text(*plugin);
        }
    }
    if (answered_) co_return;
    require_streams();
    co_await fall_back();
}

Task<bool> Turn::ask_text(const Plugin& plugin) {
    RunModelCall call{result.prompt, result.session_id, result.state, *inbound};
    std::optional<std::string> text = co_await plugin.run_model(call);
    if (text && streaming) {
        co_await take_text(std::move(*text));
    } else if (text) {
        result.model_output = std::move(*text);
    }
    co_return text.has_value();
}

/// Sets the output; for a streaming caller the text becomes a stream of one event, which the router may wrap.
Task<> Turn::take_text(std::string text) {
    const std::shared_ptr<OutboundChannelRouter> router = streaming ? framework.router() : nullptr;
    if (!router) {
        result.model_output = std::move(text);
        co_return;
    }
    EventStream wrapped = router->wrap_stream(*inbound, EventStream::of_text(std::move(text)));
    co_await consume(std::move(wrapped));
}

Task<bool> Turn::ask_stream(const Plugin& plugin) {
    RunModelCall call{result.prompt, result.session_id, result.state, *inbound};
    EventStream stream = co_await plugin.run_model_stream(call);
    if (!stream) {
        if (!streaming && without_stream_.empty()) without_stream_ = plugin.name;
        co_return false;
    }
    const std::shared_ptr<OutboundChannelRouter> router = streaming ? framework.router() : nullptr;
    if (router) stream = router->wrap_stream(*inbound, std::move(stream));
    co_await consume(std::move(stream));
    co_return true;
}

Task<> Turn::consume(EventStream stream) {
    const Outcome<> consumed = co_await outcome_of(read(stream));
    if (is_cancelled_by(consumed.failure())) co_await cubepi::shield();
    Task<> closing = await_closing(close_stream(stream), "closing a model's stream");
    const Outcome<> closed = co_await outcome_of(std::move(closing));
    consumed.rethrow();
    closed.rethrow();
}

Task<> Turn::read(EventStream& stream) {
    while (true) {
        std::optional<StreamEvent> event = stream.ready();
        if (!event) event = co_await stream.next();
        if (!event) break;
        if (event->kind == event_kind::text) {
            append_delta(result.model_output, *event);
        } else if (event->kind == event_kind::error) {
            auto error = std::make_exception_ptr(error_from_event(event->data));
            co_await framework.notify_error("run_model", std::move(error), inbound);
        }
    }
}

void Turn::require_streams() const {
    if (without_stream_.empty()) return;
    throw cubepi::Error(cubepi::ErrorCode::invalid_state,
                        "no plugin answered, and run_model_stream of plugin '" + without_stream_ +
                            "' returned no stream to a non-streaming caller; add a run_model hook "
                            "to the plugin, or return a stream");
}

Task<> Turn::fall_back() {
    auto error = std::make_exception_ptr(cubepi::Error(
        cubepi::ErrorCode::invalid_state,
        "no plugin answered: neither run_model nor run_model_stream returned a result"));
    co_await framework.notify_error("run_model", std::move(error), inbound);
    const std::string* text = result.prompt.if_text();
    result.model_output = text ? *text : inbound->content_text();
}

Task<std::exception_ptr> Turn::save_state(std::exception_ptr failure) {
    SaveStateCall call{result.session_id,   result.state,  *inbound,
                       result.model_output, result.prompt, failure};
    for (const auto& plugin : *plugins) {
        if (!plugin->save_state) continue;
        Task<> settling = await_closing(discard_value(plugin->save_state(call)), "save_state");
        const Outcome<> saved = co_await outcome_of(std::move(settling));
        if (is_cancelled_by(saved.failure())) {
            co_await cubepi::shield();
            // A cancellation supersedes an earlier failure, which is only reported.
            if (failure)
                kernel.warn("turn.failed", {{"error", cubepi::logged_error(failure)}},
                            "a turn was cancelled after it had failed: " + describe(failure));
            failure = saved.failure();
        } else if (!saved && !failure) {
            failure = saved.failure();
        } else if (!saved) {
            Task<> notifying = framework.notify_error("save_state", saved.failure(), inbound);
            co_await await_closing(std::move(notifying), "on_error");
        }
    }
    if (kernel.has_store && !result.state.recorded()) {
        Task<> recording = await_closing(record(!failure), "recording the turn");
        const Outcome<> recorded = co_await outcome_of(std::move(recording));
        if (!failure) failure = recorded.failure();
        if (is_cancelled_by(failure)) co_await cubepi::shield();
    }
    co_return failure;
}

Task<std::string> Turn::tape_of_session(std::shared_ptr<TapeStore> store) const {
    if (!store || result.session_id.starts_with("temp/")) co_return std::string();
    co_return co_await session_tape_name(std::move(store), result.state, result.session_id);
}

Task<std::shared_ptr<TapeStore>> Turn::tapes() {
    std::shared_ptr<TapeStore> store;
    if (const auto own = result.state.service<TurnTapes>())
        store = own->store ? own->store : own->base;
    if (!store) store = co_await framework.tape_store();
    co_return store;
}

Task<bool> Turn::answer_again() {
    const std::shared_ptr<TapeStore> store = co_await tapes();
    const std::string name = co_await tape_of_session(store);
    if (name.empty()) co_return false;
    const std::optional<TapeEntry> entry =
        co_await store->find_message_entry(name, plugin_answer_id(input_id_));
    // A message with this id may also be an input.
    if (!entry || cubepi::detail::text_member(entry->payload, "role") != "assistant")
        co_return false;
    std::string text = text_of(entry->payload.at("content"));
    result.state.mark_recorded();
    co_await take_text(std::move(text));
    co_return true;
}

Task<> Turn::record_input(std::shared_ptr<TapeStore> store, std::string tape, bool whole) {
    const double now =
        std::chrono::duration<double>(kernel.options.runtime->clock->wall().time_since_epoch())
            .count();
    TapeCheckpointer memory(std::move(store));
    cubepi::MessageList messages;
    const std::optional<cubepi::Message> known = co_await memory.find_message(tape, input_id_);
    if (!known) {
        messages.push_back(
            cubepi::user_message(result.prompt.text(), input_id_).with_timestamp(now));
    }
    if (whole || !result.model_output.empty()) {
        cubepi::AssistantMessage answer;
        answer.content.emplace_back(cubepi::TextContent{result.model_output});
        answer.stop_reason = cubepi::stop_reason::shared(whole ? cubepi::stop_reason::stop
                                                               : cubepi::stop_reason::aborted);
        if (whole) answer.id = plugin_answer_id(input_id_);
        answer.timestamp = now;
        messages.push_back(cubepi::Message(std::move(answer)));
    }
    if (messages.empty()) co_return;
    cubepi::AppendOptions options;
    (void)co_await memory.append(std::move(tape), std::move(messages), std::move(options));
}

Task<> Turn::record(bool whole) {
    const std::shared_ptr<TapeStore> store = co_await tapes();
    const std::string name = co_await tape_of_session(store);
    if (name.empty()) co_return;
    const Tape tape(store, name);
    co_await tape.bootstrap();
    if (!input_id_.empty()) {
        co_await record_input(store, name, whole);
        co_return;
    }
    JsonObject meta = trace_meta(result.state);
    const JsonObject side_state = co_await store->read_state(name);
    if (has_suspended_run(side_state)) meta = after_open_calls(std::move(meta));
    std::vector<TapeEntry> entries;
    entries.push_back(message_entry("user", result.prompt.text(), meta));
    if (!result.model_output.empty()) {
        entries.push_back(message_entry("assistant", result.model_output, meta));
    }
    (void)co_await tape.append(std::move(entries));
}

Task<> Turn::render_outbound() {
    if (result.state.silent()) co_return;
    RenderOutboundCall call{*inbound, result.session_id, result.state, result.model_output};
    std::vector<Envelope>& outbounds = result.outbounds;
    auto take = [&outbounds](const Plugin&, EnvelopeBatch batch) {
        for (Envelope& envelope : batch.items) outbounds.push_back(std::move(envelope));
    };
    co_await all_results(plugins, &Plugin::render_outbound, call, take);
    if (outbounds.empty()) {
        Envelope made(result.model_output);
        made.session_id = result.session_id;
        made.channel = inbound->channel;
        made.chat_id = inbound->chat_id;
        for (const std::string_view key : {"channel", "chat_id"}) {
            // A number is preserved as a number.
            if (const Json* value = inbound->rest.if_contains(key)) made.rest[key] = *value;
        }
        outbounds.push_back(std::move(made));
    }
    for (Envelope& outbound : outbounds) outbound.inbound_id = inbound->inbound_id;
}

Task<> Turn::dispatch_outbound() {
    const auto ignore = [](const Plugin&, std::optional<bool>) {};
    const std::shared_ptr<OutboundChannelRouter> router = framework.router();
    const std::size_t count = result.outbounds.size();
    if (router && count > 1) {
        std::vector<TurnOutput> all;
        for (const Envelope& outbound : result.outbounds)
            all.emplace_back(outbound, all.size(), count);
        co_await router->plan_outputs(result.session_id, std::move(all));
    }
    for (std::size_t index = 0; index < count; ++index) {
        DispatchOutboundCall call{result.outbounds[index], index, count};
        co_await all_results(plugins, &Plugin::dispatch_outbound, call, ignore);
    }
}

bool Turn::has_something_open() const noexcept { return cancelled_ || result.state.has_closers(); }

Task<std::exception_ptr> Turn::close(std::exception_ptr failure) {
    std::vector<TurnState::Closer> closers = result.state.take_closers();
    for (auto closer = closers.rbegin(); closer != closers.rend(); ++closer) {
        Task<> closing =
            await_closing(call_closer(std::move(*closer), failure), "the end of a turn");
        const Outcome<> closed = co_await outcome_of(std::move(closing));
        if (is_cancelled_by(closed.failure())) {
            co_await cubepi::shield();
            failure = closed.failure();
        } else if (!closed) {
            kernel.warn("turn.cleanup_failed", {{"error", cubepi::logged_error(closed.failure())}},
                        "cleanup at the end of a turn failed: " + describe(closed.failure()));
        }
    }
    if (cancelled_) co_await cubepi::unshield();
    co_return failure;
}

Task<> Turn::await_closing(Task<> task, std::string what) {
    cubepi::Clock& clock = *kernel.options.runtime->clock;
    // A cancellation that arrives now does not interrupt it at once either.
    if (!cancelled_)
        return cubepi::stop_on_cancel(std::stop_source(), clock, kernel.options.close_grace,
                                      std::move(task));
    return cubepi::with_timeout(clock, kernel.options.close_grace, std::move(task),
                                std::move(what));
}

bool Turn::is_cancelled_by(const std::exception_ptr& failure) noexcept {
    if (cancelled_ || !cubepi::is_cancellation(failure)) return false;
    cancelled_ = true;
    return true;
}

}  // namespace bub::detail

namespace bub {

using detail::all_results;
using detail::first_result;

// A turn, and the parts of it that others use.

Task<TurnResult> Framework::process_inbound(std::shared_ptr<Envelope> inbound, bool stream_output) {
    detail::Turn turn(*this, *impl_, impl_->plugins(), inbound, stream_output);
    const cubepi::Outcome<> done = co_await cubepi::outcome_of(turn.run_stages());
    std::exception_ptr failure = done.failure();
    if (turn.is_cancelled_by(failure)) co_await cubepi::shield();
    if (turn.has_something_open()) failure = co_await turn.close(failure);
    turn.trace.end(turn.result, failure);
    if (!failure) co_return std::move(turn.result);
    if (!cubepi::is_cancellation(failure)) co_await notify_error("turn", failure, inbound);
    std::rethrow_exception(failure);
}

Task<TurnResult> Framework::process_inbound(Envelope inbound, bool stream_output) {
    note_answer(inbound);
    return process_inbound(std::make_shared<Envelope>(std::move(inbound)), stream_output);
}

Task<std::string> Framework::resolve_session(std::shared_ptr<Envelope> inbound) {
    ResolveSessionCall call{*inbound};
    std::optional<std::string> id =
        co_await first_result(impl_->plugins(), &Plugin::resolve_session, call);
    if (id && !id->empty()) co_return std::move(*id);
    co_return default_session(*inbound);
}

Task<Prompt> Framework::build_prompt(std::shared_ptr<Envelope> message, std::string session_id,
                                     TurnState& state) {
    BuildPromptCall call{*message, session_id, state};
    std::optional<Prompt> prompt =
        co_await first_result(impl_->plugins(), &Plugin::build_prompt, call);
    if (prompt && !prompt->empty()) co_return std::move(*prompt);
    co_return Prompt(message->content_text());
}

Task<> Framework::dispatch_outbound(std::shared_ptr<Envelope> message) {
    DispatchOutboundCall call{*message};
    const auto ignore = [](const Plugin&, std::optional<bool>) {};
    co_await all_results(impl_->plugins(), &Plugin::dispatch_outbound, call, ignore);
}

Task<> Framework::dispatch_outbound(TurnOutput output) {
    DispatchOutboundCall call{output.message, output.index, output.count};
    const auto ignore = [](const Plugin&, std::optional<bool>) {};
    co_await all_results(impl_->plugins(), &Plugin::dispatch_outbound, call, ignore);
}

Task<std::optional<AdmitDecision>> Framework::admit_message(std::string session_id,
                                                            const Envelope& message,
                                                            TurnSnapshot turn) {
    AdmitMessageCall call{session_id, message, turn};
    std::optional<AdmitDecision> decision =
        co_await first_result(impl_->plugins(), &Plugin::admit_message, call);
    co_return decision;
}

cubepi::TraceContext trace_of(const Envelope& message) {
    cubepi::TraceContext trace;
    if (message.context.empty()) return trace;
    trace.traceparent = cubepi::detail::text_member(message.context, trace_key::traceparent);
    if (const Json* tags = message.context.if_contains(trace_key::tags); tags && tags->is_array()) {
        for (const Json& tag : tags->get_array()) {
            if (tag.is_string()) trace.tags.emplace_back(tag.get_string());
        }
    }
    const Json* metadata = message.context.if_contains(trace_key::metadata);
    if (metadata && metadata->is_object()) trace.metadata = metadata->get_object();
    return trace;
}

cubepi::TraceContext trace_of_run(const TurnState& state, const Envelope* message) {
    cubepi::TraceContext trace;
    if (message) trace = trace_of(*message);
    if (const auto span = state.service<TurnSpan>()) trace.traceparent = span->stage.traceparent();
    return trace;
}

JsonObject trace_meta(const TurnState& state) {
    JsonObject meta;
    if (const auto span = state.service<TurnSpan>()) {
        meta["trace_id"] = span->turn.trace_id.hex();
        meta["span_id"] = span->turn.span_id.hex();
    }
    return meta;
}

namespace detail {

namespace {

std::string type_of(const std::exception_ptr& failure) {
    const cubepi::ErrorCode code = cubepi::detail::error_code_of(failure);
    return std::string(code == cubepi::ErrorCode::unknown ? "exception" : to_string(code));
}

void mark_failed(cubepi::ActiveSpan& span, const std::exception_ptr& failure) {
    if (!failure) return;
    if (cubepi::is_cancellation(failure)) {
        span.set_attribute("cubepi.aborted", true);
    } else {
        span.set_error(type_of(failure), describe(failure));
    }
}

}  // namespace

TurnTrace::TurnTrace(const FrameworkOptions& options, const Envelope& inbound) : options_(options) {
    if (options.tracer) begin_turn(options, inbound);
}

void TurnTrace::begin_turn(const FrameworkOptions& options, const Envelope& inbound) {
    cubepi::ActiveSpanOptions how;
    how.trace = trace_of(inbound);
    how.kind = cubepi::SpanKind::consumer;
    how.start = now();
    turn_ = options.tracer->start_span("bub.turn", std::move(how));
    if (inbound.channel) turn_.set_attribute("bub.channel", cubepi::SharedString(*inbound.channel));
    service_ = std::make_shared<TurnSpan>(TurnSpan{turn_.context(), turn_.context()});
}

void TurnTrace::offer_to(TurnState& state) const {
    if (service_) state.replace(service_);
}

void TurnTrace::begin(std::string_view stage, const std::exception_ptr& failure) {
    if (!service_) return;
    end_stage(failure);
    begin_stage(stage);
}

void TurnTrace::begin_stage(std::string_view stage) {
    cubepi::ActiveSpanOptions how;
    how.trace.traceparent = turn_.context().traceparent();
    how.start = now();
    stage_ = options_.tracer->start_span("bub." + std::string(stage), std::move(how));
    service_->stage = stage_.context();
}

void TurnTrace::end_stage(const std::exception_ptr& failure) {
    // A failure passes through the stages that follow, for example save_state.
    if (failure != stage_failure_) mark_failed(stage_, failure);
    stage_failure_ = failure;
    stage_.end(now());
    service_->stage = turn_.context();
}

void TurnTrace::end(const TurnResult& result, const std::exception_ptr& failure) {
    if (!service_) return;
    end_stage(failure);
    if (!result.session_id.empty()) {
        const cubepi::SharedString session(result.session_id);
        turn_.set_attribute("bub.session_id", session);
        turn_.set_attribute("gen_ai.conversation.id", session);
    }
    turn_.set_attribute("bub.turn.outbounds", static_cast<std::int64_t>(result.outbounds.size()));
    mark_failed(turn_, failure);
    turn_.end(now());
}

cubepi::ActiveSpan::Time TurnTrace::now() const { return options_.runtime->clock->wall(); }

}  // namespace detail

}  // namespace bub
