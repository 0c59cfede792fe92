#include <cubepi/provider/provider.hpp>

#include <algorithm>
#include <exception>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/provider/message_assembler.hpp>

namespace cubepi {

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

const std::shared_ptr<const Runtime>& StreamOptions::runtime() const noexcept {
    if (runtime_) return runtime_;
    static const std::shared_ptr<const Runtime> standard = Runtime::standard();
    return standard;
}

void MessageStream::note(const StreamEvent& event) {
    ++events_since_yield_;
    if (!event.is_terminal()) return;
    final_ = event.partial;
    finished_ = true;
}

std::optional<StreamEvent> MessageStream::ready() {
    if (finished_ || !source_ || events_since_yield_ >= yield_interval) return std::nullopt;
    std::optional<StreamEvent> event = source_->ready();
    if (event) note(*event);
    return event;
}

Task<std::optional<StreamEvent>> MessageStream::next() {
    if (events_since_yield_ >= yield_interval) {
        events_since_yield_ = 0;
        co_await yield_now();
    }
    std::optional<StreamEvent> event = ready();
    if (event || finished_ || !source_) co_return event;
    std::exception_ptr failure;
    try {
        event.emplace(co_await source_->next());
    } catch (...) {
        failure = std::current_exception();
    }
    if (failure) {
        if (is_cancellation(failure)) std::rethrow_exception(failure);
        MessageAssembler assembler{AssistantMessage()};
        event.emplace(assembler.error(failure));
    }
    note(*event);
    co_return event;
}

Task<AssistantMessage> MessageStream::result() {
    while (!finished_) {
        const std::optional<StreamEvent> event = co_await next();
        if (!event) break;
    }
    co_return final_.get();
}

const std::string& Provider::provider_id() const noexcept {
    static const std::string none;
    return none;
}

bool Provider::takes_response_format(const Model&) const { return false; }

std::shared_ptr<ObserverRegistry> Provider::observer_registry() const { return nullptr; }

std::vector<BoundModel> Provider::inner_models() const { return {}; }

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
