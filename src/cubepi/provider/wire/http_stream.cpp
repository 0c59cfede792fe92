#include <cubepi/provider/wire/http_stream.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/core/async/post.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/net/http_client.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/provider/wire/user_hook.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi::detail {

namespace {

constexpr std::size_t longest_error_body = 64 * 1024;
/// How long the text of a refusal is waited for: the status alone says enough.
constexpr std::chrono::seconds error_body_limit(10);
constexpr std::size_t longest_whole_body = SseLimits().max_event;

/// How long an answer that is complete waits for the end of its body, without which its HTTP/1.1 connection could not
/// be used again.
constexpr std::chrono::milliseconds linger_limit(50);

/// Bytes of a body that are decoded before the event loop gets a turn, and what a read of fewer bytes counts. A server may send faster than this source decodes; timers,
/// signals and aborts on the same loop must run all the same.
constexpr std::size_t yield_interval = 256 * 1024;
constexpr std::size_t smallest_read = 512;

AssistantMessage head_of(const ModelRequest& request) {
    AssistantMessage head;
    head.id = request.options.message_id();
    head.provider_id = shared_name(request.model.provider_id);
    head.model_id = shared_name(request.model.id);
    return head;
}

[[noreturn]] void throw_web_page() {
    throw Error(ErrorCode::protocol,
                "the answer is a web page, not an API's: is the base URL right?");
}

}  // namespace

HttpStreamSource::HttpStreamSource(ModelRequest request,
                                   std::shared_ptr<const WireProtocol> protocol,
                                   std::shared_ptr<ObserverRegistry> observers)
    : request_(std::move(request)),
      protocol_(std::move(protocol)),
      observers_(std::move(observers)),
      runtime_(request_.options.runtime()),
      assembler_(head_of(request_), request_.options.max_answer_bytes()) {}

HttpStreamSource::~HttpStreamSource() { close(); }

bool HttpStreamSource::stopped() const noexcept {
    return cancelled_ || request_.options.stop_token().stop_requested();
}

void HttpStreamSource::close() {
    if (gap_timer_) gap_timer_->cancel();
    gap_armed_ = false;
    on_stop_.reset();
    if (stop_link_) stop_link_->source = nullptr;
    stop_link_.reset();
    body_.reset();
}

std::optional<StreamEvent> HttpStreamSource::ready() {
    while (queue_.empty()) {
        if (phase_ == Phase::over || failure_) return std::nullopt;
        if (stopped()) {
            // A complete answer beats a late abort.
            if (phase_ == Phase::ending)
                finish_answer();
            else
                end_aborted();
            break;
        }
        if (phase_ != Phase::streaming) return std::nullopt;
        try {
            if (decode_buffered()) continue;
            if (form_ == Form::whole || !read_available()) return std::nullopt;
            recognise_body();
        } catch (...) {
            fail(std::current_exception());
        }
    }
    // From here on the consumer is busy, and the endpoint not to blame.
    silent_since_.reset();
    return queue_.pop();
}

Task<StreamEvent> HttpStreamSource::next() {
    for (;;) {
        std::optional<StreamEvent> event = ready();
        if (event) co_return std::move(*event);
        if (failure_) {
            settle_failure();
            continue;
        }
        co_await guarded_step();
    }
}

/// Decodes what has arrived until there is an event. False: more bytes are needed.
bool HttpStreamSource::decode_buffered() {
    SseEvent event;
    while (queue_.empty()) {
        if (!sse_.next(event)) return false;
        decode(event.event, event.data);
        if (!decoder_->over()) continue;
        if (decoder_->complete()) {
            phase_ = Phase::ending;
        } else {
            finish_answer();
        }
        return true;
    }
    return true;
}

void HttpStreamSource::finish_answer() {
    decoder_->finish(queue_);
    phase_ = Phase::over;
    close();
}

Task<> HttpStreamSource::linger() {
    try {
        std::string rest;
        Task<bool> end = body_->read(rest);
        co_await with_timeout(*runtime_->clock, linger_limit, std::move(end), "linger");
    } catch (...) {
        // Whether the body ends well does not matter any more.
    }
    const auto state = co_await this_cancellation;
    if (state.cancelled() == boost::asio::cancellation_type::none) finish_answer();
}

