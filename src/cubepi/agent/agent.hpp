#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/agent/limits.hpp>
#include <cubepi/agent/listener.hpp>
#include <cubepi/agent/middleware.hpp>
#include <cubepi/agent/run_result.hpp>
#include <cubepi/agent/tool.hpp>
#include <cubepi/agent/tool_list.hpp>
#include <cubepi/core/agent_event.hpp>
#include <cubepi/core/message_list.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/provider/provider.hpp>

namespace cubepi {

class Agent;

/// How a queue is emptied: its oldest message at a time, or all at once.
enum class QueueMode : std::uint8_t { one_at_a_time, all };

/// What an agent is made of. An aggregate for designated initialisers: `Agent agent({.model = model});`
struct AgentOptions {
    BoundModel model = {};  ///< provider.model("id"), or Model{...} together with `provider`
    ProviderRef provider = {};
    std::string system_prompt = {};
    ToolList tools = {};  ///< give many agents one list: they share it
    std::optional<ReasoningControl> reasoning = {};
    std::vector<Middleware> middleware = {};

    // Explicit hooks: they replace the middleware's (see compose_middleware); a notice at the first run names those.
    TransformContextHook transform_context = {};
    ConvertToLlmHook convert_to_llm = {};
    TransformSystemPromptHook transform_system_prompt = {};
    ResolveToolCallHook resolve_tool_call = {};
    BeforeToolCallHook before_tool_call = {};
    AfterToolCallHook after_tool_call = {};
    AfterModelResponseHook after_model_response = {};
    ShouldStopAfterTurnHook should_stop_after_turn = {};
    OnRunEndHook on_run_end = {};
    AroundModelCallHook around_model_call = {};
    PayloadHook on_payload = {};
    ResponseHook on_response = {};

    QueueMode steering_mode = QueueMode::one_at_a_time;
    QueueMode follow_up_mode = QueueMode::one_at_a_time;
    ExecutionMode tool_execution = ExecutionMode::parallel;
    AgentLimits limits = {};

    std::shared_ptr<Checkpointer> checkpointer =
        {};  ///< persistence is on when this and thread_id are set
    std::string thread_id = {};
    MessageList messages = {};              ///< history to start with; not together with a store
    std::shared_ptr<SpillSink> spill = {};  ///< takes tool output that is too long
    std::shared_ptr<const Runtime> runtime = {};  ///< null: Runtime::standard()
};

/// What the user says: a text, a message, or several messages.
class PromptInput {
public:
    PromptInput(const char* text) : PromptInput(user_message(text)) {}
    PromptInput(std::string text) : PromptInput(user_message(std::move(text))) {}
    PromptInput(std::string_view text) : PromptInput(std::string(text)) {}
    PromptInput(Message message) { messages_.push_back(std::move(message)); }
    PromptInput(MessageList messages) : messages_(std::move(messages)) {}
    const MessageList& messages() const& noexcept { return messages_; }
    MessageList messages() && noexcept { return std::move(messages_); }

private:
    MessageList messages_;
};

/// Model calls made for a task before a run of it starts, for example by a run that it replaces.
struct PriorSpending {
    std::size_t turns = 0;
    Usage usage = {};
    std::optional<double> cost = 0.0;  ///< USD; absent: unknown
};

/// `PromptOptions().run_id("...")`
class PromptOptions {
public:
    PromptOptions() {}
    /// The run's id; made when absent.
    PromptOptions&& run_id(std::string value) && {
        run_id_ = std::move(value);
        return std::move(*this);
    }
    /// Counts toward the limits `max_turns` and `max_spend` of the run, and is part of the usage and cost of its result.
    PromptOptions&& prior_spending(PriorSpending value) && {
        prior_spending_ = std::move(value);
        return std::move(*this);
    }
    const std::string& run_id() const noexcept { return run_id_; }
    const PriorSpending& prior_spending() const noexcept { return prior_spending_; }

private:
    std::string run_id_;
    PriorSpending prior_spending_;
};

/// What became of a queued input (D42).
enum class ReceiptState : std::uint8_t {
    queued,     ///< waits for its place in a run
    committed,  ///< in the history, and in the store if there is one
    cancelled,  ///< taken back by cancel_steer or reset
    refused,    ///< meant for a run that is not the current one
};
std::string_view to_string(ReceiptState state) noexcept;

/// A handle on a queued input. May be read from any thread.
class Receipt {
public:
    struct Shared;
    explicit Receipt(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
    const std::string& message_id() const noexcept;
    ReceiptState state() const noexcept;

private:
    std::shared_ptr<Shared> shared_;
};

/// How the last run ended, in CubePi's words; `none` before the first and while one runs.
enum class LastOutcome : std::uint8_t { none, complete, suspended, incomplete, abandoned };
std::string_view to_string(LastOutcome outcome) noexcept;

/// The state of an agent, for reading. The agent's setters change it. Used on the agent's executor.
struct AgentState {
    SharedString system_prompt = {};
    std::shared_ptr<const Model> model = {};  ///< never null; Agent::set_model() changes it
    ToolList tools = {};
    MessageList messages = {};
    JsonObject extra = {};
    PartialMessage streaming_message = {};  ///< the answer under way
    SharedString error_message = {};        ///< of the last run; empty: none
    SharedString active_run_id = {};
    std::vector<SharedString> pending_tool_calls = {};  ///< ids, sorted
    std::optional<ReasoningControl> reasoning = {};
    bool is_streaming = false;  ///< a run is active
    LastOutcome last_outcome = LastOutcome::none;
};

/// A run to pull events from: `auto run = agent.start("..."); while (auto event = co_await run.next()) ...`
/// It begins when the first event is asked for, and waits when events are not taken. Dropping it aborts the run; the next
/// prompt() waits for its end.
/// Used on the agent's executor; the agent outlives it.
class AgentRun {
public:
    AgentRun(AgentRun&&) noexcept;
    AgentRun& operator=(AgentRun&&) noexcept;
    ~AgentRun();
    /// The next event; empty after agent_end. Throws what prompt() would throw, after the last event.
    Task<std::optional<AgentEvent>> next();
    /// The result; takes the rest of the events when they were not taken.
    Task<RunResult> result();
    void abort();

