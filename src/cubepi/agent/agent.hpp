#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/agent/hitl_channel.hpp>
#include <cubepi/agent/listener.hpp>
#include <cubepi/agent/middleware.hpp>
#include <cubepi/agent/prompt_options.hpp>
#include <cubepi/agent/run_result.hpp>
#include <cubepi/agent/tool.hpp>
#include <cubepi/agent/typed_answer.hpp>
#include <cubepi/core/agent_event.hpp>
#include <cubepi/core/message_list.hpp>
#include <cubepi/core/run_info.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/provider/provider.hpp>

namespace cubepi {

class Agent;

/// The number of queued messages taken at a time: the oldest one, or all.
enum class QueueMode : std::uint8_t { one_at_a_time, all };

/// Limits of a run (D24). Zero disables a limit. Reaching a limit of the run ends it with the outcome `limited` and the
/// limit's name; reaching a tool's limit produces an error result that the model sees.
struct AgentLimits {
    std::size_t max_turns = 250;
    /// USD of one prompt or resume, computed from known prices (provider/cost.hpp). What a model call can cost is reserved before
    /// it is made, also in the run of which this one is a sub-agent; close to the limit the answer gets fewer tokens, and a
    /// call that is left fewer than 1,024 is not made (D120). A model whose price is unknown is not called.
    double max_spend = 0.0;
    /// Calls of the same tool, with the same arguments and the same result, in one prompt or resume, while no call is new to
    /// it. At half of this number the model is told in the result; at this number the run ends (D121).
    std::size_t max_repeated_calls = 0;
    /// Of one prompt or resume. A negative one, such as what is left of an exceeded budget, has been reached.
    std::chrono::milliseconds max_duration = std::chrono::milliseconds(0);
    std::chrono::milliseconds tool_timeout = std::chrono::minutes(10);  ///< default for tools
    std::size_t parallel_tools = 16;
    std::size_t tool_result_chars = 50'000;  ///< Unicode code points
    std::chrono::milliseconds abort_grace =
        std::chrono::seconds(2);  ///< for tools that honor a stop
    /// Memory of one answer of the model, as StreamOptions::max_answer_bytes counts it. An answer that needs more ends the
    /// run; the first 64 KiB of its content stay in the history.
    std::size_t max_answer_bytes = std::size_t{64} << 20U;
    /// How often in a row a model call is made again because a temporary failure has cut its answer off (D15). What was streamed of
    /// it is discarded: its message_end has the error, and neither the history nor the next request has it. Zero: such an answer
    /// ends the run.
    std::size_t max_cut_answers = 0;
    /// Makes such a call again also if listeners have received text of the answer, which they must be able to take back.
    bool repeats_shown_text = false;
    friend bool operator==(const AgentLimits&, const AgentLimits&) = default;
};

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
    /// The channel on which middleware and tools ask the user. The agent emits the events of its requests. With a
    /// CheckpointedChannel and a store, detach() suspends a run that waits.
    std::shared_ptr<HitlChannel> channel = {};
    MessageList messages = {};              ///< initial history; not allowed together with a store
    std::shared_ptr<SpillSink> spill = {};  ///< stores tool output that is too long
    std::shared_ptr<const Runtime> runtime = {};  ///< null: Runtime::standard()
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
    /// Returns the next event; empty after agent_end or agent_suspended. After the last event, throws what prompt() would throw.
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

/// An AgentRun whose result has a value.
template <class T>
class TypedAgentRun : private AgentRun {
public:
    TypedAgentRun(AgentRun run, std::shared_ptr<std::optional<T>> value)
        : AgentRun(std::move(run)), value_(std::move(value)) {}
    using AgentRun::abort;
    using AgentRun::next;
    /// Returns the result; discards the remaining events.
    Task<TypedResult<T>> result() { return detail::typed_result<T>(AgentRun::result(), value_); }

private:
    std::shared_ptr<std::optional<T>> value_;
};

/// The stateful facade: a model with tools, history, middleware and listeners. Not movable.
///
/// Threads: an agent is bound to one executor, that of the coroutine that runs it. Only abort(), steer(), follow_up(),
/// cancel_steer() and detach() may be called from any thread. A debug build of the library terminates the program with a message
/// if two threads use an agent at once (an executor without a strand). Destroying an agent during a run aborts the run;
/// its listeners receive no more events, and the caller that awaits prompt() gets the outcome `aborted`. A listener may
/// abort, steer, subscribe, cancel subscriptions and call the setters; it must not await a prompt of its own agent
/// (that throws Error(busy)).
class Agent {
public:
    /// Throws Error(invalid_argument) if the options are invalid.
    explicit Agent(AgentOptions options);
    /// Creates an agent with a model and the defaults of all other options.
    explicit Agent(BoundModel model);
    ~Agent();
    Agent(const Agent&) = delete;
    Agent& operator=(const Agent&) = delete;

