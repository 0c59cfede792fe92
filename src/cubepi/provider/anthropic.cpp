#include <cubepi/provider/anthropic.hpp>

#include <string_view>

#include <cubepi/provider/anthropic/decoder.hpp>
#include <cubepi/provider/anthropic/request.hpp>
#include <cubepi/provider/wire/endpoint.hpp>
#include <cubepi/provider/wire/http_stream.hpp>

namespace cubepi {

namespace {

constexpr const char* api_version = "2023-06-01";

/// Base URLs are often given as those of other vendors end.
std::string without_version(std::string url) {
    while (url.ends_with('/')) url.pop_back();
    if (url.ends_with("/v1")) url.resize(url.size() - 3);
    return url;
}

}  // namespace

class AnthropicProvider::Protocol final : public detail::WireProtocol {
public:
    explicit Protocol(AnthropicOptions options)
        : options_(std::move(options)),
          url_(without_version(options_.base_url)),
          host_(detail::host_of(url_)),
          shown_url_(public_url(url_)),
          timeouts_(detail::timeouts_of(options_)) {}

    ModelProfile profile(const Model& model) const {
        const ProviderCapability configured{options_.capability,
                                            options_.model_capability_overrides, url_};
        return effective_profile(ModelApi::anthropic_messages, model, configured);
    }

    Built build(const ModelRequest& request) const override {
        detail::AnthropicSettings settings;
        settings.profile = profile(request.model);
        settings.cache_retention = options_.cache_retention;
        settings.cache_policy = options_.cache_policy;
        settings.extra_body = options_.extra_body;
        return detail::build_anthropic(request, settings);
    }

    void finish_body(JsonObject& body) const override { detail::unfold_extra_body(body); }

    HttpRequest http_request() const override {
        HttpRequest http = detail::json_post(detail::url_below(url_, "/v1/messages"));
        http.headers.set("anthropic-version", api_version);
        if (!options_.api_key.empty()) http.headers.set("x-api-key", options_.api_key);
        if (!options_.auth_token.empty())
            http.headers.set("authorization", "Bearer " + options_.auth_token);
        if (!options_.betas.empty()) http.headers.set("anthropic-beta", beta_header());
        const bool key_in_headers = detail::add_headers(http, options_.extra_headers);
        const bool has_key =
            key_in_headers || !options_.api_key.empty() || !options_.auth_token.empty();
        if (!has_key && !options_.sign_request && !detail::is_near(host_))
            detail::throw_missing_key(host_, "ANTHROPIC_API_KEY", "AnthropicOptions::api_key");
        return http;
    }

    std::unique_ptr<detail::WireDecoder> decoder(MessageAssembler& assembler,
                                                 IdSource& ids) const override {
        return std::make_unique<detail::AnthropicDecoder>(assembler, ids);
    }

    JsonObject answer_body(const AssistantMessage& message) const override {
        return detail::anthropic_message(message);
    }

    const std::string& base_url() const noexcept override { return shown_url_; }
    const RetryPolicy& retry() const noexcept override { return options_.retry; }
    const RequestSigner& signer() const noexcept override { return options_.sign_request; }
    const detail::CallTimeouts& timeouts() const noexcept override { return timeouts_; }

    std::string without_secrets(std::string text) const override {
        text = without_secret(std::move(text), options_.api_key);
        text = without_secret(std::move(text), options_.auth_token);
        return detail::without_header_secrets(std::move(text), options_.extra_headers);
    }

    bool takes_response_format(const Model& model) const {
        const ModelProfile known = profile(model);
        if (known.capability.response_format) return *known.capability.response_format;
        return host_ == "api.anthropic.com" &&
               detail::claude_takes_response_format(known, model.id);
    }

private:
    std::string beta_header() const {
        std::string header;
        for (const std::string& beta : options_.betas) header += (header.empty() ? "" : ",") + beta;
        return header;
    }

    AnthropicOptions options_;
    std::string url_;
    std::string host_;
    std::string shown_url_;
    detail::CallTimeouts timeouts_;
};

AnthropicProvider::AnthropicProvider(AnthropicOptions options) : BaseProvider(options.provider_id) {
    detail::require_http_url("AnthropicProvider", options.base_url);
    protocol_ = std::make_shared<const Protocol>(std::move(options));
}

BoundModel AnthropicProvider::model(std::string id) const {
    Model spec;
    spec.id = std::move(id);
    return model(std::move(spec));
}

BoundModel AnthropicProvider::model(Model model) const {
    return BoundModel(std::make_shared<AnthropicProvider>(*this), std::move(model));
}

BoundModel anthropic_model(std::string id) {
    AnthropicOptions options;
    options.api_key = env("ANTHROPIC_API_KEY");
    if (std::string url = env("ANTHROPIC_BASE_URL"); !url.empty())
        options.base_url = std::move(url);
    return AnthropicProvider(std::move(options)).model(std::move(id));
}

PayloadPreview AnthropicProvider::preview(const ModelRequest& request) const {
    return detail::preview_of(*protocol_, request);
}

MessageStream AnthropicProvider::stream(ModelRequest request) {
    return detail::http_stream(std::move(request), protocol_, observers());
}

bool AnthropicProvider::takes_response_format(const Model& model) const {
    return protocol_->takes_response_format(model);
}

}  // namespace cubepi
