#include <cubepi/provider/provider.hpp>

#include <algorithm>
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

std::shared_ptr<ObserverRegistry> Provider::observer_registry() const { return nullptr; }

std::vector<BoundModel> Provider::inner_models() const { return {}; }

namespace {

/// Handles to one provider share its observers.
bool is_same(const Provider& a, const Provider& b) {
    const std::shared_ptr<ObserverRegistry> observers = a.observer_registry();
    return &a == &b || (observers && observers == b.observer_registry());
}

void collect_providers(const BoundModel& model, std::vector<std::shared_ptr<Provider>>& found) {
    const std::shared_ptr<Provider>& provider = model.provider();
    if (!provider) return;
    const std::vector<BoundModel> inner = provider->inner_models();
    for (const BoundModel& one : inner) collect_providers(one, found);
    const bool known = std::any_of(found.begin(), found.end(),
                                   [&](const auto& other) { return is_same(*other, *provider); });
    if (inner.empty() && !known) found.push_back(provider);
}

}  // namespace

std::vector<std::shared_ptr<Provider>> providers_of(const BoundModel& model) {
    std::vector<std::shared_ptr<Provider>> found;
    collect_providers(model, found);
    return found;
}

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