void HttpStreamSource::decode(std::string_view event, std::string_view data) {
    decoder_->decode(event, data, queue_);
    // `start` alone is no content: an endpoint that sends empty chunks for ever is silent all the same.
    if (assembler_.has_content() && !queue_.empty()) silence_ = {};
}

void HttpStreamSource::renew_stop() {
    link_.reset();
    stop_ = std::stop_source();
    const std::stop_token& token = request_.options.stop_token();
    if (!token.stop_possible()) return;
    link_.emplace(token, [source = stop_]() mutable { source.request_stop(); });
}

/// One step, which an abort or the idle timeout ends at once.
Task<> HttpStreamSource::guarded_step() {
    if (phase_ == Phase::idle || phase_ == Phase::waiting) renew_stop();
    std::exception_ptr failure;
    try {
        if (phase_ == Phase::streaming && body_->interruptible()) {
            co_await read_interruptibly();
        } else {
            Task<> one = step();
            std::stop_token token = stop_.get_token();
            co_await cancel_on(std::move(token), std::move(one));
        }
    } catch (...) {
        failure = std::current_exception();
    }
    reading_ = false;
    if (!failure) co_return;
    if (!is_cancellation(failure)) {
        fail(std::move(failure));
        co_return;
    }
    close();
    if (stopped()) co_return;
    if (gap_fired_) {
        fail(std::make_exception_ptr(idle_timeout_error()));
        co_return;
    }
    cancelled_ = true;
    std::rethrow_exception(failure);
}

Task<> HttpStreamSource::step() {
    if (phase_ == Phase::waiting) {
        co_await runtime_->clock->sleep_for(delay_);
        phase_ = Phase::idle;
    }
    if (phase_ == Phase::idle) {
        if (!prepared_) co_await prepare();
        co_await attempt();
    } else if (phase_ == Phase::ending) {
        co_await linger();
    } else {
        co_await read_more();
    }
}

Task<> HttpStreamSource::prepare() {
    const auto wall = runtime_->clock->wall().time_since_epoch();
    assembler_.head().timestamp = std::chrono::duration<double>(wall).count();
    WireProtocol::Built built = protocol_->build(request_);
    for (Notice& notice : built.notices) queue_.push(MessageAssembler::notice(std::move(notice)));
    JsonObject body = std::move(built.body);
    if (request_.options.on_payload()) {
        Task<std::optional<JsonObject>> hook =
            call_user_hook("on_payload", request_.options.on_payload(), body, request_.model);
        std::optional<JsonObject> changed = co_await std::move(hook);
        if (changed) body = std::move(*changed);
    }
    protocol_->finish_body(body);
    if (observers_) {
        Task<std::vector<Notice>> told = observe_request(observers_, body, request_.model);
        std::vector<Notice> notices = co_await std::move(told);
        for (Notice& notice : notices) queue_.push(MessageAssembler::notice(std::move(notice)));
    }
    body_text_ = boost::json::serialize(body);
    if (!is_utf8(body_text_)) {
        // What a tool or a caller gave as text. A server refuses it, in this request and in every one after it.
        body_text_ = replace_broken_utf8(body_text_);
        Notice notice;
        notice.code = "request_changed";
        notice.text = "The request had text that is no UTF-8; its broken bytes went out as U+FFFD.";
        queue_.push(MessageAssembler::notice(std::move(notice)));
    }
    prepared_ = true;
}

