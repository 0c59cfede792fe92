#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/hitl_request.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/message.hpp>
#include <cubepi/core/message_list.hpp>
#include <cubepi/core/notice.hpp>
#include <cubepi/core/run_info.hpp>
#include <cubepi/core/stream_event.hpp>
#include <cubepi/core/usage.hpp>

namespace cubepi {

/// In the order of AgentEvent::Body.
enum class AgentEventType : std::uint8_t {
    agent_start,
    agent_end,
    turn_start,
    turn_end,
    message_start,
    message_update,
    message_end,
    tool_execution_start,
    tool_execution_update,
    tool_execution_end,
    hitl_request,
    hitl_answer,
    agent_suspended,
    agent_aborted,
    notice,
};
std::string_view to_string(AgentEventType type) noexcept;

/// A call of prompt, resume or respond has started.
struct AgentStartEvent {};
/// The call has finished, successfully or not. `messages`: all new messages of the run (D30). The other members are not part of the
/// event's JSON.
struct AgentEndEvent {
    MessageList messages = {};
    RunOutcome outcome = RunOutcome::completed;
    std::shared_ptr<const Error> error =
        {};  ///< that of the call's result; null if the run completed
    /// Of the call's model calls and of what tools and hooks have charged (D67); without PromptOptions::prior_spending().
    Usage usage = {};
    std::optional<double> cost = {};  ///< USD, as `usage`; absent: unknown
};
/// A turn starts: one call of the model, and the tools it calls.
struct TurnStartEvent {};
/// A turn has ended: its answer and all results are stored.
struct TurnEndEvent {
    Message message = {};  ///< the assistant's
    MessageList tool_results = {};
};
/// A message of any role starts. An assistant message is still empty.
struct MessageStartEvent {
    Message message = {};
};
/// The model produced output: one block event of the provider's stream (D45).
struct MessageUpdateEvent {
    StreamEvent stream_event = {};
    /// Returns the message so far, the same content as stream_event.partial.
    const PartialMessage& message() const noexcept { return stream_event.partial; }
};
/// The message is complete and stored.
struct MessageEndEvent {
    Message message = {};
};
/// Processing of a tool call starts, in the model's order (D32); the call may still be blocked.
struct ToolExecutionStartEvent {
    SharedString tool_call_id = {};
    SharedString tool_name = {};
    JsonObject args = {};  ///< as sent by the model, before defaults are filled in
};
/// Progress that a running tool reported with ToolContext::update.
struct ToolExecutionUpdateEvent {
    SharedString tool_call_id = {};
    SharedString tool_name = {};
    JsonObject args = {};
    Json partial_result = {};
};
/// A tool call has its result, in the form that the model will see.
struct ToolExecutionEndEvent {
    SharedString tool_call_id = {};
    SharedString tool_name = {};
    AgentToolResult result = {};
    bool is_error = false;
    bool terminate = false;
    bool blocked_by_hook = false;
    std::string block_reason = {};  ///< empty: none
};
/// A question to the user, which waits for an answer from now on. Asked again by a resumed run.
struct HitlRequestEvent {
    HitlRequest request = {};
};
/// The user answered, or the host cancelled the question. A question that timed out, was aborted or was detached ends
/// with the notice `hitl_request_ended` instead.
struct HitlAnswerEvent {
    std::string question_id = {};
    std::string request_id = {};  ///< HitlRequest::request_id
    Json answer = {};             ///< null if it was cancelled
    bool cancelled = false;
};
/// The run was suspended: its outcome and its pending requests are stored (D59). The last event of the call: neither turn_end nor
/// agent_end follows. Agent::respond() continues the run, possibly in another process.
struct AgentSuspendedEvent {
    std::vector<HitlRequest> pending_requests = {};
    Usage usage = {};                 ///< as that of AgentEndEvent; not part of the JSON
    std::optional<double> cost = {};  ///< as that of AgentEndEvent; not part of the JSON
};
/// Agent::abort_pending() closed the thread's suspended run, or found none. The only event of that call.
struct AgentAbortedEvent {
    std::string reason = {};
};
/// Information for the user that consumers may ignore (D39).
struct NoticeEvent {
    Notice notice = {};
};

/// An event as passed to listeners. A value: it may be copied, stored and read from another thread.
struct AgentEvent {
    using Body = std::variant<AgentStartEvent, AgentEndEvent, TurnStartEvent, TurnEndEvent,
                              MessageStartEvent, MessageUpdateEvent, MessageEndEvent,
                              ToolExecutionStartEvent, ToolExecutionUpdateEvent,
                              ToolExecutionEndEvent, HitlRequestEvent, HitlAnswerEvent,
                              AgentSuspendedEvent, AgentAbortedEvent, NoticeEvent>;

    Body body = {};
    std::shared_ptr<const RunInfo> run = {};
    std::uint32_t turn = 0;  ///< from 1; 0 before the first turn
    std::uint64_t seq = 0;   ///< from 1, per run, without gaps (D8)
    /// Events that are emitted together, without waiting in between, have the same time.
    std::chrono::steady_clock::time_point timestamp = {};

    AgentEventType type() const noexcept { return static_cast<AgentEventType>(body.index()); }
    const std::string& run_id() const noexcept;
    const std::string& thread_id() const noexcept;
    /// Returns the date of `timestamp`; the epoch if the event has no run.
    std::chrono::system_clock::time_point wall_time() const noexcept;

    /// Returns the body if it has type T, else null.
    template <class T>
    const T* get_if() const noexcept {
        return std::get_if<T>(&body);
    }
    /// Returns the provider's event inside a message_update, or null.
    const StreamEvent* stream_event() const noexcept;
    /// Returns the new text of an answer, or null for any other event. Thinking is not text.
    const std::string_view* text_delta() const noexcept;
    const std::string_view* thinking_delta() const noexcept;
    /// Returns the same text by value, empty for any other event: `std::cout << event.text()`.
    std::string_view text() const noexcept;
};

/// Converts the event to a JSON object, as `cubepi run --json` prints it; docs/schema/agent-event.schema.json. Only
/// `message_end` contains a message; other events refer to it by its id, and a tool_execution_end by the id of the
/// call. The message so far is omitted from message_update unless `with_partial` is set.
JsonObject to_json(const AgentEvent& event, bool with_partial = false);

}  // namespace cubepi