    struct State;

private:
    friend class Agent;
    explicit AgentRun(std::shared_ptr<State> state) : state_(std::move(state)) {}
    std::shared_ptr<State> state_;
};

/// The stateful façade: a model with tools, history, middleware and listeners. It does not move.
///
/// Threads: an agent lives on one executor, that of the coroutine that runs it. abort(), steer(), follow_up() and
/// cancel_steer() may be called from any thread, nothing else may. A debug build of the library ends the program with a
/// message when two threads are inside an agent at once (an executor without a strand).
/// Destroying an agent during a run aborts the run; its listeners get nothing more, and whoever awaits prompt() gets
/// the outcome `aborted`.
/// A listener may abort, steer, subscribe, cancel subscriptions and call the setters; it must not await a prompt of its
/// own agent (that throws Error(busy)).
class Agent {
public:
    /// Throws Error(invalid_argument) for options that can never work.
    explicit Agent(AgentOptions options);
    ~Agent();
    Agent(const Agent&) = delete;
    Agent& operator=(const Agent&) = delete;

    /// Starts a turn from what the user says and runs it to its end. Nothing happens before the task is awaited.
    /// Waits first for the end of a run that was aborted: at most `limits.abort_grace` and 5 s on the runtime's clock. An
    /// abort() during this wait ends it with the outcome `aborted` and no events.
    /// Throws Error(busy) when a run is active that was not aborted, or that has not ended in this time; a
    /// CheckpointerError when storage fails (D35); what a listener threw (D6). Cancelling the awaiting coroutine aborts the
    /// run, closes it and then throws (D38).
    Task<RunResult> prompt(PromptInput input, PromptOptions options = {});
    /// Continues from the last persisted message (D2). Waits and throws as prompt() does, and Error(no_messages) or
    /// Error(cannot_continue) when there is nothing to do.
    Task<RunResult> resume(PromptOptions options = {});
    /// prompt() as a stream of events.
    AgentRun start(PromptInput input, PromptOptions options = {});

    /// Puts a user message in at the next step of the current run; of the next run when none is active. With
    /// `for_run`, only of that run. Any thread.
    Receipt steer(PromptInput message, std::string for_run = {});
    /// Puts a user message in when the run would end. Any thread.
    Receipt follow_up(PromptInput message);
    /// Takes queued steering back, by its message id or its `metadata.steer_id`; false when there is none. Any thread.
    bool cancel_steer(std::string_view id);
    /// Ends the current run at once (D7), and the prompts that wait for its end; does nothing when idle. Any thread.
    void abort();
    /// Completes when no run is active, including its last append and its last listener. Do not await it in a tool, a hook
    /// or a listener of the run: it would wait for itself.
    Task<void> wait_for_idle();
    /// Forgets messages, error and queues; not `extra`, not what is stored. Throws Error(busy) during a run.
    void reset();

    /// Registers a listener for the events of all runs from now on.
    Subscription subscribe(Listener listener);

    /// The model and its provider from the next call of the model on, also during a run. The history stays; what belongs
    /// to another family of models is left out of requests (D13). Throws Error(invalid_argument) without a provider.
    void set_model(BoundModel model);
    /// From the next run on.
    void set_system_prompt(std::string system_prompt);
    /// From the next run on (D43).
    void set_tools(ToolList tools);
    /// From the next run on; empty: the model's own default.
    void set_reasoning(std::optional<ReasoningControl> reasoning);
    /// Sets one key of the thread's persistent state; null removes it. Stored with the next message, or when a run stops.
    void set_extra(std::string_view key, Json value);
    /// Replaces the history. Throws Error(busy) during a run, and Error(invalid_argument) for an agent with a store,
    /// whose history is the stored thread.
    void set_messages(MessageList messages);

    const AgentState& state() const noexcept;
    const std::shared_ptr<const Runtime>& runtime() const noexcept;
    const std::string& thread_id() const noexcept;

    struct Impl;

private:
    std::shared_ptr<Impl> impl_;
};

}  // namespace cubepi