Task<> HttpStreamSource::attempt() {
    HttpRequest http = protocol_->http_request();
    http.body = body_text_;
    http.timeouts = protocol_->timeouts().http;
    if (http.timeouts.total.count() > 0) {
        const auto now = runtime_->clock->now();
        if (!deadline_) deadline_ = deadline_after(now, http.timeouts.total);
        http.timeouts.total = std::max(*deadline_ - now, std::chrono::nanoseconds(1));
    }
    const std::shared_ptr<HttpTransport> transport = transport_of(*runtime_);
    Task<HttpResponse> sent = transport->send(std::move(http));
    HttpResponse response = co_await std::move(sent);
    if (request_.options.on_response()) {
        ProviderResponse seen;
        seen.status = response.status;
        for (const HttpHeader& header : response.headers)
            seen.headers.emplace_back(header.name, header.value);
        Task<> hook = call_user_hook("on_response", request_.options.on_response(), std::move(seen),
                                     request_.model);
        co_await std::move(hook);
    }
    if (response.status < 200 || response.status >= 300) {
        co_await refused(std::move(response));
        co_return;
    }
    if (response.headers.get("content-type").starts_with("text/html")) throw_web_page();
    form_ = Form::unknown;
    decoder_ = protocol_->decoder(assembler_, *runtime_->ids);
    sse_ = SseDecoder();
    whole_body_.clear();
    body_ = std::move(response.body);
    silence_ = {};
    silent_since_.reset();
    gap_fired_ = false;
    phase_ = Phase::streaming;
}

/// An answer with an error status.
Task<> HttpStreamSource::refused(HttpResponse response) {
    // Before it is cut to a length: half a key is no key that could be found.
    Task<std::string> reading = read_error_body(std::move(response.body));
    std::string text = co_await std::move(reading);
    text = protocol_->without_secrets(std::move(text));
    Failure failure;
    if (const std::string* location = response.headers.find("location"))
        response.headers.set("location", protocol_->without_secrets(*location));
    failure.endpoint = read_endpoint_failure(response.status, response.headers, text);
    failure.hints = read_retry_hints(response.headers, runtime_->clock->wall());
    failure_ = std::move(failure);
}

/// As much of it as comes.
Task<std::string> HttpStreamSource::read_error_body(std::unique_ptr<HttpBody> body) {
    std::string text;
    std::exception_ptr broken;
    const auto began = runtime_->clock->now();
    try {
        bool more = true;
        while (more && text.size() < longest_error_body) {
            const auto left = error_body_limit - (runtime_->clock->now() - began);
            if (left.count() <= 0) break;
            Task<bool> piece = body->read(text);
            more = co_await with_timeout(*runtime_->clock, left, std::move(piece), "error_body");
        }
    } catch (...) {
        broken = std::current_exception();
    }
    if (broken && is_cancellation(broken)) std::rethrow_exception(broken);
    co_return text;
}

/// Takes the bytes that have arrived. False if there are none, or if it is time to yield to the event loop, which read_more() does.
bool HttpStreamSource::read_available() {
    if (bytes_since_yield_ >= yield_interval) return false;
    std::string& into = buffer();
    const std::size_t before = into.size();
    if (!body_->read_ready(into)) return false;
    bytes_since_yield_ += std::max(into.size() - before, smallest_read);
    return true;
}

TimeoutError HttpStreamSource::idle_timeout_error() const {
    const std::string limit = seconds_text(protocol_->timeouts().idle);
    return TimeoutError("idle", "no data received for " + limit + " (idle timeout)");
}

/// Bytes that hold nothing are silence, also when they come without a pause, so that no timer of a read could fire.
void HttpStreamSource::count_silence() {
    const auto now = runtime_->clock->now();
    if (silent_since_) silence_ += now - *silent_since_;
    silent_since_ = now;
    const std::chrono::nanoseconds limit = protocol_->timeouts().idle;
    if (limit.count() > 0 && silence_ >= limit) throw idle_timeout_error();
}

Task<> HttpStreamSource::read_more() {
    if (bytes_since_yield_ >= yield_interval) {
        bytes_since_yield_ = 0;
        co_await yield_now();
        count_silence();
        co_return;
    }
    count_silence();
    if (!gap_timer_ && protocol_->timeouts().idle.count() > 0) {
        gap_timer_ = runtime_->clock->timer(co_await this_executor);
    }
    reading_ = true;
    arm_gap();
    std::string& into = buffer();
    const std::size_t before = into.size();
    const bool more = co_await body_->read(into);
    bytes_since_yield_ += std::max(into.size() - before, smallest_read);
    reading_ = false;
    recognise_body();
    const auto now = runtime_->clock->now();
    silence_ += now - *silent_since_;
    silent_since_ = now;
    if (!more) at_end_of_body();
}

