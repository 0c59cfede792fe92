#include <cubepi/agent/run/prompt_scope.hpp>

#include <algorithm>
#include <utility>

namespace cubepi::detail {

std::unique_ptr<PromptScope> PromptScope::enter(Agent::Impl& impl, const PromptOptions& options) {
    const std::shared_ptr<const PromptSettings>& settings = PromptAccess::settings(options);
    return settings ? std::make_unique<PromptScope>(impl, settings) : nullptr;
}

PromptScope::PromptScope(Agent::Impl& impl, std::shared_ptr<const PromptSettings> settings)
    : impl_(impl), settings_(std::move(settings)) {
    if (settings_->answer) {
        const BoundModel model =
            settings_->model ? settings_->model : BoundModel(impl.provider, impl.state.model);
        const ToolList& tools = settings_->tools ? *settings_->tools : impl.state.tools;
        const auto& reasoning = settings_->reasoning ? settings_->reasoning : impl.state.reasoning;
        answer_ = settings_->make_answer_task(*settings_, model, tools, reasoning);
    }
    if (settings_->stop_token.stop_possible()) {
        std::function<void()> abort = [&impl] { impl.inbox.abort(); };
        forward_.emplace(settings_->stop_token, std::move(abort));
    }
    // Last: the destructor restores it.
    if (settings_->model || settings_->temperature) replace_model();
}

void PromptScope::replace_model() {
    BoundModel own(impl_.provider, impl_.state.model);
    BoundModel model = settings_->model ? settings_->model : own;
    if (settings_->temperature) {
        auto spec = std::make_shared<Model>(model.spec());
        spec->temperature = settings_->temperature;
        model = BoundModel(model.provider(), std::shared_ptr<const Model>(std::move(spec)));
    }
    replaced_ = std::move(own);
    model_ = model.shared_spec();
    impl_.provider = model.provider();
    impl_.state.model = model_;
}

PromptScope::~PromptScope() {
    forward_.reset();
    // set_model() during the run has replaced both.
    if (!model_ || impl_.state.model != model_) return;
    impl_.provider = replaced_.provider();
    impl_.state.model = replaced_.shared_spec();
}

void PromptScope::apply(RunParts& parts) const {
    if (settings_->system_prompt) parts.system_prompt = *settings_->system_prompt;
    if (settings_->tools) parts.tools = *settings_->tools;
    if (settings_->reasoning) parts.reasoning = settings_->reasoning;
    parts.prompt = settings_.get();
}

std::chrono::milliseconds PromptScope::max_duration(
    std::chrono::milliseconds of_agent, std::chrono::steady_clock::time_point now) const {
    const std::chrono::milliseconds limit = settings_->max_duration.value_or(of_agent);
    if (!settings_->deadline) return limit;
    // A deadline that has passed ends the run as soon as it can be ended.
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*settings_->deadline - now);
    const auto positive = std::max(left, std::chrono::milliseconds(1));
    return limit.count() > 0 ? std::min(limit, positive) : positive;
}

}  // namespace cubepi::detail
