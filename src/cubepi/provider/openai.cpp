#include <cubepi/provider/openai.hpp>

#include <cctype>
#include <string_view>

#include <cubepi/provider/detail/http_stream.hpp>
#include <cubepi/provider/detail/openai_chat_decoder.hpp>
#include <cubepi/provider/detail/openai_chat_request.hpp>

namespace cubepi {

namespace {

std::string lower(std::string_view text) {
    std::string result(text);
    for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return result;
}

std::string host_of(std::string_view url) {
    const std::string bare = public_url(url);
    const std::size_t begin = bare.find("://") + 3;
    const std::size_t end = bare.find_first_of("/", begin);
    std::string host = lower(bare.substr(begin, end == std::string::npos ? end : end - begin));
    const std::size_t port = host.rfind(':');
    if (port != std::string::npos && host.find(']', port) == std::string::npos) host.resize(port);
    return host;
}

/// A server on this machine or in the private network, which often wants no key.
bool is_near(std::string_view host) {
    return host == "localhost" || host.ends_with(".localhost") || host.ends_with(".local") ||
           host == "[::1]" || host.starts_with("127.") || host.starts_with("10.") ||
           host.starts_with("192.168.") || host.find('.') == std::string_view::npos;
}

/// `base_url` with a path behind it and in front of its query (Azure's api-version).
std::string url_below(std::string_view base_url, std::string_view path) {
    const std::size_t query = base_url.find('?');
    std::string url(base_url.substr(0, query));
    while (url.ends_with('/')) url.pop_back();
    url += path;
    if (query != std::string_view::npos) url += base_url.substr(query);
    return url;
}

bool carries_key(std::string_view header) {
    const std::string name = lower(header);
    return name == "authorization" || name == "api-key" || name == "x-api-key" ||
           name.find("token") != std::string::npos;
}

}  // namespace

class OpenAIProvider::Protocol final : public detail::WireProtocol {
public:
    explicit Protocol(OpenAIOptions options)
        : options_(std::move(options)),
          host_(host_of(options_.base_url)),
          shown_url_(public_url(options_.base_url)) {
        clocks_.http.connect = options_.connect_timeout;
        clocks_.http.first_byte = options_.first_byte_timeout;
        clocks_.http.total = options_.total_timeout;
        clocks_.gap = options_.gap_timeout;
    }

    Built build(const ModelRequest& request) const override {
        detail::OpenAIChatSettings settings;
        const auto own = options_.model_capability_overrides.find(request.model.id);
        settings.capability =
            own == options_.model_capability_overrides.end() ? options_.capability : own->second;
        settings.openai_endpoint =
            host_ == "api.openai.com" || host_.ends_with(".openai.azure.com");
        settings.extra_body = options_.extra_body;
        return detail::build_openai_chat(request, settings);
    }

    /// A hook may leave an `extra_body` as CubePi's do: its members belong to the body.
    void finish_body(JsonObject& body) const override {
        const Json* extra = body.if_contains("extra_body");
        if (!extra || !extra->is_object()) return;
        const JsonObject members = extra->get_object();
        body.erase("extra_body");
        for (const auto& [key, value] : members) body[key] = value;
    }

    HttpRequest http_request() const override {
        HttpRequest http("POST", url_below(options_.base_url, "/chat/completions"));
        http.headers.set("content-type", "application/json");
        http.headers.set("accept", "text/event-stream");
        http.headers.set("user-agent", "cubepi-cpp");
        bool has_key = !options_.api_key.empty();
        if (has_key) http.headers.set("authorization", "Bearer " + options_.api_key);
        for (const auto& [name, value] : options_.extra_headers) {
            http.headers.set(name, value);
            has_key = has_key || carries_key(name);
        }
        if (!has_key && !is_near(host_)) {
            ErrorInfo info;
            info.code = ErrorCode::auth;
            info.type = error_type_of(info.code);
            throw_provider_error(
                std::move(info),
                "there is no API key for " + host_ +
                    ": set OPENAI_API_KEY in the environment, or give the provider "
                    "an api_key (OpenAIOptions::api_key)");
        }
        return http;
    }

    std::unique_ptr<detail::WireDecoder> decoder(MessageAssembler& assembler,
                                                 IdSource& ids) const override {
        return std::make_unique<detail::OpenAIChatDecoder>(assembler, ids,
                                                           options_.accept_missing_finish);
    }

    JsonObject answer_body(const AssistantMessage& message) const override {
        return detail::openai_chat_completion(message);
    }

    const std::string& base_url() const noexcept override { return shown_url_; }
    const RetryPolicy& retry() const noexcept override { return options_.retry; }
    const detail::CallClocks& clocks() const noexcept override { return clocks_; }

    std::string without_secrets(std::string text) const override {
        text = without_secret(std::move(text), options_.api_key);
        for (const auto& [name, value] : options_.extra_headers) {
            if (carries_key(name)) text = without_secret(std::move(text), value);
        }
        return text;
    }

private:
    OpenAIOptions options_;
    std::string host_;
    std::string shown_url_;
    detail::CallClocks clocks_;
};

OpenAIProvider::OpenAIProvider(OpenAIOptions options) : BaseProvider(options.provider_id) {
    const bool http =
        options.base_url.starts_with("http://") || options.base_url.starts_with("https://");
    if (!http) {
        throw Error(ErrorCode::invalid_argument,
                    "OpenAIProvider: the base URL must begin with http:// or https://, not '" +
                        public_url(options.base_url) + "'");
    }
    protocol_ = std::make_shared<const Protocol>(std::move(options));
}

BoundModel OpenAIProvider::model(std::string id) const {
    Model spec;
    spec.id = std::move(id);
    return model(std::move(spec));
}

BoundModel OpenAIProvider::model(Model model) const {
    return BoundModel(std::make_shared<OpenAIProvider>(*this), std::move(model));
}

MessageStream OpenAIProvider::stream(ModelRequest request) {
    if (observers()->empty()) {
        return MessageStream(
            std::make_unique<detail::HttpStreamSource>(std::move(request), protocol_, nullptr));
    }
    Model model = request.model;
    auto source =
        std::make_unique<detail::HttpStreamSource>(std::move(request), protocol_, observers());
    return observed(std::move(source), model,
                    [protocol = protocol_](const AssistantMessage& message) {
                        return protocol->answer_body(message);
                    });
}

}  // namespace cubepi
