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

/// The number of queued messages taken at a time: the oldest one, or all.
enum class QueueMode : std::uint8_t { one_at_a_time, all };

/// The options of an agent. An aggregate for designated initializers: `Agent agent({.model = model});`
struct AgentOptions {
    BoundModel model = {};  ///< provider.model("id"), or Model{...} together with `provider`
    ProviderRef provider = {};
    std::string system_prompt = {};
    ToolList tools = {};  ///< pass one list to many agents: they share it
    std::optional<ReasoningControl> reasoning = {};
    std::vector<Middleware> middleware = {};

    // Explicit hooks: they replace the middleware's (see compose_middleware); a notice at the first run names the
    // replaced ones.
    CUBEPI_AGENT_HOOKS(CUBEPI_DETAIL_HOOK_MEMBER)
    PayloadHook on_payload = {};
    ResponseHook on_response = {};

    QueueMode steering_mode = QueueMode::one_at_a_time;
    QueueMode follow_up_mode = QueueMode::one_at_a_time;
    ExecutionMode tool_execution = ExecutionMode::parallel;
    AgentLimits limits = {};

    std::shared_ptr<Checkpointer> checkpointer =
        {};  ///< persistence is enabled if this and thread_id are set
    std::string thread_id = {};
    MessageList messages = {};              ///< initial history; not allowed together with a store
    std::shared_ptr<SpillSink> spill = {};  ///< stores tool output that is too long
    std::shared_ptr<const Runtime> runtime = {};  ///< null: Runtime::standard()
};

/// The user's input: a text, a message, or several messages.
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

/// Options of a prompt: `PromptOptions().run_id("...")`.
class PromptOptions {
public:
    PromptOptions() {}
    /// Sets the run's id; generated if absent.
    PromptOptions&& run_id(std::string value) && {
        run_id_ = std::move(value);
        return std::move(*this);
    }
    /// Sets earlier spending, which counts toward the limits `max_turns` and `max_spend` of the run, and is included in
    /// the usage and cost of its result.
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

/// The state of a queued input (D42).
enum class ReceiptState : std::uint8_t {
    queued,     ///< waiting for its place in a run
    committed,  ///< in the history, and in the store if there is one
    cancelled,  ///< withdrawn by cancel_steer or reset
    refused,    ///< intended for a run that is not the current one
};
std::string_view to_string(ReceiptState state) noexcept;

/// A handle to a queued input. Thread-safe.
class Receipt {
public:
    struct Shared;
    explicit Receipt(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
    const std::string& message_id() const noexcept;
    ReceiptState state() const noexcept;

private:
    std::shared_ptr<Shared> shared_;
};

/// The outcome of the last run in CubePi's terms; `none` before the first run and during a run.
enum class LastOutcome : std::uint8_t { none, complete, suspended, incomplete, abandoned };
std::string_view to_string(LastOutcome outcome) noexcept;

/// The state of an agent, read-only. The agent's setters change it. Used on the agent's executor.
struct AgentState {
    SharedString system_prompt = {};
    std::shared_ptr<const Model> model = {};  ///< never null; Agent::set_model() changes it
    ToolList tools = {};
    MessageList messages = {};
    JsonObject extra = {};
    PartialMessage streaming_message = {};  ///< the answer in progress
    SharedString error_message = {};        ///< of the last run; empty: none
    SharedString active_run_id = {};
    std::vector<SharedString> pending_tool_calls = {};  ///< ids, sorted
    std::optional<ReasoningControl> reasoning = {};
    bool is_streaming = false;  ///< a run is active
    LastOutcome last_outcome = LastOutcome::none;
};

/// A run as a stream of events: `auto run = agent.start("..."); while (auto event = co_await run.next()) ...` It starts
/// when the first event is requested, and pauses while events are not consumed. Destroying it aborts the run; the next
/// prompt() waits for the run to end. Used on the agent's executor; the agent must outlive it.
class AgentRun {
public:
    AgentRun(AgentRun&&) noexcept;
    AgentRun& operator=(AgentRun&&) noexcept;
    ~AgentRun();
    /// Returns the next event; empty after agent_end. After the last event, throws what prompt() would throw.
    Task<std::optional<AgentEvent>> next();
    /// Returns the result; discards the remaining events.
    Task<RunResult> result();
    void abort();

