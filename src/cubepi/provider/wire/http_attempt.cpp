#include <cubepi/provider/wire/http_attempt.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/number_text.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/random_word.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/net/curl/request_route.hpp>
#include <cubepi/net/network_error.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/provider/wire/user_hook.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi::detail {

namespace {

RetryDecision decide_by_exception(const RetryPolicy& policy, int retries_done,
                                  const std::exception_ptr& exception, double random) {
    try {
        std::rethrow_exception(exception);
    } catch (const NetworkError& error) {
        return decide_retry(policy, retries_done, error, random);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::disconnected)
            return decide_retry(policy, retries_done, error, random);
        // A response without content, such as a proxy returns when its upstream fails.
        const NetworkError broken(ErrorCode::disconnected, {}, true, error.what());
        return decide_retry(policy, retries_done, broken, random);
    } catch (...) {
        return RetryDecision();
    }
}

/// A rate limit that ends within minutes.
bool is_short_limit(const CallFailure& failure, const ErrorInfo& info) {
    return failure.endpoint && info.code == ErrorCode::rate_limited &&
           !is_lasting_limit(*failure.endpoint);
}

/// The beginning of a text of the endpoint, for a notice. The error of the run has all of it.
std::string beginning_of(std::string text) {
    constexpr std::size_t longest = 120;
    if (text.size() <= longest) return text;
    text.resize(longest);
    text.resize(complete_utf8_prefix(text));
    return text + "...";
}

constexpr std::size_t max_body = 64 * 1024;
/// The status alone is informative enough to stop waiting for the text.
constexpr std::chrono::seconds body_limit(10);

Task<> read_limited(HttpBody& body, Clock& clock, std::string& text) {
    const auto began = clock.now();
    bool more = true;
    while (more && text.size() < max_body) {
        const auto left = body_limit - (clock.now() - began);
        if (left.count() <= 0) break;
        Task<bool> piece = body.read(text);
        more = co_await with_timeout(clock, left, std::move(piece), "error_body");
    }
}

constexpr std::size_t max_document = SseLimits().max_event;

/// The time that a complete response waits for the end of its body, without which its HTTP/1.1 connection could not be
/// used again.
constexpr std::chrono::milliseconds drain_limit(50);

/// The time that a complete answer waits for its usage and the end of its stream, which some servers do not send.
constexpr std::chrono::milliseconds usage_limit(1500);

/// Bytes that are received before the event loop runs. A read of fewer than `min_read` bytes counts as `min_read`.
constexpr std::size_t yield_interval = 256 * 1024;
constexpr std::size_t min_read = 512;

}  // namespace

CallFailure::CallFailure(std::exception_ptr thrown) : exception(std::move(thrown)) {
    try {
        std::rethrow_exception(exception);
    } catch (const StreamFailure& error) {
        endpoint = error.failure();
    } catch (...) {
        // Any other failure has no error of the endpoint.
    }
}

bool CallFailure::limit_reached() const {
    if (!exception) return false;
    try {
        std::rethrow_exception(exception);
    } catch (const LimitReachedError&) {
        return true;
    } catch (...) {
        return false;
    }
}

HttpTimeouts CallAttempts::next_timeouts() {
    HttpTimeouts timeouts = protocol_->endpoint().timeouts().http;
    const auto now = runtime_->clock->now();
    if (!began_) began_ = now;
    if (timeouts.total.count() <= 0) return timeouts;
    if (!deadline_) deadline_ = deadline_after(now, timeouts.total);
    timeouts.total = std::max(*deadline_ - now, std::chrono::nanoseconds(1));
    return timeouts;
}

RetryDecision CallAttempts::decide(const CallFailure& failure, const ErrorInfo& info) {
    // The same conversation would be too long again.
    if (is_hook_error(info) || info.code == ErrorCode::context_length) return RetryDecision();
    RetryDecision decision = decide_by_policy(failure, info);
    if (decision.retry && deadline_ && *deadline_ - runtime_->clock->now() <= decision.delay)
        decision.retry = false;
    return decision;
}

