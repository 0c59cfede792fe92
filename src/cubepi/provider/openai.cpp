#include <cubepi/provider/openai.hpp>

#include <cubepi/provider/openai/chat_api.hpp>
#include <cubepi/provider/wire/wire_protocol.hpp>

namespace cubepi {

namespace {

using detail::Endpoint;

class Protocol final : public detail::WireProtocol {
public:
    explicit Protocol(OpenAIOptions options)
        : endpoint_(detail::openai_vendor("OpenAI", options.api_key), options),
          options_(std::move(options)) {}

    bool takes_response_format(const Model& model) const override {
        const ProviderCapability configured{options_.capability,
                                            options_.model_capability_overrides, options_.base_url};
        const ModelProfile profile = effective_profile(ModelApi::openai_chat, model, configured);
        return profile.capability.response_format.value_or(
            is_openai() && detail::openai_takes_response_format(model.id));
    }

    Built build(const ModelRequest& request) const override {
        const auto own = options_.model_capability_overrides.find(request.model.id);
        detail::OpenAIChatSettings settings;
        settings.capability =
            own == options_.model_capability_overrides.end() ? options_.capability : own->second;
        settings.base_url = options_.base_url;
        settings.openai_endpoint = is_openai();
        settings.extra_body = options_.extra_body;
        return detail::build_openai_chat(request, settings);
    }

    const Endpoint& endpoint() const noexcept override { return endpoint_; }
    HttpRequest http_request() const override { return endpoint_.post("/chat/completions"); }

    std::unique_ptr<detail::WireDecoder> decoder(MessageAssembler& assembler,
                                                 IdSource& ids) const override {
        return std::make_unique<detail::OpenAIChatDecoder>(assembler, ids,
                                                           options_.accept_missing_finish);
    }

    JsonObject answer_body(const AssistantMessage& message) const override {
        return detail::openai_chat_completion(message);
    }

private:
    /// True for OpenAI's own endpoint, also at Azure; false for compatible servers.
    bool is_openai() const noexcept {
        return endpoint_.host() == "api.openai.com" ||
               endpoint_.host().ends_with(".openai.azure.com");
    }

    Endpoint endpoint_;
    OpenAIOptions options_;
};

}  // namespace

OpenAIProvider::OpenAIProvider(OpenAIOptions options)
    : HttpProvider(options.provider_id, std::make_shared<const Protocol>(options)) {}

BoundModel openai_model(std::string id) {
    OpenAIOptions options;
    options.api_key = env("OPENAI_API_KEY");
    if (std::string url = env("OPENAI_BASE_URL"); !url.empty()) options.base_url = std::move(url);
    return OpenAIProvider(std::move(options)).model(std::move(id));
}

}  // namespace cubepi