    /// Starts a run with the user's input and runs it to its end. Nothing happens before the task is awaited. First
    /// waits for the end of a run that was aborted: at most `limits.abort_grace` plus 5 s of the runtime's clock. An
    /// abort() during this wait ends it with the outcome `aborted` and no events. Throws Error(busy) if a run is active
    /// that was not aborted, or that has not ended in this time; a CheckpointerError if storage fails (D35); the
    /// exception of a listener (D6); PendingRequestsError if the thread waits for answers (D60). Cancelling the awaiting
    /// coroutine aborts the run, closes it and then throws (D38).
    Task<RunResult> prompt(PromptInput input, PromptOptions options = {});
    /// Continues from the last persisted message (D2). A suspended run continues with its own id: the questions that are
    /// open are asked on the channel again. Waits and throws like prompt(), and throws Error(no_messages) or
    /// Error(cannot_continue) if there is nothing to continue.
    Task<RunResult> resume(PromptOptions options = {});
    /// Requests an answer that is a value of the C++ type T (see schema/json_convert.hpp), from an agent with or without
    /// tools (D80). The endpoint enforces the schema if it can; otherwise the model must call a tool `structured_output`. An
    /// invalid answer is sent back with its errors, once unless PromptOptions::answer() sets another number. The run ends with
    /// the first valid answer: queued inputs wait for the next run. PartialAnswer reads the value while it is streamed.
    template <class T>
    Task<TypedResult<T>> prompt(PromptInput input, PromptOptions options = {}) {
        auto value = std::make_shared<std::optional<T>>();
        detail::PromptAccess::request_answer(options, detail::answer_request<T>(value));
        Task<RunResult> work = prompt(std::move(input), std::move(options));
        return detail::typed_result<T>(std::move(work), std::move(value));
    }
    /// Does the same for resume(): a run that was suspended or interrupted continues to a value.
    template <class T>
    Task<TypedResult<T>> resume(PromptOptions options = {}) {
        auto value = std::make_shared<std::optional<T>>();
        detail::PromptAccess::request_answer(options, detail::answer_request<T>(value));
        Task<RunResult> work = resume(std::move(options));
        return detail::typed_result<T>(std::move(work), std::move(value));
    }
    /// Returns a prompt() as a stream of events.
    AgentRun start(PromptInput input, PromptOptions options = {});
    /// Returns a prompt<T>() as a stream of events.
    template <class T>
    TypedAgentRun<T> start(PromptInput input, PromptOptions options = {}) {
        auto value = std::make_shared<std::optional<T>>();
        detail::PromptAccess::request_answer(options, detail::answer_request<T>(value));
        return TypedAgentRun<T>(start(std::move(input), std::move(options)), std::move(value));
    }
    /// Returns a resume() as a stream of events.
    AgentRun start_resume(PromptOptions options = {});

    // Human in the loop: see docs/guides/human-in-the-loop.md.