RetryDecision CallAttempts::decide_by_policy(const CallFailure& failure, const ErrorInfo& info) {
    const double random = random_fraction(*runtime_->ids);
    RetryPolicy policy = protocol_->endpoint().retry();
    const int max_retries = policy.max_retries;
    time_limit_ = time_limit(failure, info);
    const bool is_timed = time_limit_.count() > 0;
    if (is_timed) policy.max_retries = std::max(max_retries, retries_done_ + 1);
    RetryDecision decision =
        failure.endpoint ? decide_by_answer(policy, failure, info, random)
                         : decide_by_exception(policy, retries_done_, failure.exception, random);
    if (!is_timed || !decision.retry) return decision;
    // A server that states next to no time does not cause a request at once, again and again.
    decision.delay = std::max(decision.delay, backoff_delay(policy, retries_done_, random));
    const auto now = runtime_->clock->now();
    if (now - began_.value_or(now) + decision.delay > time_limit_ && retries_done_ >= max_retries)
        decision.retry = false;
    return decision;
}

/// Returns the time for which such a failure is retried; 0: max_retries decides.
std::chrono::milliseconds CallAttempts::time_limit(const CallFailure& failure,
                                                   const ErrorInfo& info) const {
    constexpr std::chrono::milliseconds none(0);
    const Endpoint& endpoint = protocol_->endpoint();
    if (endpoint.retry().max_retries <= 0) return none;
    if (is_short_limit(failure, info)) {
        // A server that states the delay in a header is asked as often as after another failure.
        return failure.hints.delay ? none : endpoint.retry().rate_limit_time;
    }
    const bool waits = endpoint.retry().outage_time > none;
    if (info.code == ErrorCode::rate_limited || !waits) return none;
    // A server on this machine that refuses connections does not run, and waiting does not start it.
    if (info.code == ErrorCode::connect && is_this_machine(parse_url(endpoint.shown_url())))
        return none;
    return endpoint.retry().outage_time;
}

RetryDecision CallAttempts::decide_by_answer(const RetryPolicy& policy, const CallFailure& failure,
                                             const ErrorInfo& info, double random) {
    const EndpointFailure& endpoint = *failure.endpoint;
    const bool in_stream = failure.exception != nullptr;
    if (in_stream && !is_transient(info.code)) return RetryDecision();
    RetryHints hints = failure.hints;
    // There are servers that report a rate limit with another status than 429.
    if (is_short_limit(failure, info) && !hints.should_retry) hints.should_retry = true;
    if (!hints.delay && endpoint.retry_after)
        hints.delay = std::chrono::milliseconds(
            static_cast<std::int64_t>(std::ceil(std::min(*endpoint.retry_after, 1e8) * 1000)));
    const int otherwise = info.code == ErrorCode::rate_limited ? 429 : 503;
    RetryDecision decision =
        decide_retry(policy, retries_done_, endpoint.status.value_or(otherwise), hints, random);
    if (decision.retry) decision.reason += ": " + beginning_of(endpoint.message);
    return decision;
}

Notice CallAttempts::start_retry(const RetryDecision& decision, const ErrorInfo& info) {
    ++retries_done_;
    const RetryPolicy& policy = protocol_->endpoint().retry();
    Notice notice;
    notice.code = "retry";
    notice.text = protocol_->endpoint().without_secrets(decision.reason) + "; trying again in " +
                  rounded_seconds_text(decision.delay) + " (" + std::to_string(retries_done_) +
                  (time_limit_.count() > 0 ? ", for at most " + seconds_text(time_limit_)
                                           : " of " + std::to_string(policy.max_retries)) +
                  ")";
    notice.details["attempt"] = retries_done_;
    if (time_limit_.count() <= 0) notice.details["max_retries"] = policy.max_retries;
    notice.details["delay_ms"] = decision.delay.count();
    notice.details["error_type"] = info.type;
    if (info.status_code) notice.details["status_code"] = *info.status_code;
    return notice;
}

