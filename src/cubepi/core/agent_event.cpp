#include <cubepi/core/agent_event.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/core/message_json.hpp>

namespace cubepi {

std::string_view to_string(AgentEventType type) noexcept {
    switch (type) {
        case AgentEventType::agent_start: return "agent_start";
        case AgentEventType::agent_end: return "agent_end";
        case AgentEventType::turn_start: return "turn_start";
        case AgentEventType::turn_end: return "turn_end";
        case AgentEventType::message_start: return "message_start";
        case AgentEventType::message_update: return "message_update";
        case AgentEventType::message_end: return "message_end";
        case AgentEventType::tool_execution_start: return "tool_execution_start";
        case AgentEventType::tool_execution_update: return "tool_execution_update";
        case AgentEventType::tool_execution_end: return "tool_execution_end";
        case AgentEventType::hitl_request: return "hitl_request";
        case AgentEventType::hitl_answer: return "hitl_answer";
        case AgentEventType::agent_suspended: return "agent_suspended";
        case AgentEventType::agent_aborted: return "agent_aborted";
        case AgentEventType::notice: return "notice";
    }
    return "notice";
}

namespace {
const std::string no_text;
}

const std::string& AgentEvent::run_id() const noexcept { return run ? run->run_id.str() : no_text; }
const std::string& AgentEvent::thread_id() const noexcept {
    return run ? run->thread_id.str() : no_text;
}

std::chrono::system_clock::time_point AgentEvent::wall_time() const noexcept {
    return run ? run->wall_time(timestamp) : std::chrono::system_clock::time_point();
}

const StreamEvent* AgentEvent::stream_event() const noexcept {
    const auto* update = std::get_if<MessageUpdateEvent>(&body);
    return update ? &update->stream_event : nullptr;
}

const std::string_view* AgentEvent::text_delta() const noexcept {
    const StreamEvent* event = stream_event();
    return event && event->type == StreamEventType::text_delta ? &event->delta : nullptr;
}

const std::string_view* AgentEvent::thinking_delta() const noexcept {
    const StreamEvent* event = stream_event();
    return event && event->type == StreamEventType::thinking_delta ? &event->delta : nullptr;
}

std::string_view AgentEvent::text() const noexcept {
    const std::string_view* delta = text_delta();
    return delta ? *delta : std::string_view();
}

namespace {

/// Unix time with the resolution of the system clock; microseconds are what a double holds.
double unix_seconds(std::chrono::system_clock::time_point time) {
    const auto since_epoch = time.time_since_epoch();
    const auto us = std::chrono::duration_cast<std::chrono::microseconds>(since_epoch);
    return static_cast<double>(us.count()) / 1e6;
}

JsonArray message_ids(const MessageList& messages) {
    JsonArray array;
    array.reserve(messages.size());
    for (const Message& message : messages) array.emplace_back(message.id());
    return array;
}

JsonObject stream_event_json(const StreamEvent& event, bool with_partial) {
    JsonObject json{{"type", to_string(event.type)}};
    if (event.content_index >= 0) json["content_index"] = event.content_index;
    const bool is_delta = event.type == StreamEventType::text_delta ||
                          event.type == StreamEventType::thinking_delta ||
                          event.type == StreamEventType::toolcall_delta;
    if (is_delta) json["delta"] = event.delta;
    if (with_partial) json["partial"] = to_json(event.partial.get());
    return json;
}

/// A visitor that adds an event's own fields to the object with the common ones. Each message is contained in one event
/// only, `message_end`; the others refer to it by its id, so that a long output is not repeated.
struct BodyWriter {
    JsonObject& json;
    const RunInfo* run;
    bool with_partial;

