#pragma once

#include <functional>
#include <stop_token>

#include <cubepi/agent/agent.hpp>

namespace cubepi {

/// The state of run_agent_loop, which runs without an Agent. `messages` grows; `tools` and `extra` are the caller's.
struct AgentContext {
    SharedString system_prompt = {};
    MessageList messages = {};
    std::vector<AgentTool> tools = {};
    JsonObject extra = {};
};

/// The options of run_agent_loop and execute_tool_calls.
struct LoopOptions {
    BoundModel model = {};
    HookSet hooks = {};
    std::optional<ReasoningControl> reasoning = {};
    ExecutionMode tool_execution = ExecutionMode::parallel;
    AgentLimits limits = {};
    PayloadHook on_payload = {};
    ResponseHook on_response = {};
    std::function<MessageList()> get_steering_messages = {};
    std::function<MessageList()> get_follow_up_messages = {};
    std::shared_ptr<SpillSink> spill = {};
    std::shared_ptr<const Runtime> runtime = {};
    std::stop_token stop_token = {};
    RunOrigin origin = {};  ///< where the run comes from, for tools and observers
};

/// Runs the loop without an agent: no persistence, no state. Adds `prompts` and all resulting messages to `context`,
/// which must outlive the task, and passes each event to `emit`. Failures of model and network are outcomes; exceptions
/// of hooks are the outcome `failed`, those of `emit` are thrown after the run is closed. Cancelling the awaiting
/// coroutine aborts the run, as `stop_token` does, and throws after the run is closed.
Task<RunResult> run_agent_loop(MessageList prompts, AgentContext& context, LoopOptions options,
                               AgentListener emit);
/// Runs the loop like run_agent_loop(), without new prompts. Throws Error(no_messages) if the context is empty.
Task<RunResult> run_agent_loop_continue(AgentContext& context, LoopOptions options,
                                        AgentListener emit);

/// The results of execute_tool_calls().
struct ToolCallBatch {
    MessageList messages = {};  ///< of role tool_result, in the order of the calls
    bool terminate = false;     ///< every result requests the end of a run
    Usage usage = {};           ///< of the model calls that tools and hooks have charged (D67)
    std::optional<double> cost = {};  ///< of these calls in USD; absent if that of any is unknown
};

/// Executes the tool calls of one answer as a run does, without calling a model, which must not have failed (a run executes no call
/// of such an answer; Error(invalid_argument)): the hooks about calls, the limits of tools,
/// parallel or sequential, `max_duration` and `stop_token`. `emit` receives the events of tools, and message_start and
/// message_end of each result. Every call has a result; failures are error results. `context` provides the tools, and the
/// history and state that hooks see; `extra` is updated, the results are not added to its messages. It must outlive the task.
/// Throws what `emit` throws, after all results are known. Cancelling the awaiting coroutine aborts the calls and then throws.
Task<ToolCallBatch> execute_tool_calls(AgentContext& context, AssistantMessage message,
                                       LoopOptions options, AgentListener emit);

}  // namespace cubepi