std::string CallAttempts::describe(const CallFailure& failure) const {
    std::string message;
    if (failure.endpoint) {
        if (failure.endpoint->status)
            message = "HTTP " + std::to_string(*failure.endpoint->status) + ": ";
        message += failure.endpoint->message;
    } else {
        message = exception_text(failure.exception);
    }
    if (retries_done_ > 0) {
        message += " (after " + std::to_string(retries_done_) +
                   (retries_done_ == 1 ? " retry)" : " retries)");
    }
    return message;
}

Task<CallFailure> read_error_response(HttpResponse response, const WireProtocol& protocol,
                                      const Runtime& runtime) {
    std::string text;
    Task<> reading = read_limited(*response.body, *runtime.clock, text);
    const Outcome<> outcome = co_await outcome_of(std::move(reading));
    if (outcome.cancelled()) outcome.rethrow();
    response.body.reset();
    // Keys are removed before the text is shortened: half a key would not be recognized.
    text = protocol.endpoint().without_secrets(std::move(text));
    if (const std::string* location = response.headers.find("location"))
        response.headers.set("location", protocol.endpoint().without_secrets(*location));
    CallFailure failure;
    failure.hints = read_retry_hints(response.headers, runtime.clock->wall());
    failure.endpoint =
        read_endpoint_failure(response.status, response.headers, text, failure.hints);
    co_return failure;
}

void ResponseReader::start(std::unique_ptr<WireDecoder> decoder, HttpResponse response) {
    if (response.headers.get("content-type").starts_with("text/html"))
        throw_web_page(response.status);
    status_ = response.status;
    form_ = Form::unknown;
    decoder_ = std::move(decoder);
    sse_ = SseDecoder();
    document_.clear();
    body_ = std::move(response.body);
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
    if (body[first] == '<') throw_web_page(status_);
    form_ = body[first] == '{' || body[first] == '[' ? Form::document : Form::events;
    if (form_ != Form::document) return;
    document_ = body.substr(first);
    sse_ = SseDecoder();
}

void ResponseReader::count_bytes(std::size_t before) {
    bytes_since_yield_ += std::max(buffer().size() - before, min_read);
}

bool ResponseReader::must_yield() const noexcept { return bytes_since_yield_ >= yield_interval; }

IdleTimer::IdleTimer(std::shared_ptr<const Runtime> runtime, std::chrono::nanoseconds limit,
                     std::function<void()> expired)
    : runtime_(std::move(runtime)), limit_(limit), expired_(std::move(expired)) {}

void IdleTimer::restart() noexcept {
    content_received();
    counted_until_.reset();
}

void IdleTimer::answer_complete() noexcept {
    if (std::exchange(answer_complete_, true)) return;
    if (limit_.count() <= 0 || limit_ > usage_limit) limit_ = usage_limit;
    content_received();
    cancel();
}

void IdleTimer::count() {
    const auto now = runtime_->clock->now();
    if (counted_until_) silence_ += now - *counted_until_;
    counted_until_ = now;
}

void IdleTimer::check() {
    count();
    if (limit_.count() > 0 && silence_ >= limit_) throw error();
}

void IdleTimer::prepare(const Executor& executor) { timer_ = runtime_->clock->timer(executor); }

void IdleTimer::arm() {
    if (!timer_) return;
    const auto left = std::max(limit_ - silence_, std::chrono::nanoseconds(1));
    if (armed_) {
        timer_->postpone(left);
        return;
    }
    armed_ = true;
    timer_->expires_after(left, [this] {
        armed_ = false;
        expired_();
    });
}

void IdleTimer::cancel() noexcept {
    if (timer_) timer_->cancel();
    armed_ = false;
}

TimeoutError IdleTimer::error() const {
    const std::string what = data_received_
                                 ? "only keep-alives or events without content received for "
                                 : "no data received for ";
    return TimeoutError("idle", what + seconds_text(limit_) + " " + std::string(idle_timeout_mark));
}

}  // namespace cubepi::detail
