#include <bub/kernel/turn.hpp>

#include <string>
#include <utility>

#include <bub/turn_error.hpp>
#include <bub/turn_span.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/error_code_of.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/tracing/tracer.hpp>

namespace bub {

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
