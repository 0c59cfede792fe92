#include <cubepi/provider/wire/response_reader.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi::detail {

namespace {

constexpr std::size_t max_document = SseLimits().max_event;

/// The time that a complete response waits for the end of its body, without which its HTTP/1.1 connection could not be
/// used again.
constexpr std::chrono::milliseconds drain_limit(50);

/// Bytes that are received before the event loop runs. A read of fewer than `min_read` bytes counts as `min_read`.
constexpr std::size_t yield_interval = 256 * 1024;
constexpr std::size_t min_read = 512;

}  // namespace

void throw_html_page() {
    throw Error(ErrorCode::protocol,
                "the server returned an HTML page instead of an API response; check the base URL");
}

void ResponseReader::start(std::unique_ptr<WireDecoder> decoder, std::unique_ptr<HttpBody> body) {
    form_ = Form::unknown;
    decoder_ = std::move(decoder);
    sse_ = SseDecoder();
    document_.clear();
    body_ = std::move(body);
}

bool ResponseReader::decode_received() {
    SseEvent event;
    while (queue_.empty()) {
        if (!sse_.next(event)) return false;
        decoder_->decode(event.event, event.data, queue_);
        if (decoder_->over()) return true;
    }
    return true;
}

bool ResponseReader::receive_available() {
    if (form_ == Form::document || must_yield()) return false;
    std::string& into = buffer();
    const std::size_t before = into.size();
    if (!body_->read_ready(into)) return false;
    count_bytes(before);
    detect_form();
    return true;
}

Task<bool> ResponseReader::receive() {
    std::string& into = buffer();
    size_before_read_ = into.size();
    return body_->read(into);
}

void ResponseReader::received() {
    count_bytes(size_before_read_);
    detect_form();
}

void ResponseReader::decode_rest() {
    if (form_ == Form::document) {
        decode_document();
        return;
    }
    SseEvent last;
    if (sse_.finish(last)) decoder_->decode(last.event, last.data, queue_);
}

void ResponseReader::decode_document() {
    decoder_->decode({}, document_, queue_);
    if (decoder_->complete() || assembler_.has_content()) return;
    // Any JSON that is not a completion is treated as an error response.
    JsonTextError ignored;
    throw StreamFailure(read_stream_failure(parse_json(document_, ignored)));
}

Task<> ResponseReader::drain(Clock& clock) {
    try {
        std::string rest;
        Task<bool> end = body_->read(rest);
        co_await with_timeout(clock, drain_limit, std::move(end), "linger");
    } catch (...) {
        // The message is complete, however the body ends.
    }
}

/// Detects the form from the first non-whitespace byte. `Content-Type` is unreliable: some proxies label every response
/// as JSON, and some servers send the JSON of an error, or an HTML page, as an event stream.
void ResponseReader::detect_form() {
    if (form_ == Form::document && document_.size() > max_document) {
        throw Error(ErrorCode::too_large, "the answer is one text of more than " +
                                              std::to_string(max_document) + " bytes");
    }
    if (form_ != Form::unknown) return;
    std::string& body = sse_.buffer();
    constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
    if (byte_order_mark.starts_with(body)) return;
    const std::size_t mark = body.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;
    const std::size_t first = body.find_first_not_of(" \t\r\n", mark);
    if (first == std::string::npos) return;
    if (body[first] == '<') throw_html_page();
    form_ = body[first] == '{' || body[first] == '[' ? Form::document : Form::events;
    if (form_ != Form::document) return;
    document_ = body.substr(first);
    sse_ = SseDecoder();
}

void ResponseReader::count_bytes(std::size_t before) {
    bytes_since_yield_ += std::max(buffer().size() - before, min_read);
}

bool ResponseReader::must_yield() const noexcept { return bytes_since_yield_ >= yield_interval; }

}  // namespace cubepi::detail
