#include <cubepi/provider/openai_images.hpp>

#include <array>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/support/random_word.hpp>
#include <cubepi/net/http_client.hpp>
#include <cubepi/net/sse_decoder.hpp>
#include <cubepi/provider/capability.hpp>
#include <cubepi/provider/error_classification.hpp>
#include <cubepi/provider/wire/encoding.hpp>
#include <cubepi/provider/wire/user_hook.hpp>
#include <cubepi/provider/wire/wire_protocol.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi {

struct OpenAIImagesProvider::Endpoint {
    explicit Endpoint(OpenAIImagesOptions given)
        : endpoint(detail::openai_vendor("OpenAIImages", given.api_key), given),
          options(std::move(given)) {}
    const ImagesCapabilityDescriptor& capability(const std::string& model) const {
        const auto own = options.model_capability_overrides.find(model);
        return own == options.model_capability_overrides.end() ? options.capability : own->second;
    }
    detail::Endpoint endpoint;
    OpenAIImagesOptions options;
};

namespace detail {

namespace {

struct ImagesPayload {
    JsonObject body = {};
    std::vector<Notice> notices = {};
    bool edit = false;
};

Notice left_out(std::string_view what) {
    return request_changed(
        "This endpoint does not accept " + std::string(what) + "; it was omitted", what);
}

void put_size(JsonObject& body, const std::string& size,
              ImagesCapabilityDescriptor::SizeKind kind) {
    using enum ImagesCapabilityDescriptor::SizeKind;
    switch (kind) {
        case size_string: body["size"] = size; return;
        case image_size_string: body["image_size"] = size; return;
        case aspect_ratio: body["aspect_ratio"] = size; return;
        case width_height: break;
    }
    const std::size_t cross = size.find('x');
    int width = 0;
    int height = 0;
    const char* const end = size.data() + size.size();
    const bool good =
        cross != std::string::npos &&
        std::from_chars(size.data(), size.data() + cross, width).ptr == size.data() + cross &&
        std::from_chars(size.data() + cross + 1, end, height).ptr == end && width > 0 && height > 0;
    if (!good) {
        throw Error(ErrorCode::invalid_argument,
                    "This endpoint requires a size like \"1024x1024\", not \"" + size + "\"");
    }
    body["width"] = width;
    body["height"] = height;
}

/// A field that the endpoint may not have.
template <class T>
void put(ImagesPayload& to, const std::optional<std::string>& field, std::string_view what,
         const std::optional<T>& value) {
    if (!value) return;
    if (!field) {
        to.notices.push_back(left_out(what));
    } else {
        to.body[*field] = *value;
    }
}

template <class T>
std::optional<std::string> word_of(const std::optional<T>& own,
                                   const std::optional<T>& default_value) {
    const std::optional<T>& value = own ? own : default_value;
    return value ? std::optional<std::string>(to_string(*value)) : std::nullopt;
}

void put_input_images(ImagesPayload& to, const ImagesModel& model, const ImagesContext& context,
                      const ImagesCapabilityDescriptor& capability) {
    if (context.input_images.empty()) return;
    if (!capability.edits) {
        throw Error(
            ErrorCode::unsupported,
            "Model '" + model.id + "' does not accept input images: its endpoint has no edits");
    }
    if (model.max_input_images && context.input_images.size() > *model.max_input_images) {
        throw Error(ErrorCode::invalid_argument, "Model '" + model.id + "' takes at most " +
                                                     std::to_string(*model.max_input_images) +
                                                     " images, not " +
                                                     std::to_string(context.input_images.size()));
    }
    JsonArray described;
    for (const ImageContent& image : context.input_images) {
        if (is_url(image.source)) {
            throw Error(ErrorCode::unsupported,
                        "Input images must be bytes; fetch " + image.source + " first");
        }
        described.push_back(Json(image.media_type.str() + ", " +
                                 std::to_string(image.source.size() / 4 * 3) + " bytes"));
    }
    to.body[capability.input_images_field] = std::move(described);
    to.edit = true;
}

std::string extension_of(std::string_view media_type) {
    const std::size_t slash = media_type.find('/');
    return slash == std::string_view::npos ? "png" : std::string(media_type.substr(slash + 1));
}

void add_part(std::string& form, std::string_view boundary, std::string_view name,
              std::string_view more, std::string_view content) {
    form += "--";
    form += boundary;
    form += "\r\ncontent-disposition: form-data; name=\"";
    form += name;
    form += '"';
    form += more;
    form += "\r\n\r\n";
    form += content;
    form += "\r\n";
}

const Json* member(const Json& json, std::string_view key) {
    const JsonObject* object = json.if_object();
    return object ? object->if_contains(key) : nullptr;
}

std::string_view text_of(const Json* json) {
    return json && json->is_string() ? std::string_view(json->get_string()) : std::string_view();
}

std::optional<ImageContent> image_of(const Json& item, std::string_view media_type) {
    ImageContent image;
    if (const std::string_view bytes = text_of(member(item, "b64_json")); !bytes.empty()) {
        image.source = bytes;
        image.media_type = media_type;
        return image;
    }
    const std::string_view url = text_of(member(item, "url"));
    if (url.empty()) return std::nullopt;
    image.source = url;
    return image;
}

/// The media type that the answer says its images are of, else the one that was asked for.
std::string media_type_in(const Json& answer, std::string_view fallback) {
    const std::string_view format = text_of(member(answer, "output_format"));
    return format.empty() ? std::string(fallback) : "image/" + std::string(format);
}

void read_usage(const Json& answer, AssistantImages& into) {
    const Json* reported = member(answer, "usage");
    if (!reported || !reported->is_object()) return;
    const auto count = [&](std::string_view key) {
        const Json* value = member(*reported, key);
        return value && value->is_int64() ? TokenCount(value->get_int64()) : TokenCount();
    };
    Usage& usage = into.usage ? *into.usage : into.usage.emplace();
    Usage one;
    one.input_tokens = count("input_tokens");
    one.output_tokens = count("output_tokens");
    usage += one;
}

void read_head(const Json& answer, AssistantImages& into) {
    if (const std::string_view id = text_of(member(answer, "id")); !id.empty())
        into.response_id = id;
    for (const std::string_view key : {"size", "quality", "background", "output_format"}) {
        const Json* value = member(answer, key);
        if (value && !value->is_null()) into.metadata[key] = *value;
    }
    read_usage(answer, into);
}

/// Builds the fields of a request. Input images are only described: multipart_form adds their bytes. Throws
/// Error(unsupported, invalid_argument) for an invalid request.
ImagesPayload images_payload(const ImagesModel& model, const ImagesContext& context,
                             const ImagesCapabilityDescriptor& capability, int partial_images) {
    if (context.prompt.empty())
        throw Error(ErrorCode::invalid_argument, "ImagesContext::prompt must not be empty");
    ImagesPayload made;
    made.body["model"] = model.id;
    made.body["prompt"] = context.prompt;
    put_input_images(made, model, context, capability);
    if (const auto& size = context.size ? context.size : model.size; size)
        put_size(made.body, *size, capability.size_kind);
    if (const auto& n = context.n ? context.n : model.n; n) made.body[capability.count_field] = *n;
    put(made, capability.quality_field, "quality", word_of(context.quality, model.quality));
    put(made, capability.output_format_field, "output_format",
        word_of(context.output_format, model.output_format));
    put(made, capability.seed_field, "seed", context.seed);
    put(made, capability.negative_prompt_field, "negative_prompt",
        context.negative_prompt.empty() ? std::nullopt
                                        : std::optional<std::string>(context.negative_prompt));
    put(made, capability.steps_field, "steps", context.steps);
    put(made, capability.guidance_field, "guidance", context.guidance);
    if (capability.response_format_field)
        made.body[*capability.response_format_field] = capability.response_format_value;
    if (partial_images > 0 && capability.partial_images) {
        made.body["stream"] = true;
        made.body["partial_images"] = partial_images;
    } else if (partial_images > 0) {
        made.notices.push_back(left_out("partial_images"));
    }
    deep_merge(made.body, capability.extra_payload);
    deep_merge(made.body, context.extra);
    return made;
}

/// multipart/form-data (RFC 7578) of a body and its images.
std::string multipart_form(const JsonObject& body, const std::vector<ImageContent>& images,
                           std::string_view image_field, std::string_view boundary) {
    std::string form;
    for (const auto& [key, value] : body) {
        if (key == image_field) continue;
        const std::string text =
            value.is_string() ? std::string(value.get_string()) : json_text(value);
        add_part(form, boundary, key, {}, text);
    }
    // Several files go under one name with brackets, as OpenAI has it.
    const std::string name = std::string(image_field) + (images.size() > 1 ? "[]" : "");
    std::size_t number = 0;
    for (const ImageContent& image : images) {
        const std::string type = image.media_type.empty() ? "image/png" : image.media_type.str();
        const std::string more = "; filename=\"image-" + std::to_string(++number) + "." +
                                 extension_of(type) + "\"\r\ncontent-type: " + type;
        add_part(form, boundary, name, more, from_base64(image.source));
    }
    form += "--";
    form += boundary;
    form += "--\r\n";
    return form;
}

/// Reads an unstreamed response into `into`. Throws Error(protocol) if it contains no images.
void read_images(const Json& answer, std::string_view media_type, AssistantImages& into) {
    const Json* data = member(answer, "data");
    if (!data || !data->is_array()) {
        throw Error(ErrorCode::protocol,
                    "the response has no images; check that the base URL is that of an Images API");
    }
    const std::string type = media_type_in(answer, media_type);
    JsonArray revised;
    for (const Json& item : data->get_array()) {
        if (std::optional<ImageContent> image = image_of(item, type))
            into.output.emplace_back(std::move(*image));
        const std::string_view prompt = text_of(member(item, "revised_prompt"));
        if (!prompt.empty()) revised.push_back(Json(prompt));
    }
    if (into.output.empty()) throw Error(ErrorCode::protocol, "the response contains no images");
    if (!revised.empty()) into.metadata["revised_prompts"] = std::move(revised);
    read_head(answer, into);
}

/// Reads one event of a streamed response. Returns a preview; stores a finished image in `into`. Throws StreamFailure
/// for an error in it.
std::optional<ImagesEvent> read_images_event(const Json& event, std::string_view media_type,
                                             AssistantImages& into) {
    const std::string_view type = text_of(member(event, "type"));
    const Json* error = member(event, "error");
    if (type == "error" || (error && !error->is_null()))
        throw StreamFailure(read_stream_failure(error && !error->is_null() ? *error : event));
    std::optional<ImageContent> image = image_of(event, media_type_in(event, media_type));
    if (type.ends_with(".partial_image") && image) {
        ImagesEvent sketch;
        sketch.type = ImagesEvent::Type::partial_image;
        sketch.image = std::move(*image);
        const Json* index = member(event, "partial_image_index");
        if (index && index->is_int64()) sketch.index = static_cast<int>(index->get_int64());
        return sketch;
    }
    if (type.ends_with(".completed") && image) {
        into.output.emplace_back(std::move(*image));
        read_head(event, into);
    }
    return std::nullopt;
}

}  // namespace

}  // namespace detail

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
    void notify(const Notice& notice) const;
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

