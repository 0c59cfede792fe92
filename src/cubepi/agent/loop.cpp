#include <cubepi/agent/loop.hpp>

#include <utility>

#include <cubepi/agent/run/limit_checks.hpp>
#include <cubepi/agent/run/run_core.hpp>
#include <cubepi/agent/run/tool_batch.hpp>
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

/// A run without an agent: the objects that a run uses, with the state of `context` as long as it lasts.
struct FreeRun {
    FreeRun(AgentContext& owner, LoopOptions given, AgentListener emit)
        : context(owner),
          options(std::move(given)),
          runtime(options.runtime ? options.runtime : Runtime::standard()),
          provider(options.model.provider()) {
        fill(state, context, options);
        hub.subscribe(std::move(emit));
    }
    FreeRun(const FreeRun&) = delete;
    FreeRun& operator=(const FreeRun&) = delete;

    /// Awaits the work of the run, within its time limit. The caller's token, the limit and a cancellation of this coroutine
    /// are combined to one abort (D38).
    template <class T>
    Task<Outcome<T>> within_limits(Task<T> work) {
        const std::stop_callback<std::function<void()>> forward(options.stop_token, abort);
        const Executor executor = co_await this_executor;
        max_duration.start(*runtime, executor, options.limits.max_duration, abort);
        Task<T> abortable = abort_when_cancelled(std::move(work), abort);
        Outcome<T> ended = co_await outcome_of(std::move(abortable));
        log.drop_nulls();
        context.extra = std::move(state.extra);
        co_return ended;
    }

    AgentContext& context;
    LoopOptions options;
    const std::shared_ptr<const Runtime> runtime;
    const std::shared_ptr<Provider> provider;
    AgentState state = {};
    EventHub hub = {};
    ThreadLog log{state, nullptr, std::string()};
    FunctionInputs inputs{options};
    SerialCheck serial = {};
    const std::shared_ptr<HitlChannel> no_channel = {};
    const RunParts parts{.provider = provider,
                         .system_prompt = context.system_prompt,
                         .tools = context.tools,
                         .reasoning = options.reasoning,
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
    std::stop_source stop = {};
    const std::function<void()> abort = [source = stop]() mutable { source.request_stop(); };
    DurationLimit max_duration = {};
    RunCore core{parts, runtime->ids->next(), stop.get_token(), options.origin};
};

Task<RunResult> run_free(MessageList prompts, AgentContext& context, LoopOptions options,
                         AgentListener emit) {
    FreeRun run(context, std::move(options), std::move(emit));
    RunPlan plan;
    plan.prompts = inputs_of(prompts);
    plan.duration_limit = &run.max_duration;
    if (!run.options.hooks.replaced.empty()) {
        plan.opening = [&run] { return run.core.report_replaced(run.options.hooks.replaced); };
    }
    Task<RunResult> turns = run_turns(run.core, std::move(plan));
    Outcome<RunResult> ended = co_await run.within_limits(std::move(turns));
    context.messages = std::move(run.state.messages);
    co_return std::move(ended).value();
}

Task<ToolCallBatch> run_calls(AgentContext& context, AssistantMessage answer, LoopOptions options,
                              AgentListener emit) {
    if (has_failed(answer))
        throw Error(ErrorCode::invalid_argument,
                    "execute_tool_calls(): the answer failed or was aborted, so its calls may not "
                    "be what the model meant");
    FreeRun run(context, std::move(options), std::move(emit));
    // The keys of the calls are made of it.
    if (answer.id.empty()) answer.id = run.runtime->ids->next();
    ToolBatch batch(run.core, Message(std::move(answer)), run.parts.tools);
    Task<void> calls = batch.run();
    Outcome<void> ended = co_await run.within_limits(std::move(calls));
    if (std::exception_ptr failure = run.hub.take_failure()) std::rethrow_exception(failure);
    std::move(ended).value();
    ToolCallBatch made;
    made.messages = batch.results();
    made.terminate = batch.terminates();
    const Spending spending = run.core.spending();
    made.usage = spending.usage;
    made.cost = spending.cost;
    co_return made;
}

}  // namespace

}  // namespace cubepi::detail

namespace cubepi {

Task<RunResult> run_agent_loop(MessageList prompts, AgentContext& context, LoopOptions options,
                               AgentListener emit) {
    return detail::run_free(std::move(prompts), context, std::move(options), std::move(emit));
}

Task<RunResult> run_agent_loop_continue(AgentContext& context, LoopOptions options,
                                        AgentListener emit) {
    if (context.messages.empty()) {
        throw Error(ErrorCode::no_messages, "No messages to continue from: the context is empty");
    }
    return detail::run_free(MessageList(), context, std::move(options), std::move(emit));
}

Task<ToolCallBatch> execute_tool_calls(AgentContext& context, AssistantMessage message,
                                       LoopOptions options, AgentListener emit) {
    return detail::run_calls(context, std::move(message), std::move(options), std::move(emit));
}

}  // namespace cubepi
