#include <cubepi/agent/run/agent_impl.hpp>

#include <optional>
#include <utility>

#include <cubepi/agent/transcript.hpp>

namespace cubepi {

namespace {

/// Returns null if all settings have their defaults.
std::unique_ptr<Agent::Impl::Settings> take_settings(AgentOptions& options) {
    HookSet hooks;
#define TAKE(type, name, ...) hooks.name = std::move(options.name);
    CUBEPI_AGENT_HOOKS(TAKE)
#undef TAKE
    Agent::Impl::Settings taken;
    taken.hooks = compose_middleware(options.middleware, std::move(hooks));
    taken.tool_execution = options.tool_execution;
    taken.limits = options.limits;
    taken.on_payload = std::move(options.on_payload);
    taken.on_response = std::move(options.on_response);
    taken.spill = std::move(options.spill);
    taken.channel = std::move(options.channel);
    for (const Middleware& one : options.middleware) {
        const std::vector<BoundModel>& models = one.models();
        taken.middleware_models.insert(taken.middleware_models.end(), models.begin(), models.end());
    }
    if (taken.channel) taken.active_questions = std::make_unique<detail::ActiveQuestions>();
    const bool all_default =
        taken.hooks.empty() && taken.tool_execution == ExecutionMode::parallel &&
        taken.limits == AgentLimits() && !taken.on_payload && !taken.on_response && !taken.spill &&
        !taken.channel && taken.middleware_models.empty();
    if (all_default) return nullptr;
    return std::make_unique<Agent::Impl::Settings>(std::move(taken));
}

/// Combines the model and the provider in `options.model`.
const std::shared_ptr<Provider>& provider_of(AgentOptions& options) {
    if (options.model) return options.model.provider();
    if (options.provider.get()) {
        options.model = BoundModel(options.provider.get(), options.model.spec());
        return options.model.provider();
    }
    throw Error(ErrorCode::invalid_argument,
                "AgentOptions: no provider: use .model = provider.model(\"id\"), or .provider "
                "together with "
                ".model = Model{...}");
}

std::shared_ptr<const Runtime> runtime_of(AgentOptions& options) {
    if (!options.runtime) return Runtime::standard();
    const Runtime& given = *options.runtime;
    if (!given.clock || !given.ids || !given.workers) {
        throw Error(ErrorCode::invalid_argument,
                    "AgentOptions: the runtime needs a clock, ids and workers: begin with "
                    "Runtime() and replace what is to differ");
    }
    return std::move(options.runtime);
}

AgentState first_state(AgentOptions& options) {
    if (!options.messages.empty() && options.checkpointer && !options.thread_id.empty()) {
        throw Error(ErrorCode::invalid_argument,
                    "AgentOptions: messages and a checkpointer with thread_id exclude each other: "
                    "the history comes "
                    "from the store");
    }
    AgentState state;
    state.model = options.model.shared_spec();
    state.system_prompt = std::move(options.system_prompt);
    state.tools = std::move(options.tools);
    for (const Middleware& one : options.middleware) {
        for (const AgentTool& tool : one.tools()) state.tools.push_back(tool);
    }
    state.reasoning = options.reasoning;
    state.messages = std::move(options.messages);
    return state;
}

}  // namespace

Agent::Impl::Impl(AgentOptions options)
    : provider(provider_of(options)),
      runtime(runtime_of(options)),
      own_settings(take_settings(options)),
      state(first_state(options)),
      inbox(options.steering_mode, options.follow_up_mode),
      log(state, std::move(options.checkpointer), std::move(options.thread_id)) {}

const Agent::Impl::Settings& Agent::Impl::settings() const noexcept {
    static const Settings all_default;
    return own_settings ? *own_settings : all_default;
}

detail::RunParts Agent::Impl::parts() noexcept {
    const Settings& set = settings();
    return {.provider = provider,
            .system_prompt = state.system_prompt,
            .tools = state.tools,
            .reasoning = state.reasoning,
            .hooks = &set.hooks,
            .tool_execution = set.tool_execution,
            .limits = set.limits,
            .on_payload = set.on_payload,
            .on_response = set.on_response,
            .spill = set.spill,
            .runtime = runtime,
            .state = &state,
            .hub = &hub,
            .log = &log,
            .inputs = &inbox,
            .prefix_guard = &prefix_guard,
            .channel = set.channel,
            .serial = serial};
}

}  // namespace cubepi
