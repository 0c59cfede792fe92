#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/agent/agent.hpp>
#include <cubepi/agent/run/event_hub.hpp>
#include <cubepi/agent/run/input_queue.hpp>
#include <cubepi/agent/run/limit_checks.hpp>
#include <cubepi/agent/run/run_questions.hpp>
#include <cubepi/agent/run/thread_log.hpp>
#include <cubepi/agent/run_account.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/provider/prefix_guard.hpp>

namespace cubepi::detail {

class AnswerTask;
struct PromptSettings;

/// The objects that a run uses; all must outlive it. The system prompt, the tools and the reasoning are those of the
/// state when the run started: later changes take effect at the next run. A changed model takes effect at the next
/// model call.
struct RunParts {
    const std::shared_ptr<Provider>& provider;  ///< of state->model; both change with set_model()
    SharedString system_prompt;
    ToolList tools;
    std::optional<ReasoningControl> reasoning;
    const HookSet* hooks;
    ExecutionMode tool_execution;
    const AgentLimits& limits;
    const PayloadHook& on_payload;
    const ResponseHook& on_response;
    const std::shared_ptr<SpillSink>& spill;
    const std::shared_ptr<const Runtime>& runtime;
    AgentState* state;
    EventHub* hub;
    ThreadLog* log;
    InputSource* inputs;
    PrefixGuard* prefix_guard;                    ///< null: prompt prefixes are not compared
    const std::shared_ptr<HitlChannel>& channel;  ///< may be null
    SerialCheck& serial;
    const PromptSettings* prompt = nullptr;  ///< null: the prompt has no settings of its own
    bool takes_added_tools = true;           ///< from hooks (RunAccount::add_tools())
};

/// Thrown in place of the exception of a run-level hook.
struct HookFailed {
    std::string_view hook;
    std::exception_ptr cause;
    /// "hook on_run_end failed: ..."
    std::string text() const;
};

/// The state shared by all parts of a run: its identity, its events, its messages, its abort.
class RunCore {
public:
    RunCore(const RunParts& parts, SharedString run_id, std::stop_token stop,
            RunOrigin origin = RunOrigin(), std::shared_ptr<RunAccount> budget = {});

    const RunParts& parts() const noexcept { return parts_; }
    AgentState& state() const noexcept { return *parts_.state; }
    const Runtime& runtime() const noexcept { return *parts_.runtime; }
    const SharedString& run_id() const noexcept { return run_id_; }
    const RunInfo& info() const noexcept { return account_->info(); }
    /// The identity and the account of the run, for tools and hooks.
    const std::shared_ptr<RunAccount>& account() const noexcept { return account_; }
    std::uint32_t turn() const noexcept { return event_.turn; }
    void next_turn() noexcept {
        ++event_.turn;
        request_ = nullptr;
    }
    /// Records the request of the turn for hooks.
    void set_request(const ModelRequest& request) {
        if (!parts_.hooks->empty()) request_ = std::make_shared<const ModelRequest>(request);
    }
    const std::stop_token& stop_token() const noexcept { return stop_; }
    bool stopped() const noexcept { return stop_.stop_requested(); }
    const MessageList& new_messages() const noexcept { return new_messages_; }
    /// Returns the usage and the cost so far, with what tools and hooks have charged (D67), for the result of the run.
    Spending spending() const;
    /// Returns the cost that counts toward `max_spend`, in USD; empty if it is unknown. It includes what the run had spent when it
    /// was suspended (D166) or its process was killed (D222), which is not in the result of this attempt.
    std::optional<double> limited_cost() const { return account_->spending().cost; }
    /// Returns the number of model calls before this run that count toward its limits.
    std::uint32_t turns_before() const noexcept { return turns_before_; }
    void start_with(const PriorSpending& spending);
    /// Sets what earlier attempts of the run have spent, and the part of it that the history has; empty: unknown.
    void continue_with(std::optional<double> cost, std::optional<double> in_history);
    /// Returns the cost of the run in all attempts, without PromptOptions::prior_spending(); empty if it is unknown.
    std::optional<double> cost_of_attempts() const;
    /// The questions of the run to the user; null if the agent has no channel.
    RunQuestions* questions() const noexcept { return questions_; }
    void set_questions(RunQuestions* questions) noexcept { questions_ = questions; }
    /// The value that the run is to answer with; null: any text.
    AnswerTask* answer_task() const noexcept { return answer_task_; }
    void set_answer_task(AnswerTask* task) noexcept { answer_task_ = task; }
    /// Returns the tools that were added to the run, as far as it takes them.
    ToolList added_tools() const;
    /// Begins a call of `model` and returns its tools, which include those that were added to the run.
    ToolList begin_call(const BoundModel& model);
    /// Returns the model of the next call.
    BoundModel model() const noexcept { return BoundModel(parts_.provider, state().model); }
    /// Returns true if the run can be suspended: its requests are stored.
    bool can_suspend() const noexcept {
        return questions_ && questions_->is_durable() && parts_.log->persistent();
    }
    /// Adds the usage and the cost of an answer to a request for `asked`. Returns the cost; empty if it is unknown. An aborted call
    /// whose cost is unknown counts with all that is reserved for it (D120).
    std::optional<double> count(const AssistantMessage& answer, const Model& asked,
                                std::optional<double> reserved);
    RepeatedCalls& repeated_calls() noexcept { return repeated_calls_; }
    double wall_seconds() const;