    /// Requests that the current run, which waits for the user, ends as `suspended` (D59): as soon as its other tool calls
    /// have ended or wait too, its requests stay stored, and the last event is agent_suspended. Returns false, without
    /// effect, if no request waits. A request that is answered meanwhile continues the run. Throws Error(no_channel)
    /// without a channel, and Error(invalid_state) if the channel or the store is not durable. Thread-safe; await the end
    /// of the run with wait_for_idle() or prompt().
    bool detach();
    /// Answers a question of the thread's suspended run and, if it was the last one that was open, continues the run to its
    /// next end. While others are open, the answer is stored and the outcome is `suspended` without any event. `question_id`: HitlRequest::request_id, or
    /// the `question_id` that one open question has; empty stands for the only question. Throws Error(no_pending_request) if no question is named and none waits; Error(stale_answer) if the named one does not wait;
    /// Error(bad_answer) if the answer does not fit (check_answer()), in which case the question stays open;
    /// Error(no_channel); Error(busy) if a run of this agent is active: its questions are answered on the channel.
    Task<RunResult> respond(std::string question_id, Json answer, AnswerOrigin origin = {});
    /// Does the same for a run that was started by prompt<T>(), which continues to a value.
    template <class T>
    Task<TypedResult<T>> respond(std::string question_id, Json answer, AnswerOrigin origin = {},
                                 PromptOptions options = {}) {
        auto value = std::make_shared<std::optional<T>>();
        detail::PromptAccess::request_answer(options, detail::answer_request<T>(value));
        Task<RunResult> work = respond_with(std::move(question_id), std::move(answer),
                                            std::move(origin), std::move(options));
        return detail::typed_result<T>(std::move(work), std::move(value));
    }
    /// Returns a respond() as a stream of events.
    AgentRun start_response(std::string question_id, Json answer, AnswerOrigin origin = {});
    /// Closes the thread's suspended run: its calls get error results, the history gets a closing message of the assistant,
    /// the requests and their answers are removed. Aborts the current run first, if there is one. Emits agent_aborted.
    Task<void> abort_pending(std::string reason = "aborted");
    /// Returns the requests of the thread that are stored and can still be answered, in the order in which they were
    /// made. Requests that have expired are not among them.
    Task<std::vector<HitlRequest>> load_pending_hitl_requests();
    /// Returns the requests of the current run that wait in this process. Thread-safe as far as the channel's pending() is.
    std::vector<HitlRequest> in_flight_hitl_requests() const;

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

    /// Registers a listener for the events of this and all later runs: for all of them, or those of some types.
    Subscription subscribe(AgentListener listener, EventTypes types = EventTypes());

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

    /// Removes the message with this id and all later ones from the history, so that the next prompt() replaces them ("edit and
    /// regenerate"). Without a store, the rest must be a legal history (D1). With a store the thread is not changed (D81): its
    /// part before the message, which must begin a run, is forked to a new thread, and the agent continues in that one; see
    /// thread_id(). Throws Error(invalid_argument) if there is no such message or it cannot be the first one that is removed,
    /// or if `new_thread_id` is missing; Error(unsupported) if the store is not a ForkStore; the errors of fork();
    /// Error(busy) during a run.
    Task<void> rewind(std::string message_id, std::string new_thread_id = {});

    /// Copies a thread of the agent's store, as it was when the run `after_run_id` completed, into a new thread: the messages
    /// without a run and those of runs completed by then, these runs, and `extra`, in which `metadata` replaces `fork`. One
    /// transaction: of two callers with the same new id, also in different processes, one succeeds. Neither thread needs to be
    /// the agent's, whose own state does not change. Throws Error(invalid_state) without a store, Error(unsupported) if it is
    /// not a ForkStore, ThreadNotFoundError, RunNotCompletedError, ThreadAlreadyExistsError.
    Task<void> fork(std::string source_thread_id, std::string new_thread_id,
                    std::string after_run_id, std::optional<JsonObject> metadata = std::nullopt);
    /// Runs one prompt on a copy of a thread as fork() would make it, and discards the copy: nothing is stored, and this agent's
    /// listeners receive no events. The copy has this agent's model, system prompt, tools, hooks and limits. Hooks see a copy of
    /// `extra`, but share the members of their middleware; tools of middleware refuse their calls. May be used during a run.
    /// Throws like fork(), and Error(unsupported) if the agent has a channel: a probe cannot ask. Failures of the model are
    /// outcomes.
    Task<RunResult> fork_once(std::string source_thread_id, PromptInput input,
                              std::string after_run_id, PromptOptions options = {});

    const AgentState& state() const noexcept;
    /// Returns the models that the agent may call: its own, and those that its middleware names.
    std::vector<BoundModel> models() const;
    const std::shared_ptr<const Runtime>& runtime() const noexcept;
    const std::string& thread_id() const noexcept;

    struct Impl;

private:
    Task<RunResult> respond_with(std::string question_id, Json answer, AnswerOrigin origin,
                                 PromptOptions options);

    std::shared_ptr<Impl> impl_;
};

}  // namespace cubepi
