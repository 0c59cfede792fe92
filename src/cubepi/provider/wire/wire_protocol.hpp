#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/ids.hpp>
#include <cubepi/net/retry.hpp>
#include <cubepi/provider/error_classification.hpp>
#include <cubepi/provider/message_assembler.hpp>
#include <cubepi/provider/model_profile.hpp>
#include <cubepi/provider/provider.hpp>
#include <cubepi/provider/request_signer.hpp>

// The specific parts of a wire format: building requests and decoding answers. Neither does I/O; HttpStreamSource
// transfers the bytes, waits, retries and aborts for all formats.

namespace cubepi::detail {

/// Queue of events from a decoder to the consumer. Reuses its memory.
class EventQueue {
public:
    bool empty() const noexcept { return next_ == events_.size(); }
    std::size_t size() const noexcept { return events_.size() - next_; }
    void push(StreamEvent event) { events_.push_back(std::move(event)); }
    StreamEvent pop() {
        StreamEvent event = std::move(events_[next_++]);
        if (next_ == events_.size()) {
            events_.clear();
            next_ = 0;
        }
        return event;
    }

private:
    std::vector<StreamEvent> events_;
    std::size_t next_ = 0;
};

/// An error that the endpoint reported inside a stream.
class StreamFailure : public Error {
public:
    explicit StreamFailure(EndpointFailure failure)
        : Error(ErrorCode::provider, failure.message), failure_(std::move(failure)) {}
    const EndpointFailure& failure() const noexcept { return failure_; }

private:
    EndpointFailure failure_;
};

/// Reads one answer. Feeds the assembler, whose events go to the queue.
class WireDecoder {
public:
    virtual ~WireDecoder() = default;
    /// Decodes one server-sent event, or the whole body of a response that is not an event stream. Throws
    /// StreamFailure for an error in it, Error(protocol) for data that cannot be read.
    virtual void decode(std::string_view event, std::string_view data, EventQueue& out) = 0;
    /// True if the answer is complete: failures of the connection no longer matter.
    virtual bool complete() const noexcept = 0;
    /// True if the endpoint declared that nothing follows.
    virtual bool over() const noexcept = 0;
    /// Queues the terminal event. Throws Error(disconnected) if the answer is not complete.
    virtual void finish(EventQueue& out) = 0;
};

/// The timeouts of a call (D16). Zero: off.
struct CallTimeouts {
    HttpTimeouts http{};
    std::chrono::nanoseconds idle = std::chrono::seconds(120);  ///< between events with content
};

/// The timeouts in the options of a provider.
template <class Options>
CallTimeouts timeouts_of(const Options& options) {
    CallTimeouts timeouts;
    timeouts.http.connect = options.connect_timeout;
    timeouts.http.first_byte = options.first_byte_timeout;
    timeouts.http.total = options.total_timeout;
    timeouts.idle = options.idle_timeout;
    return timeouts;
}

/// One endpoint in one wire format. Immutable, shared by its calls on any thread.
class WireProtocol {
public:
    struct Built {
        JsonObject body = {};
        std::vector<Notice> notices = {};
    };

    virtual ~WireProtocol() = default;
    /// Builds the request body before the caller's hooks run. Throws Error for an invalid request.
    virtual Built build(const ModelRequest& request) const = 0;
    /// Final changes of the body, after the hooks.
    virtual void finish_body(JsonObject&) const {}
    /// Called if the endpoint rejected the request before any content. Returns the text of a notice if the next
    /// build() returns a different body to try, else an empty string. Must be empty after finitely many calls.
    virtual std::string build_differently(const EndpointFailure&) const { return {}; }
    /// Method, URL, headers; the caller sets body and timeouts. Throws ProviderError if there is no key.
    virtual HttpRequest http_request() const = 0;
    virtual std::unique_ptr<WireDecoder> decoder(MessageAssembler& assembler,
                                                 IdSource& ids) const = 0;
    /// The unstreamed form of an answer, for observers.
    virtual JsonObject answer_body(const AssistantMessage& message) const = 0;
    virtual const std::string& base_url() const noexcept = 0;
    virtual const RetryPolicy& retry() const noexcept = 0;
    /// Completes each request; may be empty.
    virtual const RequestSigner& signer() const noexcept = 0;
    virtual const CallTimeouts& timeouts() const noexcept = 0;
    /// `text` without the endpoint's keys (D58).
    virtual std::string without_secrets(std::string text) const = 0;
};

/// Returns the request that a call would send.
inline PayloadPreview preview_of(const WireProtocol& protocol, const ModelRequest& request) {
    WireProtocol::Built built = protocol.build(request);
    protocol.finish_body(built.body);
    PayloadPreview preview;
    preview.payload = std::move(built.body);
    preview.notices = std::move(built.notices);
    return preview;
}

}  // namespace cubepi::detail
