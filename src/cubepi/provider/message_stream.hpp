#pragma once

#include <memory>
#include <optional>

#include <cubepi/core/stream_event.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi {

namespace detail {
struct StreamAccess;
}

/// The producer of a model's answer, implemented by providers. Used by one consumer, on one
/// executor. Destroying it ends the call at once.
class StreamSource {
public:
    virtual ~StreamSource() = default;
    /// Waits for the next event. Failures are events, not exceptions; only cancellation of the awaiting
    /// coroutine throws, and next() may then be called again. Not called after a terminal event.
    /// (MessageStream turns an exception into an `error` event, without the content so far.)
    virtual Task<StreamEvent> next() = 0;
    /// Returns the next event if it is available already. Saves a coroutine per event.
    virtual std::optional<StreamEvent> ready() { return std::nullopt; }
    /// True if next() returns a terminal event by itself, at once and in every phase of the call, when the stop token
    /// of the request is stopped. The caller then needs no cancellable coroutine per wait.
    virtual bool honors_stop_token() const noexcept { return false; }
};

/// One answer of a model, pulled event by event. Failures are reported by an `error` event and a message with stop
/// reason "error" or "aborted". Dropping the stream ends the call.
class MessageStream {
public:
    explicit MessageStream(std::unique_ptr<StreamSource> source) : source_(std::move(source)) {}

    /// Returns the next event; empty after the terminal one, for every further call too.
    Task<std::optional<StreamEvent>> next();
    /// Returns the next event if it is available already. Empty means: no event yet, the end (see finished()), or
    /// that the event loop must run because many events were taken in a row: next() lets it run.
    std::optional<StreamEvent> ready();
    /// See StreamSource.
    bool honors_stop_token() const noexcept { return source_ && source_->honors_stop_token(); }
    /// True after the terminal event was taken.
    bool finished() const noexcept { return finished_; }
    /// Returns the final message. Reads the rest of the stream first.
    Task<AssistantMessage> result();

private:
    friend struct detail::StreamAccess;
    /// Number of events that may be taken in a row before the event loop runs, so that timers, signals and aborts of
    /// the same loop are served if the source always has the next event ready.
    static constexpr unsigned yield_interval = 1024;
    void note(const StreamEvent& event);

    std::unique_ptr<StreamSource> source_;
    PartialMessage final_;
    bool finished_ = false;
    unsigned events_since_yield_ = 0;
};

namespace detail {
struct StreamAccess {
    /// The final message of a finished stream.
    static const PartialMessage& final_message(const MessageStream& stream) noexcept {
        return stream.final_;
    }
    /// Releases the final message, for a caller that took the terminal event and does not call result().
    static void drop_result(MessageStream& stream) noexcept { stream.final_ = PartialMessage(); }
};
}  // namespace detail

}  // namespace cubepi