    void operator()(const AgentStartEvent&) const {
        if (!run || run->origin.parent_run_id.empty()) return;
        json["parent_run_id"] = run->origin.parent_run_id;
        if (!run->origin.parent_tool_call_id.empty())
            json["parent_tool_call_id"] = run->origin.parent_tool_call_id;
    }
    void operator()(const AgentEndEvent& event) const {
        json["message_ids"] = message_ids(event.messages);
    }
    void operator()(const TurnStartEvent&) const {}
    void operator()(const TurnEndEvent& event) const {
        json["message_id"] = event.message ? event.message.id() : std::string();
        json["tool_result_ids"] = message_ids(event.tool_results);
    }
    void operator()(const MessageStartEvent& event) const {
        json["message_id"] = event.message.id();
        json["role"] = to_string(event.message.role());
        if (const ToolResultMessage* result = event.message.tool_result())
            json["tool_call_id"] = std::string_view(result->tool_call_id);
    }
    void operator()(const MessageUpdateEvent& event) const {
        json["stream_event"] = stream_event_json(event.stream_event, with_partial);
    }
    void operator()(const MessageEndEvent& event) const {
        json["message"] = to_json(event.message);
    }
    void operator()(const ToolExecutionStartEvent& event) const {
        tool(event.tool_call_id, event.tool_name);
        json["args"] = event.args;
    }
    void operator()(const ToolExecutionUpdateEvent& event) const {
        tool(event.tool_call_id, event.tool_name);
        json["args"] = event.args;
        json["partial_result"] = event.partial_result;
    }
    void operator()(const ToolExecutionEndEvent& event) const {
        tool(event.tool_call_id, event.tool_name);
        json["is_error"] = event.is_error;
        json["terminate"] = event.terminate;
        json["blocked_by_hook"] = event.blocked_by_hook;
        json["block_reason"] =
            event.block_reason.empty() ? Json(nullptr) : Json(event.block_reason);
    }
    void operator()(const HitlRequestEvent& event) const {
        json["request"] = to_json(event.request);
    }
    void operator()(const HitlAnswerEvent& event) const {
        json["question_id"] = event.question_id;
        if (!event.request_id.empty()) json["request_id"] = event.request_id;
        json["answer"] = event.answer;
        json["cancelled"] = event.cancelled;
    }
    void operator()(const AgentSuspendedEvent& event) const {
        JsonArray pending;
        for (const HitlRequest& request : event.pending_requests) {
            pending.emplace_back(to_json(request));
        }
        json["pending_requests"] = std::move(pending);
    }
    void operator()(const AgentAbortedEvent& event) const { json["reason"] = event.reason; }
    void operator()(const NoticeEvent& event) const {
        json["code"] = event.notice.code;
        json["text"] = event.notice.text;
        json["details"] = event.notice.details;
    }

    void tool(const SharedString& id, const SharedString& name) const {
        json["tool_call_id"] = std::string_view(id);
        json["tool_name"] = std::string_view(name);
    }
};

}  // namespace

JsonObject to_json(const AgentEvent& event, bool with_partial) {
    JsonObject json;
    json["type"] = to_string(event.type());
    json["run_id"] = event.run_id();
    json["attempt_id"] = event.run ? event.run->attempt_id.str() : std::string();
    if (!event.thread_id().empty()) json["thread_id"] = event.thread_id();
    json["turn"] = event.turn;
    json["seq"] = event.seq;
    json["time"] = unix_seconds(event.wall_time());
    const BodyWriter writer{json, event.run.get(), with_partial};
    std::visit(writer, event.body);
    return json;
}

TraceContext TraceContext::nested(TraceContext inner) const {
    TraceContext both = *this;
    if (!inner.traceparent.empty()) both.traceparent = std::move(inner.traceparent);
    for (std::string& tag : inner.tags) {
        if (std::find(both.tags.begin(), both.tags.end(), tag) == both.tags.end())
            both.tags.push_back(std::move(tag));
    }
    for (auto& [key, value] : inner.metadata) both.metadata[key] = std::move(value);
    return both;
}

std::string_view to_string(RunOutcome outcome) noexcept {
    switch (outcome) {
        case RunOutcome::completed: return "completed";
        case RunOutcome::suspended: return "suspended";
        case RunOutcome::aborted: return "aborted";
        case RunOutcome::failed: return "failed";
        case RunOutcome::limited: return "limited";
    }
    return "failed";
}

}  // namespace cubepi
