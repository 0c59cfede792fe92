#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include <boost/asio/post.hpp>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/net/http_client.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/provider/observers.hpp>
#include <cubepi/provider/wire/encoding.hpp>
#include <cubepi/provider/wire/http_attempt.hpp>
#include <cubepi/provider/wire/user_hook.hpp>
#include <cubepi/provider/wire/wire_protocol.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi::detail {

namespace {

AssistantMessage head_of(const ModelRequest& request) {
    AssistantMessage head;
    head.id = request.options.message_id();
    head.provider_id = shared_name(request.model.provider_id);
    head.model_id = shared_name(request.model.id);
    return head;
}

double seconds_since_epoch(const Clock& clock) {
    return std::chrono::duration<double>(clock.wall().time_since_epoch()).count();
}

void queue_all(std::vector<Notice> notices, EventQueue& queue) {
    for (Notice& notice : notices) queue.push(MessageAssembler::notice(std::move(notice)));
}

/// Builds the text of a request body: the protocol's body, after the caller's `on_payload` hook and the observers. Queues
/// notices about what was changed. `observed` is null if there are no observers; all references must outlive the task.
Task<std::string> build_request_body(const ModelRequest& request, const WireProtocol& protocol,
                                     const std::shared_ptr<ObservedCall>& observed,
                                     EventQueue& queue) {
    WireProtocol::Built built = protocol.build(request);
    queue_all(std::move(built.notices), queue);
    JsonObject body = std::move(built.body);
    if (request.options.on_payload()) {
        Task<std::optional<JsonObject>> hook =
            call_user_hook("on_payload", request.options.on_payload(), body, request.model,
                           headers_without_keys(protocol.http_request(request)));
        std::optional<JsonObject> changed = co_await std::move(hook);
        if (changed) body = std::move(*changed);
    }
    protocol.finish_body(body);
    if (observed) {
        Task<std::vector<Notice>> observing = observe_request(observed, RequestPayload(body));
        queue_all(co_await std::move(observing), queue);
    }
    std::string text = json_text(body);
    if (!is_utf8(text)) {
        // From a tool or the caller. The server would reject this request and every later one of the conversation.
        text = replace_broken_utf8(text);
        Notice notice;
        notice.code = "request_changed";
        notice.text = "The request contained invalid UTF-8, which was replaced by U+FFFD.";
        queue.push(MessageAssembler::notice(std::move(notice)));
    }
    co_return text;
}

/// One call of a model over HTTP. Nothing is sent before the first event is requested. Its parts:
///
/// - build_request_body() builds the request once for all attempts;
/// - CallAttempts decides about retries (D15), read_error_response reads responses with an error status;
/// - ResponseReader decodes the body of a successful response;
/// - IdleTimer enforces the idle timeout (D16).
///
/// The source sequences them, and ends the call at an abort (D7).
class HttpStreamSource final : public StreamSource {
public:
    /// `observed` is null if there are no observers; otherwise the request is that of the observation.
    HttpStreamSource(ModelRequest request, std::shared_ptr<const WireProtocol> protocol,
                     std::shared_ptr<ObservedCall> observed);
    ~HttpStreamSource() override;

    std::optional<StreamEvent> ready() override;
    Task<StreamEvent> next() override;
    bool honors_stop_token() const noexcept override { return true; }

private:
    enum class Phase : std::uint8_t {
        idle,       ///< an attempt is to be sent
        waiting,    ///< for the delay before a retry
        streaming,  ///< the body of a response is read
        ending,     ///< the message is complete, the body is not
        over        ///< the terminal event is in the queue or was taken
    };

    /// Connects a stop, on any thread, to the source on its executor. `source` is used only there.
    struct StopLink {
        StopLink(Executor where, HttpStreamSource* whose)
            : executor(std::move(where)), source(whose) {}
        Executor executor;
        HttpStreamSource* source;
    };

