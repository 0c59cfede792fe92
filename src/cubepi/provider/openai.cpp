#include <cubepi/provider/openai.hpp>

#include <cubepi/provider/openai/chat_decoder.hpp>
#include <cubepi/provider/openai/chat_request.hpp>
#include <cubepi/provider/openai/openai_endpoint.hpp>
#include <cubepi/provider/wire/http_stream.hpp>

namespace cubepi {

class OpenAIProvider::Protocol final : public detail::WireProtocol {
public:
    explicit Protocol(OpenAIOptions options)
        : endpoint_("OpenAI", options), options_(std::move(options)) {}

    Built build(const ModelRequest& request) const override {
        detail::OpenAIChatSettings settings;
        settings.capability = capability_of(request.model);
        settings.base_url = options_.base_url;
        settings.openai_endpoint = endpoint_.is_openai();
        settings.extra_body = options_.extra_body;
        return detail::build_openai_chat(request, settings);
    }

    bool takes_response_format(const Model& model) const {
        static const std::map<std::string, CapabilityDescriptor> no_overrides;
        const ProviderCapability told{capability_of(model), no_overrides, options_.base_url};
        const ModelProfile profile = effective_profile(ModelApi::openai_chat, model, told);
        return profile.capability.response_format.value_or(
            endpoint_.is_openai() && detail::openai_takes_response_format(model.id));
    }

    void finish_body(JsonObject& body) const override { detail::unfold_extra_body(body); }

    HttpRequest http_request() const override { return endpoint_.post("/chat/completions"); }

    std::unique_ptr<detail::WireDecoder> decoder(MessageAssembler& assembler,
                                                 IdSource& ids) const override {
        return std::make_unique<detail::OpenAIChatDecoder>(assembler, ids,
                                                           options_.accept_missing_finish);
    }

    JsonObject answer_body(const AssistantMessage& message) const override {
        return detail::openai_chat_completion(message);
    }

    const std::string& base_url() const noexcept override { return endpoint_.shown_url(); }
    const RetryPolicy& retry() const noexcept override { return options_.retry; }
    const RequestSigner& signer() const noexcept override { return options_.sign_request; }
    const detail::CallTimeouts& timeouts() const noexcept override { return endpoint_.timeouts(); }

    std::string without_secrets(std::string text) const override {
        return endpoint_.without_secrets(std::move(text));
    }

private:
    const CapabilityDescriptor& capability_of(const Model& model) const {
        const auto own = options_.model_capability_overrides.find(model.id);
        return own == options_.model_capability_overrides.end() ? options_.capability : own->second;
    }

    detail::OpenAIEndpoint endpoint_;
    OpenAIOptions options_;
};

OpenAIProvider::OpenAIProvider(OpenAIOptions options)
    : BaseProvider(options.provider_id),
      protocol_(std::make_shared<const Protocol>(std::move(options))) {}

BoundModel OpenAIProvider::model(std::string id) const {
    Model spec;
    spec.id = std::move(id);
    return model(std::move(spec));
}

BoundModel OpenAIProvider::model(Model model) const {
    return BoundModel(std::make_shared<OpenAIProvider>(*this), std::move(model));
}

BoundModel openai_model(std::string id) {
    OpenAIOptions options;
    options.api_key = env("OPENAI_API_KEY");
    if (std::string url = env("OPENAI_BASE_URL"); !url.empty()) options.base_url = std::move(url);
    return OpenAIProvider(std::move(options)).model(std::move(id));
}

bool OpenAIProvider::takes_response_format(const Model& model) const {
    return protocol_->takes_response_format(model);
}

PayloadPreview OpenAIProvider::preview(const ModelRequest& request) const {
    return detail::preview_of(*protocol_, request);
}

MessageStream OpenAIProvider::stream(ModelRequest request) {
    return detail::http_stream(std::move(request), protocol_, observers());
}

}  // namespace cubepi
