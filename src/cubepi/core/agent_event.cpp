#include <cubepi/core/agent_event.hpp>

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

}  // namespace cubepi