    Task<> guarded_step();
    Task<> step();
    Task<> prepare();
    Task<> attempt();
    Task<> sign(const RequestSigner& signer, HttpRequest& http);
    std::string without_secrets(std::string text) const;
    Task<> read_interruptibly();
    Task<> read_more();
    Task<> drain();
    bool decode_received();
    void finish_answer();

    bool stopped() const noexcept;
    void renew_stop();
    void interrupt() noexcept;
    void idle_limit_reached();
    void end_aborted();
    void close();

    void handle_failure();
    bool build_differently(const CallFailure& failure);
    std::string omit_refused(const EndpointFailure& failure);
    ErrorInfo classify(const CallFailure& failure) const;
    void retry(const RetryDecision& decision, const ErrorInfo& info);
    void give_up(const CallFailure& failure, ErrorInfo info);

    ModelRequest own_request_;
    std::shared_ptr<const WireProtocol> protocol_;
    std::shared_ptr<ObservedCall> observed_;
    const ModelRequest& request_;
    std::optional<ModelRequest> reduced_;  ///< sent after the endpoint refused content
    bool images_omitted_ = false;
    bool thinking_omitted_ = false;
    std::shared_ptr<const Runtime> runtime_;
    MessageAssembler assembler_;
    EventQueue queue_;
    ResponseReader reader_;
    IdleTimer idle_timer_;
    CallAttempts attempts_;
    std::optional<std::string> request_body_;
    std::optional<CallFailure> failure_;
    ExtraHeaders signed_keys_;  ///< headers of the last attempt that hold keys, if it was signed
    std::chrono::nanoseconds delay_{0};  ///< before the next attempt

