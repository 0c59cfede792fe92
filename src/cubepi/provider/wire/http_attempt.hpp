#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/net/retry.hpp>
#include <cubepi/net/sse_decoder.hpp>
#include <cubepi/provider/error_classification.hpp>
#include <cubepi/provider/message_assembler.hpp>
#include <cubepi/provider/wire/wire_protocol.hpp>

// The parts of a call over HTTP (http_stream.cpp): its attempts and their failures, the reading of a response, the idle timeout.

namespace cubepi::detail {

/// A failed attempt of a call: an exception, an error reported by the endpoint, or both.
struct CallFailure {
    std::exception_ptr exception = {};
    std::optional<EndpointFailure> endpoint = {};
    RetryHints hints = {};

    CallFailure() = default;
    explicit CallFailure(std::exception_ptr thrown);

    /// The attempt reached a limit of the caller, such as the maximum size of an answer.
    bool limit_reached() const;
};

/// The attempts of one call (D15): decides about retries and enforces the deadline of the whole call.
class CallAttempts {
public:
    CallAttempts(std::shared_ptr<const WireProtocol> protocol,
                 std::shared_ptr<const Runtime> runtime)
        : protocol_(std::move(protocol)), runtime_(std::move(runtime)) {}

    /// Returns the timeouts of the next attempt. The first call starts the deadline.
    HttpTimeouts next_timeouts();
    /// Decides whether to retry, for an attempt without content.
    RetryDecision decide(const CallFailure& failure, const ErrorInfo& info);
    /// Counts a retry. Returns the notice about it.
    Notice start_retry(const RetryDecision& decision, const ErrorInfo& info);
    /// Describes the final failure, with the number of retries.
    std::string describe(const CallFailure& failure) const;

private:
    RetryDecision decide_by_policy(const CallFailure& failure, const ErrorInfo& info);
    std::chrono::milliseconds time_limit(const CallFailure& failure, const ErrorInfo& info) const;
    RetryDecision decide_by_answer(const RetryPolicy& policy, const CallFailure& failure,
                                   const ErrorInfo& info, double random);

    std::shared_ptr<const WireProtocol> protocol_;
    std::shared_ptr<const Runtime> runtime_;
    std::optional<Clock::time_point> began_;
    std::optional<Clock::time_point> deadline_;  ///< absent: no limit
    int retries_done_ = 0;
    std::chrono::milliseconds time_limit_{0};  ///< of the last retry; 0: max_retries decided
};

/// Reads a response with an error status, as much of its body as arrives within limits of size and time. The
/// references must outlive the task.
Task<CallFailure> read_error_response(HttpResponse response, const WireProtocol& protocol,
                                      const Runtime& runtime);

/// Moves the bytes of one response body to its decoder, as server-sent events or as one JSON document. Does not wait;
/// the caller awaits the reads that it starts, because a coroutine per read would be measurable.
class ResponseReader {
public:
    /// Decoded events go to `queue`. Both references must outlive the reader.
    ResponseReader(const MessageAssembler& assembler, EventQueue& queue)
        : assembler_(assembler), queue_(queue) {}

    /// Begins to read the body of `response`.
    void start(std::unique_ptr<WireDecoder> decoder, HttpResponse response);
    /// Closes the exchange if the body was not read to its end. The decoder remains.
    void close() noexcept { body_.reset(); }
    /// Discards what was decoded, before another attempt.
    void discard() noexcept { decoder_.reset(); }

    /// Decodes received bytes until there is an event in the queue or the response is over(). Returns false if it
    /// needs more bytes.
    bool decode_received();
    /// Receives the bytes that have already arrived. Returns false if there are none, if the body is one document, or
    /// if must_yield().
    bool receive_available();
    /// Starts a read, which returns false at the end of the body. Call received() when it has returned.
    Task<bool> receive();
    void received();
    /// Decodes what remains at the end of the body.
    void decode_rest();
    /// Waits for the end of the body of a complete response, for a short time.
    Task<> drain(Clock& clock);

    /// The event loop must run before more bytes are received. A server may send faster than the decoder works; timers,
    /// signals and aborts of the same loop must still be served.
    bool must_yield() const noexcept;
    void yielded() noexcept { bytes_since_yield_ = 0; }

    /// The response has all that the message needs.
    bool complete() const noexcept { return decoder_ && decoder_->complete(); }
    /// The endpoint declared that nothing follows.
    bool over() const noexcept { return decoder_->over(); }
    /// Queues the terminal event. Throws Error(disconnected) if the response is not complete.
    void finish() { decoder_->finish(queue_); }

    bool interruptible() const noexcept { return body_->interruptible(); }
    void interrupt() noexcept { body_->interrupt(); }

private:
    enum class Form : std::uint8_t { unknown, events, document };

    std::string& buffer() { return form_ == Form::document ? document_ : sse_.buffer(); }
    void detect_form();
    void decode_document();
    void count_bytes(std::size_t before);

    const MessageAssembler& assembler_;
    EventQueue& queue_;
    std::unique_ptr<WireDecoder> decoder_;
    int status_ = 0;
    std::unique_ptr<HttpBody> body_;
    SseDecoder sse_;
    std::string document_;
    std::size_t size_before_read_ = 0;
    std::size_t bytes_since_yield_ = 0;
    Form form_ = Form::unknown;
};

/// The idle timeout of a response (D16): the time without content while the consumer waits for it. Bytes without
/// content do not restart it, and the time that the consumer spends on an event does not count. A complete answer whose stream does
/// not end waits for a shorter time, because only its usage may follow.
///
/// Two mechanisms enforce it: check(), for bytes that arrive without a pause, and a timer, for a read that waits.
class IdleTimer {
public:
    /// A `limit` of zero disables the timeout. `expired` is called on the executor of prepare() when the timer expires.
    IdleTimer(std::shared_ptr<const Runtime> runtime, std::chrono::nanoseconds limit,
              std::function<void()> expired);

    /// Starts a new response, paused.
    void restart() noexcept;
    /// Restarts the count: content was decoded.
    void content_received() noexcept {
        silence_ = {};
        data_received_ = false;
    }
    /// The answer is complete: shortens the limit.
    void answer_complete() noexcept;
    /// Stops the count until the next count() or check().
    void pause() noexcept { counted_until_.reset(); }
    /// Adds the time since the last call. The first call after a pause only starts the count.
    void count();
    /// Bytes were received, for the text of error().
    void data_received() noexcept { data_received_ = true; }
    /// Counts; throws error() if the limit is reached.
    void check();

    /// Creates the timer on first use.
    void prepare(const Executor& executor);
    bool needs_prepare() const noexcept { return !timer_ && limit_.count() > 0; }
    /// Lets the timer expire when the limit would be reached without content.
    void arm();
    void cancel() noexcept;

    TimeoutError error() const;

private:
    std::shared_ptr<const Runtime> runtime_;
    std::chrono::nanoseconds limit_;
    std::function<void()> expired_;
    std::unique_ptr<ClockTimer> timer_;
    std::chrono::nanoseconds silence_{0};             ///< counted since the last content
    std::optional<Clock::time_point> counted_until_;  ///< absent: paused
    bool data_received_ = false;                      ///< since the last content
    bool answer_complete_ = false;
    bool armed_ = false;
};

}  // namespace cubepi::detail
