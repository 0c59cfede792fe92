#pragma once

#include <memory>
#include <optional>

#include <cubepi/core/stream_event.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi {

namespace detail {
struct StreamAccess;
}

/// The producing side of a model's answer: what a provider implements. Used by one consumer, on one
/// executor. Destroying it ends the call at once.
class StreamSource {
public:
    virtual ~StreamSource() = default;
    /// Waits for the next event. Failures are events, not exceptions; only cancellation of the awaiting
    /// coroutine throws, and the call may then be awaited again. Not called after a terminal event.
    /// (MessageStream turns an exception into an `error` event, without the content so far.)
    virtual Task<StreamEvent> next() = 0;
    /// The next event when it is there already, without waiting. Saves a coroutine per event.
    virtual std::optional<StreamEvent> ready() { return std::nullopt; }
    /// True: when the request's stop token is stopped, next() ends by itself with a terminal event, at once and in every
    /// phase of the call. Saves whoever awaits it a coroutine per wait that he could cancel.
    virtual bool honors_stop_token() const noexcept { return false; }
};

/// One answer of a model, pulled event by event. Failures come in band, as an `error` event and a message
/// with stop reason "error" or "aborted". Dropping the stream ends the call.
class MessageStream {
public:
    explicit MessageStream(std::unique_ptr<StreamSource> source) : source_(std::move(source)) {}

    /// The next event; empty after the terminal one, however often it is called.
    Task<std::optional<StreamEvent>> next();
    /// The next event when it is there already. Empty means: nothing yet, the end (see finished()), or that so many events were
    /// taken in a row that it is the turn of the event loop: next() lets it run.
    std::optional<StreamEvent> ready();
    /// See StreamSource.
    bool honors_stop_token() const noexcept { return source_ && source_->honors_stop_token(); }
    /// True after the terminal event was taken.
    bool finished() const noexcept { return finished_; }
    /// The final message. Takes the rest of the stream when it was not read to its end.
    Task<AssistantMessage> result();

private:
    friend struct detail::StreamAccess;
    /// Events that are taken before the event loop gets a turn, when the source always has the next one ready. Timers, signals
    /// and aborts of the same loop must run all the same.
    static constexpr unsigned yield_interval = 1024;
    void note(const StreamEvent& event);

    std::unique_ptr<StreamSource> source_;
    PartialMessage final_;
    bool finished_ = false;
    unsigned events_since_yield_ = 0;
};

namespace detail {
struct StreamAccess {
    /// Of a finished stream: the final message.
    static const PartialMessage& final_message(const MessageStream& stream) noexcept {
        return stream.final_;
    }
    /// For who took the terminal event and will not ask for result(): lets go of the final message.
    static void drop_result(MessageStream& stream) noexcept { stream.final_ = PartialMessage(); }
};
}  // namespace detail

}  // namespace cubepi
