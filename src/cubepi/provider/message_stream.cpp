#include <cubepi/provider/message_stream.hpp>

#include <exception>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/provider/message_assembler.hpp>

namespace cubepi {

void MessageStream::note(const StreamEvent& event) {
    ++events_since_yield_;
    if (!event.is_terminal()) return;
    final_ = event.partial;
    finished_ = true;
}

std::optional<StreamEvent> MessageStream::ready() {
    if (finished_ || !source_ || events_since_yield_ >= yield_interval) return std::nullopt;
    std::optional<StreamEvent> event = source_->ready();
    if (event) note(*event);
    return event;
}

Task<std::optional<StreamEvent>> MessageStream::next() {
    if (events_since_yield_ >= yield_interval) {
        events_since_yield_ = 0;
        co_await yield_now();
    }
    std::optional<StreamEvent> event = ready();
    if (event || finished_ || !source_) co_return event;
    std::exception_ptr failure;
    try {
        event.emplace(co_await source_->next());
    } catch (...) {
        failure = std::current_exception();
    }
    if (failure) {
        if (is_cancellation(failure)) std::rethrow_exception(failure);
        MessageAssembler assembler{AssistantMessage()};
        event.emplace(assembler.error(failure));
    }
    note(*event);
    co_return event;
}

Task<AssistantMessage> MessageStream::result() {
    while (!finished_) {
        const std::optional<StreamEvent> event = co_await next();
        if (!event) break;
    }
    co_return final_.get();
}

}  // namespace cubepi
