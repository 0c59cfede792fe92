#include <cubepi/provider/anthropic.hpp>

#include <algorithm>

#include <cubepi/provider/anthropic/messages_api.hpp>
#include <cubepi/provider/wire/wire_protocol.hpp>

namespace cubepi {

namespace {

using detail::Endpoint;

Endpoint::Vendor vendor_of(const AnthropicOptions& options) {
    Endpoint::Vendor vendor;
    vendor.name = "Anthropic";
    vendor.key_variable = "ANTHROPIC_API_KEY";
    vendor.own_host = "api.anthropic.com";
    vendor.ignored_path = "/v1";
    vendor.headers.emplace_back("anthropic-version", "2023-06-01");
    if (!options.api_key.empty()) vendor.headers.emplace_back("x-api-key", options.api_key);
    if (!options.auth_token.empty())
        vendor.headers.emplace_back("authorization", "Bearer " + options.auth_token);
    std::string betas;
    for (const std::string& beta : options.betas) betas += (betas.empty() ? "" : ",") + beta;
    if (!betas.empty()) vendor.headers.emplace_back("anthropic-beta", std::move(betas));
    return vendor;
}

class Protocol final : public detail::WireProtocol {
public:
    explicit Protocol(AnthropicOptions options)
        : endpoint_(vendor_of(options), options), options_(std::move(options)) {}

    bool takes_response_format(const Model& model) const override {
        const ModelProfile known = profile(model);
        if (known.capability.response_format) return *known.capability.response_format;
        return endpoint_.host() == "api.anthropic.com" &&
               detail::claude_takes_response_format(known, model.id);
    }

    Built build(const ModelRequest& request) const override {
        detail::AnthropicSettings settings;
        settings.profile = profile(request.model);
        settings.cache_retention = options_.cache_retention;
        settings.cache_policy = options_.cache_policy;
        settings.extra_body = options_.extra_body;
        settings.compacts = compacts(settings.profile);
        settings.clear_tool_results_at = options_.clear_tool_results_at;
        return detail::build_anthropic(request, settings);
    }

    const Endpoint& endpoint() const noexcept override { return endpoint_; }
    HttpRequest http_request(const ModelRequest& request) const override {
        HttpRequest http = endpoint_.post("/v1/messages");
        std::string betas(http.headers.get("anthropic-beta"));
        const auto add = [&betas](std::string_view name) {
            if (!betas.empty()) betas += ',';
            betas += name;
        };
        if (needs_compaction(request)) add(detail::compaction_beta);
        if (options_.clear_tool_results_at > 0) add(detail::context_editing_beta);
        if (betas.empty()) return http;
        http.headers.set("anthropic-beta", std::move(betas));
        return http;
    }

    std::unique_ptr<detail::WireDecoder> decoder(MessageAssembler& assembler,
                                                 IdSource& ids) const override {
        return std::make_unique<detail::AnthropicDecoder>(assembler, ids);
    }

    JsonObject answer_body(const AssistantMessage& message) const override {
        return detail::anthropic_message(message);
    }

private:
    /// By default the models with a window of a million tokens, at their own endpoint.
    bool compacts(const ModelProfile& known) const {
        return known.capability.compaction.value_or(endpoint_.host() == "api.anthropic.com" &&
                                                    known.family.starts_with("claude-") &&
                                                    known.context_window.value_or(0) >= 1'000'000);
    }
    bool needs_compaction(const ModelRequest& request) const {
        if (!compacts(profile(request.model))) return false;
        if (request.options.compact_at() > 0) return true;
        return std::any_of(request.messages.begin(), request.messages.end(),
                           [&request](const Message& message) {
                               const AssistantMessage* answer = message.assistant();
                               return answer && has_compacted(*answer) &&
                                      detail::same_anthropic_family(*answer, request.model);
                           });
    }
    ModelProfile profile(const Model& model) const {
        const ProviderCapability configured{options_.capability,
                                            options_.model_capability_overrides, options_.base_url};
        return effective_profile(ModelApi::anthropic_messages, model, configured);
    }

    Endpoint endpoint_;
    AnthropicOptions options_;
};

}  // namespace

AnthropicProvider::AnthropicProvider(AnthropicOptions options)
    : HttpProvider(options.provider_id, std::make_shared<const Protocol>(options)) {}

BoundModel AnthropicProvider::model(std::string id) const {
    return model(model_named(std::move(id)));
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

}  // namespace cubepi