    /// Updates the state and delivers the event. Throws ListenerFailed after all listeners have received it.
    template <class E>
    Task<void> emit(E event) {
        MaybeTask<> delivery = deliver(std::move(event));
        if (delivery.is_pending()) co_await std::move(delivery).task();
    }
    /// emit() without a coroutine as long as no listener waits.
    template <class E>
    MaybeTask<> deliver(E event) {
        const SerialSection here(parts_.serial);
        note(event);
        ++seq_;
        if (parts_.hub->busy()) return deliver_later(AgentEvent::Body(std::move(event)));
        event_.seq = seq_;
        event_.body.template emplace<E>(std::move(event));
        return deliver_event();
    }
    /// deliver() for message_update, once per delta.
    MaybeTask<> deliver_update(StreamEvent&& event);
    /// To be called where a run waits, or runs what is not its own: until then the events come together, and have one
    /// time. To ask for the time can cost more than to deliver an event.
    void invalidate_timestamp() noexcept { time_known_ = false; }
    /// A message begins: message_start, then what finish() does.
    Task<void> announce(Message message);
    /// Stores the message (storage first, then memory) and delivers message_end.
    Task<void> finish(Message message);
    /// Ends an answer whose call is made again: delivers message_end without its calls, and stores nothing.
    Task<void> discard(const Message& message);
    /// Whether calls at the end of the history have no result yet.
    bool has_open_calls() const { return parts_.log->has_open_calls(); }
    /// Answers what is open at the end of the history (D1, D37), announced and stored.
    Task<void> close_open_calls();
    /// Puts queued inputs into the history. What does not get there goes back to where it came from.
    Task<void> take_in(std::vector<Input> inputs);
    /// Returns inputs that did not reach the history to their queues.
    void put_back(std::vector<Input> inputs);
    Task<void> notice(Notice notice);
    /// A notice for each hook that composition replaced.
    Task<void> report_replaced(std::vector<ReplacedHook> replaced);

    HookContext hook_context();
    /// Runs a hook so that an abort cancels it.
    template <class T>
    Task<T> call_hook(Task<T> hook) {
        const TimePasses later{*this};
        invalidate_timestamp();
        co_return co_await cancel_on(stop_, std::move(hook));
    }

    /// Like call_hook(), for a hook whose failure ends the run: throws HookFailed, or the cancellation of an abort
    /// unchanged.
    template <class T>
    Task<T> call_run_hook(std::string_view name, Task<T> hook) {
        std::exception_ptr failure;
        try {
            Task<T> call = call_hook(std::move(hook));
            co_return co_await std::move(call);
        } catch (...) {
            failure = std::current_exception();
        }
        throw_hook_failure(name, failure);
    }

private:
    struct TimePasses {
        RunCore& core;
        ~TimePasses() { core.invalidate_timestamp(); }
    };
    MaybeTask<> deliver_event() {
        if (!time_known_) event_.timestamp = runtime().clock->now();
        time_known_ = true;
        MaybeTask<> delivery = parts_.hub->deliver(event_, stop_);
        if (delivery.is_pending()) invalidate_timestamp();
        return delivery;
    }
    [[noreturn]] void throw_hook_failure(std::string_view name,
                                         const std::exception_ptr& failure) const;
    MaybeTask<> deliver_later(AgentEvent::Body body);
    Task<void> deliver_in_turn(AgentEvent event, EventHub::Turn turn);
    Message stamped(Message message) const;
    Message with_cost(Message message);

    // Update the state according to an event.
    template <class E>
    void note(const E&) noexcept {}
    void note(const ToolExecutionStartEvent& event);
    void note(const ToolExecutionEndEvent& event);
    void note(const TurnEndEvent& event);

    const RunParts& parts_;
    SharedString run_id_;
    std::stop_token stop_;
    AgentEvent event_;  // must not change while the hub is busy: listeners may be reading it
    std::uint64_t seq_ = 0;
    MessageList new_messages_;
    const std::shared_ptr<RunAccount> account_;
    std::shared_ptr<const ModelRequest> request_;  ///< null: no call in this turn, or no hooks
    std::uint32_t turns_before_ = 0;
    Spending prior_;                            ///< of PromptOptions
    std::optional<double> earlier_cost_ = 0.0;  ///< of earlier attempts
    std::optional<double> stored_cost_ = 0.0;   ///< of all attempts, as far as the history has it
    RepeatedCalls repeated_calls_;
    ToolList own_tools_;  // of the last call, without those that were added to the run
    ToolList all_tools_;
    std::size_t added_tools_ = 0;  // in all_tools_
    RunQuestions* questions_ = nullptr;
    AnswerTask* answer_task_ = nullptr;
    bool time_known_ = false;  ///< event_.timestamp is current
};

// Failures as messages, and failed messages as errors.

/// The text of an aborted answer, and of the error of an aborted run.
inline constexpr std::string_view aborted_text = "Request was aborted";

/// Returns true if the answer ended with an error or an abort.
bool has_failed(const AssistantMessage& answer);

/// Returns the message that closes a run which failed outside the model's answer.
Message failure_message(const RunCore& core, const std::string& text, bool aborted);

/// Returns the typed error of an answer that has failed.
std::shared_ptr<const Error> error_of(const AssistantMessage& answer);

/// Awaits `run` so that cancelling the awaiting coroutine calls `abort`; the run then closes regularly (D38), and the
/// cancellation is thrown.
Task<void> abort_when_cancelled(Task<void> run, std::function<void()> abort);

template <class T>
Task<T> abort_when_cancelled(Task<T> run, std::function<void()> abort) {
    std::optional<T> result;
    Task<void> stored = store_result(std::move(run), result);
    co_await abort_when_cancelled(std::move(stored), std::move(abort));
    co_return std::move(*result);
}

}  // namespace cubepi::detail
