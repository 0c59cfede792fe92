#include <cubepi/provider/openai_images.hpp>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/net/http_client.hpp>
#include <cubepi/net/sse_decoder.hpp>
#include <cubepi/provider/error_classification.hpp>
#include <cubepi/provider/openai/images_wire.hpp>
#include <cubepi/provider/openai/openai_endpoint.hpp>
#include <cubepi/provider/wire/user_hook.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi {

struct OpenAIImagesProvider::Endpoint {
    explicit Endpoint(OpenAIImagesOptions given)
        : endpoint("OpenAIImages", given), options(std::move(given)) {}
    const ImagesCapability& capability(const std::string& model) const {
        const auto own = options.model_capability_overrides.find(model);
        return own == options.model_capability_overrides.end() ? options.capability : own->second;
    }
    detail::OpenAIEndpoint endpoint;
    OpenAIImagesOptions options;
};

namespace {

constexpr std::size_t longest_error_body = 64 * 1024;
/// Ten images of 4k in base64, with a margin.
constexpr std::size_t longest_answer = 512U << 20;

/// An answer with an error status.
class Refused : public Error {
public:
    Refused(EndpointFailure what, RetryHints how)
        : Error(ErrorCode::provider, what.message), failure(std::move(what)), hints(how) {}
    EndpointFailure failure;
    RetryHints hints;
};

double chance(IdSource& ids) {
    return static_cast<double>(std::hash<std::string>()(ids.next()) >> 11) * 0x1.0p-53;
}

/// One call, with its retries. Lives as long as the coroutine that runs it.
class ImagesCall {
public:
    ImagesCall(std::shared_ptr<const OpenAIImagesProvider::Endpoint> endpoint,
               std::shared_ptr<ImagesObservers> observers, ImagesModel model, ImagesContext context,
               ImagesOptions options)
        : endpoint_(std::move(endpoint)),
          observers_(std::move(observers)),
          model_(std::move(model)),
          context_(std::move(context)),
          options_(std::move(options)),
          runtime_(options_.runtime()) {}

    Task<AssistantImages> run();

private:
    bool stopped() const noexcept { return options_.stop_token().stop_requested(); }
    AssistantImages head() const;
    void tell(const Notice& notice) const;
    Task<> prepare();
    Task<AssistantImages> attempts();
    Task<AssistantImages> attempt();
    Task<AssistantImages> read_whole(HttpResponse response);
    Task<AssistantImages> read_stream(HttpResponse response);
    void take(const SseEvent& event, AssistantImages& into);
    RetryDecision decide(const std::exception_ptr& failure) const;
    [[noreturn]] void give_up(const std::exception_ptr& failure) const;

