#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/agent_event.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/task.hpp>

namespace bub {

/// The kinds of stream events that the pipeline handles. Other kinds pass through unchanged.
namespace event_kind {
inline constexpr std::string_view text = "text";                ///< {delta}
inline constexpr std::string_view reasoning = "reasoning";      ///< {delta}
inline constexpr std::string_view tool_call = "tool_call";      ///< {tool_calls}
inline constexpr std::string_view tool_result = "tool_result";  ///< {tool_results}
inline constexpr std::string_view usage = "usage";              ///< {input_tokens, ...}
inline constexpr std::string_view error = "error";              ///< {kind, message, details}
inline constexpr std::string_view final = "final";              ///< {ok, text}: the end of a step
/// Not a Bub event: {requests, unread}. The session's run is suspended and waits for answers to these requests (B23);
/// `unread`: by an earlier turn, and the message of this one has not been read.
inline constexpr std::string_view suspended = "suspended";
/// Not a Bub event: an event of the agent that has no other representation; see StreamEvent::agent_event.
inline constexpr std::string_view agent = "agent";
}  // namespace event_kind

/// One event of a model's answer. Only the `delta` of `text` events becomes the turn's output.
struct StreamEvent {
    StreamEvent() {}
    StreamEvent(std::string_view event_kind, cubepi::JsonObject event_data)
        : kind(event_kind), data(std::move(event_data)) {}
    static StreamEvent text(std::string_view delta);

    /// Returns the member `delta` of data; empty if absent.
    std::string_view delta() const noexcept;

    std::string kind;
    cubepi::JsonObject data;
    /// The agent event that this event was derived from, for consumers that need more than `data` (running tool calls,
    /// approvals, usage). Null if the event has another origin.
    std::shared_ptr<const cubepi::AgentEvent> agent_event;
};

/// The producing side of a stream, implemented by plugins with run_model_stream. Used by one consumer, on one executor.
class EventSource {
public:
    virtual ~EventSource() = default;
    /// Returns the next event; nothing at the end. An exception fails the turn.
    virtual cubepi::Task<std::optional<StreamEvent>> next() = 0;
    /// Returns the next event if it is already available, which saves a coroutine. An empty result does not mean the
    /// end.
    virtual std::optional<StreamEvent> ready() { return std::nullopt; }
    /// Releases the source. Called once when the consumer is done, whether the stream was read to its end, failed or
    /// was cancelled. Not cancelled itself before a grace period has passed.
    virtual cubepi::Task<> close();
};

/// A model's answer, pulled event by event. A default-constructed stream means "no answer".
class EventStream {
public:
    EventStream() = default;
    EventStream(std::nullopt_t) {}
    explicit EventStream(std::unique_ptr<EventSource> source) : source_(std::move(source)) {}
    /// Returns a stream of the given events.
    static EventStream of(std::vector<StreamEvent> events);
    /// Returns a stream with one text event.
    static EventStream of_text(std::string text);
    /// Returns a stream whose events are transformed by `change`; events for which it returns nothing are dropped.
    static EventStream map(EventStream upstream,
                           std::function<std::optional<StreamEvent>(StreamEvent)> change);

    explicit operator bool() const noexcept { return source_ != nullptr; }
    cubepi::Task<std::optional<StreamEvent>> next() { return source_->next(); }
    std::optional<StreamEvent> ready() { return source_->ready(); }
    cubepi::Task<> close() { return source_->close(); }

private:
    std::unique_ptr<EventSource> source_;
};

}  // namespace bub
