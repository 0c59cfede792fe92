#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/provider.hpp>
#include <cubepi/testing/manual_clock.hpp>
#include <cubepi/testing/memory_transport.hpp>

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

/// A server in memory, and a clock that only tests move.
struct MemoryEndpoint {
    explicit MemoryEndpoint(std::vector<testing::MemoryResponse> answers)
        : transport(std::make_shared<testing::MemoryTransport>(std::move(answers), clock)) {}

    std::vector<StreamEvent> read(MessageStream stream) const {
        return testing::run_advancing(*clock, read_all(std::move(stream)));
    }

    std::shared_ptr<testing::ManualClock> clock = std::make_shared<testing::ManualClock>();
    std::shared_ptr<testing::MemoryTransport> transport;
    std::shared_ptr<const Runtime> runtime = std::make_shared<const Runtime>(
        Runtime().with_clock(clock).with_transport(transport).with_ids(
            std::make_shared<testing::SequentialIds>()));
};

}  // namespace cubepi
