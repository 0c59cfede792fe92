#include <cubepi/agent/run/answer_reader.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>

namespace cubepi::detail {

Task<std::optional<Message>> AnswerReader::read(MessageStream stream, bool is_own_request) {
    std::optional<Message> final_message;
    for (;;) {
        std::optional<StreamEvent> event = stream.ready();
        if (!event && !stream.finished()) {
            core_.time_passes();
            event = co_await wait_event(stream, is_own_request);
        }
        if (event && event->is_terminal()) {
            final_message.emplace(std::move(event->partial).message());
            StreamAccess::drop_result(stream);
            co_return final_message;
        }
        if (core_.stopped()) co_return final_message;
        if (!event) {
            // A hook around the call has consumed the events, including the last one.
            final_message.emplace(StreamAccess::final_message(stream).message());
            StreamAccess::drop_result(stream);
            co_return final_message;
        }
        MaybeTask<> delivery = pass_on(std::move(*event));
        if (delivery.is_pending()) co_await std::move(delivery).task();
    }
}

/// Waits for the next event; empty if an abort ended the wait and the provider sent no final event.
Task<std::optional<StreamEvent>> AnswerReader::wait_event(MessageStream& stream,
                                                          bool is_own_request) {
    Task<std::optional<StreamEvent>> next = stream.next();
    if (!is_own_request || !stream.honors_stop_token()) {
        next = cancel_on(core_.stop_token(), std::move(next));
    }
    Outcome<std::optional<StreamEvent>> outcome = co_await outcome_of(std::move(next));
    if (outcome.cancelled() && core_.stopped()) co_return stream.ready();
    std::optional<StreamEvent> event = std::move(outcome).value();
    if (!event)
        throw Error(ErrorCode::protocol, "the provider's stream ended without done or error");
    co_return event;
}

/// Delivers an event that does not end the answer to the listeners.
MaybeTask<> AnswerReader::pass_on(StreamEvent&& event) {
    if (event.type == StreamEventType::notice) return core_.notice(*event.notice);
    if (event.type != StreamEventType::start) {
        note_blocks(event);
        return core_.deliver_update(std::move(event));
    }
    started_ = true;
    MessageStartEvent start;
    start.message = event.partial.message();
    core_.state().streaming_message = event.partial;
    return core_.deliver(std::move(start));
}

void AnswerReader::note_blocks(const StreamEvent& event) {
    if (event.type == StreamEventType::toolcall_start) {
        open_calls_.push_back(event.content_index);
    } else if (event.type == StreamEventType::toolcall_end) {
        std::erase(open_calls_, event.content_index);
    }
}

AssistantMessage AnswerReader::so_far() const {
    AssistantMessage message = core_.state().streaming_message.get();
    std::vector<std::int32_t> open = open_calls_;
    std::sort(open.rbegin(), open.rend());
    for (const std::int32_t index : open) {
        message.content.erase(message.content.begin() + index);
    }
    return message;
}

}  // namespace cubepi::detail
