#include <cubepi/provider/gemini.hpp>

#include <cubepi/provider/gemini/generate_api.hpp>
#include <cubepi/provider/wire/wire_protocol.hpp>

namespace cubepi {

namespace {

using detail::Endpoint;

constexpr const char* google_host = "generativelanguage.googleapis.com";

Endpoint::Vendor vendor_of(const GeminiOptions& options) {
    Endpoint::Vendor vendor;
    vendor.name = "Gemini";
    vendor.key_variable = "GEMINI_API_KEY";
    vendor.own_host = google_host;
    vendor.ignored_path = "/v1beta";
    if (!options.api_key.empty()) vendor.headers.emplace_back("x-goog-api-key", options.api_key);
    return vendor;
}

/// The endpoint and its settings. Immutable, shared by its calls.
struct GeminiEndpoint {
    explicit GeminiEndpoint(GeminiOptions given)
        : endpoint(vendor_of(given), given), options(std::move(given)) {}

    Endpoint endpoint;
    GeminiOptions options;
};

class GeminiCall final : public detail::WireProtocol {
public:
    explicit GeminiCall(std::shared_ptr<const GeminiEndpoint> at) : at_(std::move(at)) {}

    std::shared_ptr<const WireProtocol> of_one_call() const override {
        return std::make_shared<const GeminiCall>(at_);
    }

    /// Models before version 3 take no schema in a request with tools.
    bool takes_response_format(const Model& model) const override {
        const ModelProfile known = profile(model);
        return known.capability.response_format.value_or(at_->endpoint.host() == google_host &&
                                                         known.family.starts_with("gemini-3"));
    }

    Built build(const ModelRequest& request) const override {
        detail::GeminiSettings settings;
        settings.profile = profile(request.model);
        settings.extra_body = at_->options.extra_body;
        settings.sends_signatures = sends_signatures_;
        return detail::build_gemini(request, settings);
    }

    /// A signature of another project or an older model (D89).
    std::string build_differently(const EndpointFailure& failure) const override {
        if (!sends_signatures_ || !refuses_thinking(failure)) return {};
        sends_signatures_ = false;
        return "The endpoint refuses the thought signatures of earlier answers: the history is "
               "sent without them";
    }

    const Endpoint& endpoint() const noexcept override { return at_->endpoint; }
    HttpRequest http_request(const ModelRequest& request) const override {
        return at_->endpoint.post(detail::gemini_path(request.model.id));
    }

    std::unique_ptr<detail::WireDecoder> decoder(MessageAssembler& assembler,
                                                 IdSource& ids) const override {
        return std::make_unique<detail::GeminiDecoder>(assembler, ids);
    }

    JsonObject answer_body(const AssistantMessage& message) const override {
        return detail::gemini_response(message);
    }

private:
    ModelProfile profile(const Model& model) const {
        const ProviderCapability configured{at_->options.capability,
                                            at_->options.model_capability_overrides,
                                            at_->options.base_url};
        return effective_profile(ModelApi::gemini, model, configured);
    }

    std::shared_ptr<const GeminiEndpoint> at_;
    mutable bool sends_signatures_ = true;  ///< of this call, which runs on one executor
};

}  // namespace

GeminiProvider::GeminiProvider(GeminiOptions options)
    : HttpProvider(options.provider_id, std::make_shared<const GeminiCall>(
                                            std::make_shared<const GeminiEndpoint>(options))) {}

BoundModel GeminiProvider::model(std::string id) const { return model(model_named(std::move(id))); }

BoundModel GeminiProvider::model(Model model) const {
    return BoundModel(std::make_shared<GeminiProvider>(*this), std::move(model));
}

BoundModel gemini_model(std::string id) {
    GeminiOptions options;
    options.api_key = env("GEMINI_API_KEY");
    if (std::string url = env("GEMINI_BASE_URL"); !url.empty()) options.base_url = std::move(url);
    return GeminiProvider(std::move(options)).model(std::move(id));
}

}  // namespace cubepi
