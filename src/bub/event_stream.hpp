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

/// The kinds of stream events that somebody in the pipeline acts upon. Others pass through.
namespace event_kind {
inline constexpr std::string_view text = "text";                ///< {delta}
inline constexpr std::string_view reasoning = "reasoning";      ///< {delta}
inline constexpr std::string_view tool_call = "tool_call";      ///< {tool_calls}
inline constexpr std::string_view tool_result = "tool_result";  ///< {tool_results}
inline constexpr std::string_view usage = "usage";              ///< {input_tokens, ...}
inline constexpr std::string_view error = "error";              ///< {kind, message, details}
inline constexpr std::string_view final = "final";              ///< {ok, text}: the end of a step
/// No event of Bub's: an event of the agent that has no other form; see StreamEvent::agent_event.
inline constexpr std::string_view agent = "agent";
}  // namespace event_kind

/// One event of a model's answer. Only the `delta` of `text` events becomes the turn's output.
struct StreamEvent {
    StreamEvent() {}
    StreamEvent(std::string_view event_kind, cubepi::JsonObject event_data)
        : kind(event_kind), data(std::move(event_data)) {}
    static StreamEvent text(std::string_view delta);

    /// The member `delta` of data; empty when there is none.
    std::string_view delta() const noexcept;

    std::string kind;
    cubepi::JsonObject data;
    /// The agent's event that this one was made from, for who wants more than the data (tool calls as they run,
    /// approvals, usage). Null when it comes from elsewhere.
    std::shared_ptr<const cubepi::AgentEvent> agent_event;
};

/// The producing side of a stream: what a plugin with run_model_stream implements. Used by one consumer, on one
/// executor.
class EventSource {
public:
    virtual ~EventSource() = default;
    /// The next event; nothing at the end. What it throws fails the turn.
    virtual cubepi::Task<std::optional<StreamEvent>> next() = 0;
    /// The next event when it is there already: saves a coroutine. Nothing does not mean the end.
    virtual std::optional<StreamEvent> ready() { return std::nullopt; }
    /// Called once when the consumer is done, whether the stream was read to its end, failed or was cancelled; never
    /// cancelled itself before a grace period is over.
    virtual cubepi::Task<> close();
};

/// A model's answer, pulled event by event. Empty when default-constructed: "no answer".
class EventStream {
public:
    EventStream() = default;
    EventStream(std::nullopt_t) {}
    explicit EventStream(std::unique_ptr<EventSource> source) : source_(std::move(source)) {}
    /// A stream of events that are there already.
    static EventStream of(std::vector<StreamEvent> events);
    /// A stream of one text event.
    static EventStream of_text(std::string text);
    /// A stream whose events pass through `change`, which gives nothing for those to be left out.
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