    struct State;

private:
    friend class Agent;
    explicit AgentRun(std::shared_ptr<State> state) : state_(std::move(state)) {}
    std::shared_ptr<State> state_;
};

/// The stateful facade: a model with tools, history, middleware and listeners. Not movable.
///
/// Threads: an agent is bound to one executor, that of the coroutine that runs it. Only abort(), steer(), follow_up()
/// and cancel_steer() may be called from any thread. A debug build of the library terminates the program with a message
/// if two threads use an agent at once (an executor without a strand). Destroying an agent during a run aborts the run;
/// its listeners receive no more events, and the caller that awaits prompt() gets the outcome `aborted`. A listener may
/// abort, steer, subscribe, cancel subscriptions and call the setters; it must not await a prompt of its own agent
/// (that throws Error(busy)).
class Agent {
public:
    /// Throws Error(invalid_argument) if the options are invalid.
    explicit Agent(AgentOptions options);
    ~Agent();
    Agent(const Agent&) = delete;
    Agent& operator=(const Agent&) = delete;

    /// Starts a run with the user's input and runs it to its end. Nothing happens before the task is awaited. First
    /// waits for the end of a run that was aborted: at most `limits.abort_grace` plus 5 s of the runtime's clock. An
    /// abort() during this wait ends it with the outcome `aborted` and no events. Throws Error(busy) if a run is active
    /// that was not aborted, or that has not ended in this time; a CheckpointerError if storage fails (D35); the
    /// exception of a listener (D6). Cancelling the awaiting coroutine aborts the run, closes it and then throws (D38).
    Task<RunResult> prompt(PromptInput input, PromptOptions options = {});
    /// Continues from the last persisted message (D2). Waits and throws like prompt(), and throws Error(no_messages) or
    /// Error(cannot_continue) if there is nothing to continue.
    Task<RunResult> resume(PromptOptions options = {});
    /// Returns a prompt() as a stream of events.
    AgentRun start(PromptInput input, PromptOptions options = {});

    /// Inserts a user message at the next step of the current run, or of the next run if none is active. With
    /// `for_run`, only of that run. Thread-safe.
    Receipt steer(PromptInput message, std::string for_run = {});
    /// Inserts a user message when the run would otherwise end. Thread-safe.
    Receipt follow_up(PromptInput message);
    /// Withdraws a queued steering message, by its message id or its `metadata.steer_id`; returns false if there is
    /// none. Thread-safe.
    bool cancel_steer(std::string_view id);
    /// Aborts the current run immediately (D7), and the prompts that wait for its end; has no effect when idle.
    /// Thread-safe.
    void abort();
    /// Completes when no run is active and the last append and listener calls have ended. Do not await it in a tool, a
    /// hook or a listener of the run: that would deadlock.
    Task<void> wait_for_idle();
    /// Clears messages, error and queues, but neither `extra` nor stored data. Throws Error(busy) during a run.
    void reset();

    /// Registers a listener for the events of this and all later runs.
    Subscription subscribe(Listener listener);

    /// Sets the model and its provider from the next model call on, even during a run. The history is preserved;
    /// content that is specific to another family of models is omitted from requests (D13). Throws
    /// Error(invalid_argument) without a provider.
    void set_model(BoundModel model);
    /// Takes effect at the next run.
    void set_system_prompt(std::string system_prompt);
    /// Takes effect at the next run (D43).
    void set_tools(ToolList tools);
    /// Takes effect at the next run; empty: the model's own default.
    void set_reasoning(std::optional<ReasoningControl> reasoning);
    /// Sets one key of the thread's persistent state; null removes it. Stored with the next message, or when a run
    /// stops.
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