    std::stop_source stop_;  ///< of the current attempt: the caller's stop or the idle timeout
    std::optional<std::stop_callback<std::function<void()>>> link_;
    std::shared_ptr<StopLink> stop_link_;
    std::optional<std::stop_callback<std::function<void()>>> on_stop_;  ///< while a body streams
    Phase phase_ = Phase::idle;
    bool reading_ = false;
    bool idle_timeout_ = false;
    bool cancelled_ = false;
};

HttpStreamSource::HttpStreamSource(ModelRequest request,
                                   std::shared_ptr<const WireProtocol> protocol,
                                   std::shared_ptr<ObservedCall> observed)
    : own_request_(std::move(request)),
      protocol_(std::move(protocol)),
      observed_(std::move(observed)),
      request_(observed_ ? observed_->call.request : own_request_),
      runtime_(request_.options.runtime()),
      assembler_(head_of(request_), request_.options.max_answer_bytes()),
      reader_(assembler_, queue_),
      idle_timer_(runtime_, protocol_->endpoint().timeouts().idle,
                  [this] { idle_limit_reached(); }),
      attempts_(protocol_, runtime_) {}

HttpStreamSource::~HttpStreamSource() { close(); }

// Events.

std::optional<StreamEvent> HttpStreamSource::ready() {
    while (queue_.empty()) {
        if (phase_ == Phase::over || failure_) return std::nullopt;
        if (stopped()) {
            // A complete answer takes precedence over a late abort.
            if (phase_ == Phase::ending)
                finish_answer();
            else
                end_aborted();
            break;
        }
        if (phase_ != Phase::streaming) return std::nullopt;
        try {
            if (decode_received()) continue;
            if (!reader_.receive_available()) return std::nullopt;
            idle_timer_.data_received();
        } catch (...) {
            failure_.emplace(std::current_exception());
        }
    }
    // The time that the consumer spends on the event is not the endpoint's.
    idle_timer_.pause();
    return queue_.pop();
}

Task<StreamEvent> HttpStreamSource::next() {
    for (;;) {
        std::optional<StreamEvent> event = ready();
        if (event) co_return std::move(*event);
        if (failure_) {
            handle_failure();
            continue;
        }
        co_await guarded_step();
    }
}

/// Runs one step, which an abort or the idle timeout ends at once.
Task<> HttpStreamSource::guarded_step() {
    if (phase_ == Phase::idle || phase_ == Phase::waiting) renew_stop();
    // Not outcome_of(): it would add a coroutine to every read.
    std::exception_ptr failure;
    try {
        if (phase_ == Phase::streaming && reader_.interruptible()) {
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
        failure_.emplace(std::move(failure));
        co_return;
    }
    close();
    if (stopped()) co_return;
    if (idle_timeout_) {
        failure_.emplace(std::make_exception_ptr(idle_timer_.error()));
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
        if (!request_body_) co_await prepare();
        co_await attempt();
    } else if (phase_ == Phase::ending) {
        co_await drain();
    } else {
        co_await read_more();
    }
}

// The request.

/// Calls the signer. Its exceptions are rethrown by throw_hook_error().
Task<> HttpStreamSource::sign(const RequestSigner& signer, HttpRequest& http) {
    std::exception_ptr failure;
    try {
        MaybeTask<> signing = signer(http);
        if (signing.is_pending()) co_await std::move(signing).task();
        co_return;
    } catch (...) {
        failure = std::current_exception();
    }
    throw_hook_error("sign_request", failure);
}

/// Returns the text without keys, also those that the signer has set (D58).
std::string HttpStreamSource::without_secrets(std::string text) const {
    return without_header_secrets(protocol_->endpoint().without_secrets(std::move(text)),
                                  signed_keys_);
}

Task<> HttpStreamSource::prepare() {
    assembler_.head().timestamp = seconds_since_epoch(*runtime_->clock);
    Task<std::string> building =
        build_request_body(reduced_ ? *reduced_ : request_, *protocol_, observed_, queue_);
    request_body_ = co_await std::move(building);
}

Task<> HttpStreamSource::attempt() {
    HttpRequest http = protocol_->http_request(request_);
    http.body = *request_body_;
    http.timeouts = attempts_.next_timeouts();
    if (protocol_->endpoint().signer()) {
        Task<> signing = sign(protocol_->endpoint().signer(), http);
        co_await std::move(signing);
        signed_keys_ = headers_with_keys(http);
    }
    const std::shared_ptr<HttpTransport> transport = transport_of(*runtime_);
    Task<HttpResponse> sent = transport->send(std::move(http));
    HttpResponse response = co_await std::move(sent);
    if (request_.options.on_response()) {
        Task<> hook = call_user_hook("on_response", request_.options.on_response(),
                                     response_head(response), request_.model);
        co_await std::move(hook);
    }
    if (response.status < 200 || response.status >= 300) {
        Task<CallFailure> reading = read_error_response(std::move(response), *protocol_, *runtime_);
        failure_ = co_await std::move(reading);
        co_return;
    }
    reader_.start(protocol_->decoder(assembler_, *runtime_->ids), std::move(response));
    idle_timer_.restart();
    idle_timeout_ = false;
    phase_ = Phase::streaming;
}

// The response.

/// read_more(), which a stop of `stop_` ends. The callback is registered once for all reads of the body.
Task<> HttpStreamSource::read_interruptibly() {
    if (!stop_link_) {
        const Executor executor = co_await this_executor;
        stop_link_ = std::make_shared<StopLink>(executor, this);
        on_stop_.emplace(stop_.get_token(), [link = stop_link_] {
            boost::asio::post(link->executor, [link] {
                if (link->source) link->source->interrupt();
            });
        });
    }
    co_await read_more();
}

Task<> HttpStreamSource::read_more() {
    if (reader_.must_yield()) {
        reader_.yielded();
        co_await yield_now();
        idle_timer_.check();
        co_return;
    }
    idle_timer_.check();
    if (reader_.complete()) idle_timer_.answer_complete();
    if (idle_timer_.needs_prepare()) {
        const Executor executor = co_await this_executor;
        idle_timer_.prepare(executor);
    }
    reading_ = true;
    idle_timer_.arm();
    Task<bool> receiving = reader_.receive();
    const bool more = co_await std::move(receiving);
    reading_ = false;
    reader_.received();
    if (more) idle_timer_.data_received();
    idle_timer_.count();
    if (more) co_return;
    reader_.decode_rest();
    finish_answer();
}

/// Decodes until there is an event. Returns false if more bytes are needed.
bool HttpStreamSource::decode_received() {
    if (!reader_.decode_received()) return false;
    // `start` is not content: an endpoint that only sends empty chunks is idle.
    if (assembler_.has_content() && !queue_.empty()) idle_timer_.content_received();
    if (!reader_.over()) return true;
    if (reader_.complete()) {
        phase_ = Phase::ending;
    } else {
        finish_answer();
    }
    return true;
}

Task<> HttpStreamSource::drain() {
    Task<> draining = reader_.drain(*runtime_->clock);
    co_await std::move(draining);
    const auto state = co_await this_cancellation;
    if (state.cancelled() == boost::asio::cancellation_type::none) finish_answer();
}

/// Ends the answer, also if the end of a complete one fails: its content and usage remain, and no attempt is repeated. Throws if
/// the answer is not complete.
void HttpStreamSource::finish_answer() {
    try {
        reader_.finish();
    } catch (...) {
        if (!reader_.complete()) throw;
        const CallFailure failure(std::current_exception());
        close();
        give_up(failure, classify(failure));
    }
    if (observed_) observed_->details = std::move(assembler_.details());
    phase_ = Phase::over;
    close();
}

// Aborts and timeouts.

bool HttpStreamSource::stopped() const noexcept {
    return cancelled_ || request_.options.stop_token().stop_requested();
}

void HttpStreamSource::renew_stop() {
    link_.reset();
    stop_ = std::stop_source();
    const std::stop_token& token = request_.options.stop_token();
    if (!token.stop_possible()) return;
    link_.emplace(token, [source = stop_]() mutable { source.request_stop(); });
}

void HttpStreamSource::interrupt() noexcept {
    if (reading_) reader_.interrupt();
}

void HttpStreamSource::idle_limit_reached() {
    // Between reads the consumer is busy with an event, which is not the endpoint's fault.
    if (!reading_) return;
    idle_timeout_ = true;
    stop_.request_stop();
}

void HttpStreamSource::end_aborted() {
    close();
    phase_ = Phase::over;
    if (!assembler_.head().timestamp)
        assembler_.head().timestamp = seconds_since_epoch(*runtime_->clock);
    queue_.push(assembler_.aborted());
}

void HttpStreamSource::close() {
    idle_timer_.cancel();
    on_stop_.reset();
    if (stop_link_) stop_link_->source = nullptr;
    stop_link_.reset();
    reader_.close();
}

// After a failed attempt: build another request, retry, or give up.

void HttpStreamSource::handle_failure() {
    CallFailure failure = std::move(*failure_);
    failure_.reset();
    if (failure.endpoint) {
        EndpointFailure& endpoint = *failure.endpoint;
        for (std::string* text :
             {&endpoint.message, &endpoint.code, &endpoint.type, &endpoint.param})
            *text = without_secrets(std::move(*text));
    }
    close();
    if (reader_.complete()) {
        finish_answer();
        return;
    }
    const bool may_repeat = !assembler_.has_content();
    if (may_repeat && build_differently(failure)) return;
    ErrorInfo info = classify(failure);
    const RetryDecision decision = may_repeat ? attempts_.decide(failure, info) : RetryDecision();
    if (decision.retry) {
        retry(decision, info);
    } else {
        give_up(failure, std::move(info));
    }
}

bool HttpStreamSource::build_differently(const CallFailure& failure) {
    if (!failure.endpoint) return false;
    std::string difference = protocol_->build_differently(*failure.endpoint);
    if (difference.empty()) {
        difference = omit_refused(*failure.endpoint);
    } else {
        thinking_omitted_ = true;  // the protocol has found another way
    }
    if (difference.empty()) return false;
    Notice notice;
    notice.code = "request_changed";
    notice.text = without_secrets(std::move(difference));
    if (!failure.endpoint->code.empty()) notice.details["error_code"] = failure.endpoint->code;
    queue_.push(MessageAssembler::notice(std::move(notice)));
    reader_.discard();
    request_body_.reset();
    phase_ = Phase::idle;
    return true;
}

/// Leaves out the content of the history that the endpoint refused, once for each kind (D89). Returns the text of a notice, or an
/// empty text if there is no such content.
std::string HttpStreamSource::omit_refused(const EndpointFailure& failure) {
    const auto omit = [&](bool& omitted, auto without, const std::string& refused,
                          const std::string& then) -> std::string {
        const MessageList& sent = reduced_ ? reduced_->messages : request_.messages;
        std::optional<MessageList> rest = omitted ? std::nullopt : without(sent);
        if (!rest) return {};
        omitted = true;
        reduced_ = request_;
        reduced_->messages = std::move(*rest);
        return "The endpoint refused " + refused + " (" + failure.message + "); " + then;
    };
    if (refuses_image(failure)) {
        std::string text =
            names_image(failure)
                ? omit(images_omitted_, without_images, "an image of the conversation",
                       "the request is repeated without images")
                : omit(images_omitted_, without_images, "the request",
                       "in case an image is the cause, it is repeated without images");
        if (!text.empty()) return text;
    }
    if (!refuses_thinking(failure)) return {};
    return omit(thinking_omitted_, without_thinking, "thinking of the conversation",
                "the request is repeated without thinking");
}

ErrorInfo HttpStreamSource::classify(const CallFailure& failure) const {
    if (!failure.endpoint) return classify_exception(failure.exception);
    return classify_failure(*failure.endpoint, request_.model.context_window,
                            estimate_prompt_tokens(request_.messages));
}

void HttpStreamSource::retry(const RetryDecision& decision, const ErrorInfo& info) {
    delay_ = decision.delay;
    reader_.discard();
    phase_ = Phase::waiting;
    queue_.push(MessageAssembler::notice(attempts_.start_retry(decision, info)));
}

void HttpStreamSource::give_up(const CallFailure& failure, ErrorInfo info) {
    std::string text = attempts_.describe(failure);
    const bool limited = failure.limit_reached();
    if (!limited && !is_hook_error(info))
        text = failure_text(request_.model, protocol_->endpoint().shown_url(), info, text);
    info.message = without_secrets(std::move(info.message));
    phase_ = Phase::over;
    // A failed answer cannot be referred to later, so it has no response id.
    assembler_.head().response_id = SharedString();
    text = without_secrets(std::move(text));
    queue_.push(limited ? assembler_.limited(text) : assembler_.error(text, std::move(info)));
}

}  // namespace

void WireProtocol::finish_body(JsonObject& body) const {
    const Json* extra = body.if_contains("extra_body");
    if (!extra || !extra->is_object()) return;
    const JsonObject members = extra->get_object();
    body.erase("extra_body");
    for (const auto& [key, value] : members) body[key] = value;
}

MessageStream http_stream(ModelRequest request, std::shared_ptr<const WireProtocol> protocol,
                          const std::shared_ptr<ObserverRegistry>& observers) {
    std::shared_ptr<ObservedCall> observed = observers->take(request);
    BodyBuilder answer_body;
    if (observed) {
        answer_body = [protocol](const AssistantMessage& message) {
            return protocol->answer_body(message);
        };
    }
    auto source =
        std::make_unique<HttpStreamSource>(std::move(request), std::move(protocol), observed);
    if (!observed) return MessageStream(std::move(source));
    return MessageStream(
        observe_stream(std::move(observed), std::move(source), std::move(answer_body)));
}

}  // namespace cubepi::detail