void ImagesCall::notify(const Notice& notice) const {
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
    observers_->notify(outcome, model_);
    if (outcome.failure) std::rethrow_exception(outcome.failure);
    co_return made;
}

Task<> ImagesCall::prepare() {
    const ImagesCapabilityDescriptor& capability = endpoint_->capability(model_.id);
    detail::ImagesPayload payload =
        detail::images_payload(model_, context_, capability, options_.partial_images());
    for (const Notice& notice : payload.notices) notify(notice);
    JsonObject body = std::move(payload.body);
    if (options_.on_payload()) {
        Task<std::optional<JsonObject>> hook =
            detail::call_user_hook("on_payload", options_.on_payload(), body, model_);
        std::optional<JsonObject> changed = co_await std::move(hook);
        if (changed) body = std::move(*changed);
    }
    observers_->notify(body, model_);
    edit_ = payload.edit;
    const ImageFormat asked =
        context_.output_format.value_or(model_.output_format.value_or(ImageFormat::png));
    media_type_ = media_type_of(capability.output_format_field ? asked : ImageFormat::png);
    if (!edit_) {
        body_ = json_text(body);
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
        notify(notice);
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
        Task<> hook = detail::call_user_hook("on_response", options_.on_response(),
                                             detail::response_head(response), model_);
        co_await std::move(hook);
    }
    if (response.status < 200 || response.status >= 300) {
        std::string text;
        for (bool more = true; more && text.size() < longest_error_body;)
            more = co_await response.body->read(text);
        text = endpoint_->endpoint.without_secrets(std::move(text));
        if (const std::string* location = response.headers.find("location")) {
            response.headers.set("location", endpoint_->endpoint.without_secrets(*location));
        }
        const RetryHints hints = read_retry_hints(response.headers, runtime_->clock->wall());
        throw Refused(read_endpoint_failure(response.status, response.headers, text, hints), hints);
    }
    const bool streamed = response.headers.get("content-type").starts_with("text/event-stream");
    if (streamed) co_return co_await read_stream(std::move(response));
    co_return co_await read_whole(std::move(response));
}

Task<AssistantImages> ImagesCall::read_whole(HttpResponse response) {
    std::string text;
    for (bool more = true; more;) more = co_await response.body->read(text);
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
    const double random = detail::random_fraction(*runtime_->ids);
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