/// read_more(), which a stop of `stop_` ends. What tells it of the stop is set up once for all reads of the body.
Task<> HttpStreamSource::read_interruptibly() {
    if (!stop_link_) {
        const Executor executor = co_await this_executor;
        stop_link_ = std::make_shared<StopLink>(executor, this);
        on_stop_.emplace(stop_.get_token(), [link = stop_link_] {
            post_to(link->executor, [link] {
                if (link->source) link->source->interrupt();
            });
        });
    }
    co_await read_more();
}

void HttpStreamSource::interrupt() noexcept {
    if (reading_) body_->interrupt();
}

void HttpStreamSource::arm_gap() {
    if (!gap_timer_) return;
    const auto left = std::max(protocol_->timeouts().idle - silence_, std::chrono::nanoseconds(1));
    if (gap_armed_) {
        gap_timer_->postpone(left);
        return;
    }
    gap_armed_ = true;
    gap_timer_->expires_after(left, [this] {
        gap_armed_ = false;
        // While the consumer is busy with the last event, the endpoint is not to blame.
        if (!reading_) return;
        gap_fired_ = true;
        stop_.request_stop();
    });
}

std::string& HttpStreamSource::buffer() {
    return form_ == Form::whole ? whole_body_ : sse_.buffer();
}

/// What a body is says its first sign. Its type does not: there are proxies that call every answer JSON, and servers
/// that put the JSON of an error, or a page, into what they call an event stream.
void HttpStreamSource::recognise_body() {
    if (form_ == Form::whole && whole_body_.size() > longest_whole_body) {
        throw Error(ErrorCode::too_large, "the answer is one text of more than " +
                                              std::to_string(longest_whole_body) + " bytes");
    }
    if (form_ != Form::unknown) return;
    std::string& body = sse_.buffer();
    constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
    if (byte_order_mark.starts_with(body)) return;
    const std::size_t mark = body.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;
    const std::size_t first = body.find_first_not_of(" \t\r\n", mark);
    if (first == std::string::npos) return;
    if (body[first] == '<') throw_web_page();
    form_ = body[first] == '{' || body[first] == '[' ? Form::whole : Form::events;
    if (form_ != Form::whole) return;
    whole_body_ = body.substr(first);
    sse_ = SseDecoder();
}

void HttpStreamSource::at_end_of_body() {
    if (form_ == Form::whole) {
        decode_whole_body();
    } else {
        SseEvent last;
        if (sse_.finish(last)) decode(last.event, last.data);
    }
    finish_answer();
}

void HttpStreamSource::decode_whole_body() {
    decode({}, whole_body_);
    if (decoder_->complete() || assembler_.has_content()) return;
    // JSON that is no answer is a complaint, in whatever form.
    JsonTextError ignored;
    throw StreamFailure(read_stream_failure(parse_json(whole_body_, ignored)));
}

void HttpStreamSource::fail(std::exception_ptr exception) {
    Failure failure;
    failure.exception = std::move(exception);
    try {
        std::rethrow_exception(failure.exception);
    } catch (const StreamFailure& error) {
        failure.endpoint = error.failure();
    } catch (...) {
    }
    failure_ = std::move(failure);
}

void HttpStreamSource::end_aborted() {
    close();
    phase_ = Phase::over;
    if (!assembler_.head().timestamp) {
        const auto wall = runtime_->clock->wall().time_since_epoch();
        assembler_.head().timestamp = std::chrono::duration<double>(wall).count();
    }
    queue_.push(assembler_.aborted());
}

MessageStream http_stream(ModelRequest request, std::shared_ptr<const WireProtocol> protocol,
                          const std::shared_ptr<ObserverRegistry>& observers) {
    if (observers->empty()) {
        return MessageStream(
            std::make_unique<HttpStreamSource>(std::move(request), std::move(protocol), nullptr));
    }
    const Model model = request.model;
    BodyBuilder answer_body = [protocol](const AssistantMessage& message) {
        return protocol->answer_body(message);
    };
    auto source =
        std::make_unique<HttpStreamSource>(std::move(request), std::move(protocol), observers);
    return MessageStream(
        observe_stream(observers, std::move(source), model, std::move(answer_body)));
}

}  // namespace cubepi::detail
