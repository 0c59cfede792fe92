#include <bub/turn_span.hpp>

#include <cubepi/core/support/json_member.hpp>

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

}  // namespace bub
