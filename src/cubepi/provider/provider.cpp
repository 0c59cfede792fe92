#include <cubepi/provider/provider.hpp>

#include <utility>

namespace cubepi {

const std::shared_ptr<const Runtime>& StreamOptions::runtime() const noexcept {
    if (runtime_) return runtime_;
    static const std::shared_ptr<const Runtime> standard = Runtime::standard();
    return standard;
}

const std::string& Provider::provider_id() const noexcept {
    static const std::string none;
    return none;
}

bool Provider::takes_response_format(const Model&) const { return false; }

BoundModel::BoundModel(Model model) : model_(std::make_shared<const Model>(std::move(model))) {}

BoundModel::BoundModel(std::shared_ptr<Provider> provider, Model model)
    : provider_(std::move(provider)) {
    if (model.provider_id.empty() && provider_) model.provider_id = provider_->provider_id();
    model_ = std::make_shared<const Model>(std::move(model));
}

const Model& BoundModel::spec() const noexcept {
    static const Model none;
    return model_ ? *model_ : none;
}

std::shared_ptr<const Model> BoundModel::shared_spec() const {
    return model_ ? model_ : std::make_shared<const Model>();
}

MessageStream BoundModel::stream(MessageList messages, SharedString system_prompt,
                                 std::shared_ptr<const ToolDefinitions> tools,
                                 StreamOptions options) const {
    if (!provider_) {
        throw Error(ErrorCode::invalid_argument,
                    "Model '" + spec().id +
                        "' has no provider: take it from one (provider.model(\"" + spec().id +
                        "\")) or give Agent a .provider");
    }
    ModelRequest request;
    request.model = spec();
    request.messages = std::move(messages);
    request.system_prompt = std::move(system_prompt);
    request.tools = std::move(tools);
    request.options = std::move(options);
    return provider_->stream(std::move(request));
}

Task<AssistantMessage> BoundModel::generate(MessageList messages, SharedString system_prompt,
                                            std::shared_ptr<const ToolDefinitions> tools,
                                            StreamOptions options) const {
    MessageStream stream = this->stream(std::move(messages), std::move(system_prompt),
                                        std::move(tools), std::move(options));
    co_return co_await stream.result();
}

}  // namespace cubepi
