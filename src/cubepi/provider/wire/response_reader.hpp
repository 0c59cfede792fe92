#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/http_transport.hpp>
#include <cubepi/net/sse_decoder.hpp>
#include <cubepi/provider/message_assembler.hpp>
#include <cubepi/provider/wire/wire_protocol.hpp>

namespace cubepi::detail {

/// Throws Error(protocol): the server returned an HTML page.
[[noreturn]] void throw_html_page();

/// Moves the bytes of one response body to its decoder, as server-sent events or as one JSON document. Does not wait;
/// the caller awaits the reads that it starts, because a coroutine per read would be measurable.
class ResponseReader {
public:
    /// Decoded events go to `queue`. Both references must outlive the reader.
    ResponseReader(const MessageAssembler& assembler, EventQueue& queue)
        : assembler_(assembler), queue_(queue) {}

    void start(std::unique_ptr<WireDecoder> decoder, std::unique_ptr<HttpBody> body);
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
    std::unique_ptr<HttpBody> body_;
    SseDecoder sse_;
    std::string document_;
    std::size_t size_before_read_ = 0;
    std::size_t bytes_since_yield_ = 0;
    Form form_ = Form::unknown;
};

}  // namespace cubepi::detail
