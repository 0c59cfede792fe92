#pragma once

#include <string>
#include <vector>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/message_stream.hpp>

namespace cubepi {

// Helpers for the tests of this module.

inline Task<std::vector<StreamEvent>> read_all(MessageStream stream) {
    std::vector<StreamEvent> events;
    for (;;) {
        std::optional<StreamEvent> event = co_await stream.next();
        if (!event) break;
        events.push_back(std::move(*event));
    }
    co_return events;
}

inline std::vector<StreamEvent> all_events(MessageStream stream) {
    return run(read_all(std::move(stream)));
}

/// "start text_start text_delta(Hi) text_end done"
inline std::string spelled(const std::vector<StreamEvent>& events) {
    std::string text;
    for (const StreamEvent& event : events) {
        if (!text.empty()) text += ' ';
        text += to_string(event.type);
        if (!event.delta.empty()) text += "(" + std::string(event.delta) + ")";
        if (event.notice) text += "(" + event.notice->code + ")";
    }
    return text;
}

}  // namespace cubepi