    std::shared_ptr<const OpenAIImagesProvider::Endpoint> endpoint_;
    std::shared_ptr<ImagesObservers> observers_;
    ImagesModel model_;
    ImagesContext context_;
    ImagesOptions options_;
    std::shared_ptr<const Runtime> runtime_;
    std::string body_;
    std::string content_type_ = "application/json";
    std::string media_type_;
    bool edit_ = false;
    bool shown_ = false;  ///< a sketch was: the call is not repeated
    int retries_done_ = 0;
};

AssistantImages ImagesCall::head() const {
    AssistantImages made;
    made.api = "openai-images";
    made.provider_id = model_.provider_id;
    made.model = model_.id;
    const auto wall = runtime_->clock->wall().time_since_epoch();
    made.timestamp = std::chrono::duration<double>(wall).count();
    return made;
}

void ImagesCall::tell(const Notice& notice) const {
    if (!options_.on_event()) return;
    ImagesEvent event;
    event.notice = notice;
    options_.on_event()(event);
}

Task<AssistantImages> ImagesCall::run() {
    ImagesOutcome outcome;
    AssistantImages made;
    if (!stopped()) {
        try {
            Task<AssistantImages> work = attempts();
            std::stop_token token = options_.stop_token();
            made = co_await cancel_on(std::move(token), std::move(work));
        } catch (...) {
            outcome.failure = std::current_exception();
        }
    }
    const bool ended =
        made.output.empty() && stopped() && (!outcome.failure || is_cancellation(outcome.failure));
    if (ended) {
        outcome.failure = nullptr;
        made = head();
        made.stop_reason = stop_reason::shared(stop_reason::aborted);
    }
    if (!outcome.failure) outcome.images = made;
    observers_->tell(outcome, model_);
    if (outcome.failure) std::rethrow_exception(outcome.failure);
    co_return made;
}

Task<> ImagesCall::prepare() {
    const ImagesCapability& capability = endpoint_->capability(model_.id);
    detail::ImagesPayload payload =
        detail::images_payload(model_, context_, capability, options_.partial_images());
    for (const Notice& notice : payload.notices) tell(notice);
    JsonObject body = std::move(payload.body);
    if (options_.on_payload()) {
        Task<std::optional<JsonObject>> hook =
            detail::call_user_hook("on_payload", options_.on_payload(), body, model_);
        std::optional<JsonObject> changed = co_await std::move(hook);
        if (changed) body = std::move(*changed);
    }
    observers_->tell(body, model_);
    edit_ = payload.edit;
    const ImageFormat asked =
        context_.output_format.value_or(model_.output_format.value_or(ImageFormat::png));
    media_type_ = media_type_of(capability.output_format_field ? asked : ImageFormat::png);
    if (!edit_) {
        body_ = boost::json::serialize(body);
        co_return;
    }
    const std::string boundary = "cubepi-" + runtime_->ids->next() + runtime_->ids->next();
    body_ = detail::multipart_form(body, context_.input_images, capability.input_images_field,
                                   boundary);
    content_type_ = "multipart/form-data; boundary=" + boundary;
}

Task<AssistantImages> ImagesCall::attempts() {
    co_await prepare();
    for (;;) {
        std::exception_ptr failure;
        AssistantImages made;
        try {
            made = co_await attempt();
        } catch (...) {
            failure = std::current_exception();
        }
        if (!failure) co_return made;
        if (is_cancellation(failure)) std::rethrow_exception(failure);
        const RetryDecision decision = decide(failure);
        if (!decision.retry) give_up(failure);
        ++retries_done_;
        Notice notice;
        notice.code = "retry";
        notice.text = endpoint_->endpoint.without_secrets(decision.reason) + "; trying again in " +
                      std::to_string(decision.delay.count()) + " ms";
        notice.details["attempt"] = retries_done_;
        notice.details["delay_ms"] = decision.delay.count();
        tell(notice);
        co_await runtime_->clock->sleep_for(decision.delay);
    }
}

Task<AssistantImages> ImagesCall::attempt() {
    HttpRequest http = endpoint_->endpoint.post(edit_ ? "/images/edits" : "/images/generations");
    http.headers.set("content-type", content_type_);
    http.headers.set("accept", "application/json, text/event-stream");
    http.body = body_;
    http.timeouts = endpoint_->endpoint.timeouts().http;
    http.max_response_bytes = longest_answer;
    const std::shared_ptr<HttpTransport> transport = transport_of(*runtime_);
    Task<HttpResponse> sent = transport->send(std::move(http));
    HttpResponse response = co_await std::move(sent);
    if (options_.on_response()) {
        ProviderResponse seen;
        seen.status = response.status;
        for (const HttpHeader& header : response.headers)
            seen.headers.emplace_back(header.name, header.value);
        Task<> hook =
            detail::call_user_hook("on_response", options_.on_response(), std::move(seen), model_);
        co_await std::move(hook);
    }
    if (response.status < 200 || response.status >= 300) {
        std::string text;
        while (text.size() < longest_error_body && co_await response.body->read(text)) {
        }
        text = endpoint_->endpoint.without_secrets(std::move(text));
        if (const std::string* location = response.headers.find("location")) {
            response.headers.set("location", endpoint_->endpoint.without_secrets(*location));
        }
        throw Refused(read_endpoint_failure(response.status, response.headers, text),
                      read_retry_hints(response.headers, runtime_->clock->wall()));
    }
    const bool streamed = response.headers.get("content-type").starts_with("text/event-stream");
    if (streamed) co_return co_await read_stream(std::move(response));
    co_return co_await read_whole(std::move(response));
}

Task<AssistantImages> ImagesCall::read_whole(HttpResponse response) {
    std::string text;
    while (co_await response.body->read(text)) {
    }
    JsonTextError error;
    const Json answer = parse_json(text, error);
    if (error) throw Error(ErrorCode::protocol, "the response is not JSON: " + error.reason);
    AssistantImages made = head();
    detail::read_images(answer, media_type_, made);
    co_return made;
}

void ImagesCall::take(const SseEvent& event, AssistantImages& into) {
    if (event.data == "[DONE]") return;
    JsonTextError error;
    const Json json = parse_json(event.data, error);
    if (error) throw Error(ErrorCode::protocol, "an event is not JSON: " + error.reason);
    std::optional<ImagesEvent> sketch = detail::read_images_event(json, media_type_, into);
    if (!sketch) return;
    shown_ = true;
    if (options_.on_event()) options_.on_event()(*sketch);
}

Task<AssistantImages> ImagesCall::read_stream(HttpResponse response) {
    AssistantImages made = head();
    SseDecoder sse;
    SseEvent event;
    while (co_await response.body->read(sse.buffer())) {
        while (sse.next(event)) take(event, made);
    }
    if (sse.finish(event)) take(event, made);
    if (made.output.empty())
        throw Error(ErrorCode::disconnected, "the stream ended before an image was complete");
    co_return made;
}

RetryDecision ImagesCall::decide(const std::exception_ptr& failure) const {
    if (shown_) return RetryDecision();
    const double random = chance(*runtime_->ids);
    const RetryPolicy& policy = endpoint_->options.retry;
    try {
        std::rethrow_exception(failure);
    } catch (const Refused& error) {
        return decide_retry(policy, retries_done_, error.failure.status.value_or(0), error.hints,
                            random);
    } catch (const ProviderError& error) {
        if (detail::is_hook_error(error.info())) return RetryDecision();
        return decide_retry(policy, retries_done_, error, random);
    } catch (const Error& error) {
        return decide_retry(policy, retries_done_, error, random);
    } catch (...) {
        return RetryDecision();
    }
}

void ImagesCall::give_up(const std::exception_ptr& failure) const {
    ErrorInfo info;
    std::string message;
    try {
        std::rethrow_exception(failure);
    } catch (const Refused& error) {
        info = classify_failure(error.failure, std::nullopt, std::nullopt);
        message = "HTTP " + std::to_string(error.failure.status.value_or(0)) + ": " +
                  error.failure.message;
    } catch (const detail::StreamFailure& error) {
        info = classify_failure(error.failure(), std::nullopt, std::nullopt);
        message = error.failure().message;
    } catch (const ProviderError&) {
        throw;
    } catch (const Error& error) {
        const bool ours =
            error.code() == ErrorCode::invalid_argument || error.code() == ErrorCode::unsupported;
        if (ours) throw;
        info = classify_exception(failure);
        message = error.what();
    }
    Model asked;
    asked.id = model_.id;
    asked.provider_id = model_.provider_id;
    const std::string text = failure_text(asked, endpoint_->endpoint.shown_url(), info, message);
    info.message = endpoint_->endpoint.without_secrets(std::move(info.message));
    info.provider_code = endpoint_->endpoint.without_secrets(std::move(info.provider_code));
    throw_provider_error(std::move(info), endpoint_->endpoint.without_secrets(text));
}

Task<AssistantImages> draw(std::shared_ptr<const OpenAIImagesProvider::Endpoint> endpoint,
                           std::shared_ptr<ImagesObservers> observers, ImagesModel model,
                           ImagesContext context, ImagesOptions options) {
    ImagesCall call(std::move(endpoint), std::move(observers), std::move(model), std::move(context),
                    std::move(options));
    co_return co_await call.run();
}

}  // namespace

OpenAIImagesProvider::OpenAIImagesProvider(OpenAIImagesOptions options)
    : BaseImagesProvider(options.provider_id),
      endpoint_(std::make_shared<const Endpoint>(std::move(options))) {}

Task<AssistantImages> OpenAIImagesProvider::generate_images(ImagesModel model,
                                                            ImagesContext context,
                                                            ImagesOptions options) {
    if (model.provider_id.empty()) model.provider_id = provider_id();
    return draw(endpoint_, observers(), std::move(model), std::move(context), std::move(options));
}

}  // namespace cubepi
