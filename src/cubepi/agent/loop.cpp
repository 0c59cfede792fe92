#include <cubepi/agent/loop.hpp>

#include <utility>

#include <cubepi/agent/run/limit_checks.hpp>
#include <cubepi/agent/run/run_core.hpp>
#include <cubepi/agent/run/turn_loop.hpp>
#include <cubepi/core/outcome.hpp>

namespace cubepi::detail {

namespace {

std::vector<Input> inputs_of(const MessageList& messages) {
    std::vector<Input> inputs;
    for (const Message& message : messages) {
        Input input;
        input.message = message;
        inputs.push_back(std::move(input));
    }
    return inputs;
}

/// Queued messages from the caller's functions.
class FunctionInputs final : public InputSource {
public:
    explicit FunctionInputs(const LoopOptions& options) : options_(options) {}
    std::vector<Input> take_steering() override { return take(options_.get_steering_messages); }
    std::vector<Input> take_follow_ups() override { return take(options_.get_follow_up_messages); }
    void put_back(std::vector<Input>) override {}

private:
    static std::vector<Input> take(const std::function<MessageList()>& source) {
        return source ? inputs_of(source()) : std::vector<Input>();
    }
    const LoopOptions& options_;
};

/// Takes the history and the state of `context`, and what the options configure.
void fill(AgentState& state, AgentContext& context, const LoopOptions& options) {
    state.model = options.model.shared_spec();
    state.system_prompt = context.system_prompt;
    state.tools = context.tools;
    state.reasoning = options.reasoning;
    state.messages = context.messages;
    state.extra = std::move(context.extra);
}

Task<RunResult> run_free(MessageList prompts, AgentContext& context, LoopOptions options,
                         Listener emit) {
    const std::shared_ptr<const Runtime> runtime =
        options.runtime ? options.runtime : Runtime::standard();
    AgentState state;
    const std::shared_ptr<Provider> provider = options.model.provider();
    fill(state, context, options);
    EventHub hub;
    hub.subscribe(std::move(emit));
    ThreadLog log(state, nullptr, std::string());
    FunctionInputs inputs(options);
    SerialCheck serial;
    const std::shared_ptr<HitlChannel> no_channel;
    const RunParts parts{.provider = provider,
                         .system_prompt = state.system_prompt,
                         .tools = state.tools,
                         .reasoning = state.reasoning,
                         .hooks = &options.hooks,
                         .tool_execution = options.tool_execution,
                         .limits = options.limits,
                         .on_payload = options.on_payload,
                         .on_response = options.on_response,
                         .spill = options.spill,
                         .runtime = runtime,
                         .state = &state,
                         .hub = &hub,
                         .log = &log,
                         .inputs = &inputs,
                         .prefix_guard = nullptr,
                         .channel = no_channel,
                         .serial = serial};
    // The caller's token, the time limit and a cancellation of this coroutine are combined to one abort (D38).
    std::stop_source stop;
    const std::function<void()> abort = [stop]() mutable { stop.request_stop(); };
    const std::stop_callback<std::function<void()>> forward(options.stop_token, abort);
    DurationLimit max_duration;
    const Executor executor = co_await this_executor;
    max_duration.start(*runtime, executor, options.limits.max_duration, abort);
    RunCore core(parts, runtime->ids->next(), stop.get_token());
    RunPlan plan;
    plan.prompts = inputs_of(prompts);
    plan.duration_limit = &max_duration;
    if (!options.hooks.replaced.empty()) {
        plan.opening = [&core, &options] { return core.report_replaced(options.hooks.replaced); };
    }
    Task<RunResult> turns = run_turns(core, std::move(plan));
    Outcome<RunResult> ended = co_await outcome_of(abort_when_cancelled(std::move(turns), abort));
    log.drop_nulls();
    context.messages = std::move(state.messages);
    context.extra = std::move(state.extra);
    co_return std::move(ended).value();
}

}  // namespace

}  // namespace cubepi::detail

namespace cubepi {

Task<RunResult> run_agent_loop(MessageList prompts, AgentContext& context, LoopOptions options,
                               Listener emit) {
    return detail::run_free(std::move(prompts), context, std::move(options), std::move(emit));
}

Task<RunResult> run_agent_loop_continue(AgentContext& context, LoopOptions options, Listener emit) {
    if (context.messages.empty()) {
        throw Error(ErrorCode::no_messages, "No messages to continue from: the context is empty");
    }
    return detail::run_free(MessageList(), context, std::move(options), std::move(emit));
}

}  // namespace cubepi
