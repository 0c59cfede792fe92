#pragma once

#include <cubepi/core/run_info.hpp>
#include <cubepi/tracing/span.hpp>

#include <bub/envelope.hpp>
#include <bub/turn_state.hpp>

namespace bub {

/// Keys of Envelope::context for the traces of its turn.
namespace trace_key {
inline constexpr std::string_view traceparent =
    "_traceparent";  ///< the caller's span, in the form of W3C Trace Context
inline constexpr std::string_view tags = "_tags";          ///< a list of texts
inline constexpr std::string_view metadata = "_metadata";  ///< an object
}  // namespace trace_key

/// The spans of the turn, as a service of its state; absent if the framework has no tracer.
struct TurnSpan {
    cubepi::SpanContext turn = {};
    cubepi::SpanContext stage = {};  ///< of the stage that runs
};

/// Returns the trace of a message, from the keys of its context.
cubepi::TraceContext trace_of(const Envelope& message);
/// Returns the trace of a run that the turn starts: below the current stage, or below the caller's span if the turn is not
/// traced; with the tags and metadata of the message. `message` may be null.
cubepi::TraceContext trace_of_run(const TurnState& state, const Envelope* message);
/// Returns `{trace_id, span_id}` of the turn, for the meta of tape entries; empty if the turn is not traced.
JsonObject trace_meta(const TurnState& state);

}  // namespace bub
