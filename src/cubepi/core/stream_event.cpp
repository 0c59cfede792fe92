#include <cubepi/core/stream_event.hpp>

namespace cubepi {

std::string_view to_string(StreamEventType type) noexcept {
    switch (type) {
        case StreamEventType::start: return "start";
        case StreamEventType::text_start: return "text_start";
        case StreamEventType::text_delta: return "text_delta";
        case StreamEventType::text_end: return "text_end";
        case StreamEventType::thinking_start: return "thinking_start";
        case StreamEventType::thinking_delta: return "thinking_delta";
        case StreamEventType::thinking_end: return "thinking_end";
        case StreamEventType::toolcall_start: return "toolcall_start";
        case StreamEventType::toolcall_delta: return "toolcall_delta";
        case StreamEventType::toolcall_end: return "toolcall_end";
        case StreamEventType::done: return "done";
        case StreamEventType::error: return "error";
        case StreamEventType::notice: return "notice";
    }
    return "start";
}

std::string StreamEvent::error_message() const {
    if (type != StreamEventType::error) return {};
    return partial.get().error_message.str();
}

}  // namespace cubepi
