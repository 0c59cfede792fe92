#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/agent/run/limit_checks.hpp>
#include <cubepi/agent/run/run_core.hpp>
#include <cubepi/agent/tool.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task_scope.hpp>

namespace cubepi::detail {

/// The calls of a message that a continued run takes up.
struct OpenCalls {
    std::vector<std::string> ids = {};  ///< without a result
    std::vector<std::string> interrupted =
        {};  ///< of these: were started, and must not run again (D62)
    /// A killed process has left them: any of them may have been started.
    bool killed = false;
    /// Calls whose tool is idempotent must not run again either: they have ended too many processes.
    bool exhausted = false;
};

/// Returns true if the body of a call may begin again (ReplayPolicy).
bool is_repeatable(const AgentTool* tool, const JsonObject& arguments) noexcept;

/// The tool calls of one assistant message: runs them and adds their results to the history, in the order of the calls.
///
/// All calls are prepared first (resolved, validated, approved), so that no tool starts before all calls of the batch
/// have passed; then they start in order and run concurrently. A sequential batch prepares and runs call by call. A
/// call's failure is its own error result. After an abort no further call starts. The stop token of running calls is
/// stopped; calls that have requested it are cancelled after the grace period, the others immediately (D7).
///
/// If the agent has a channel, a hook that waits for the user does not hold up the hooks of the next calls (D18). When
/// the run is to be suspended, the batch ends as soon as all its calls have ended or wait for the user (D59): the waits are
/// cancelled and these calls get no result.
class ToolBatch {
public:
    /// `open`: takes up these calls of a suspended run only.
    ToolBatch(RunCore& core, const Message& message, ToolList tools,
              std::optional<OpenCalls> open = std::nullopt);
    ~ToolBatch();
    ToolBatch(const ToolBatch&) = delete;
    ToolBatch& operator=(const ToolBatch&) = delete;

    /// Runs all calls and commits the results. Throws ListenerFailed if a listener did, after all results are
    /// committed.
    Task<void> run();

    const MessageList& results() const noexcept { return results_; }
    /// Returns true if every result requests the end of the run.
    bool terminates() const noexcept;
    /// Returns true if calls wait for the user and have no result: the run is to be suspended.
    bool suspended() const noexcept;

private:
    /// The progress of a call.
    enum class State : std::uint8_t {
        received,
        preparing,  ///< its hooks are awaited
        waiting,    ///< waits for the user, and the batch has ended without its result
        ready,      ///< prepared; its tool will run
        answered,   ///< before_tool_call has determined the result; the tool does not run
        refused,    ///< the result is an error of the batch; no hook sees it
        running,    ///< its tool is awaited
        finished,   ///< has its result
    };
    struct Call {
        explicit Call(const ToolCall& c) : given(&c) {}
        const ToolCall& call() const noexcept { return resolved ? *resolved : *given; }
        bool is_error() const noexcept { return result.is_error.value_or(false); }
        /// Returns true if the tool has requested its stop token, so that it may end by itself.
        bool sees_stop() const noexcept { return context && context->stop_token_taken(); }

        const ToolCall* given;                  // the message's
        std::optional<ToolCall> resolved = {};  // replaced by a hook
        const AgentTool* tool = nullptr;
        ToolList added = {};          // owns `tool` if it was added to the run
        JsonObject args = {};         // validated
        std::string undeclared = {};  // a note about arguments that the schema does not have
        bool is_repeatable = false;   // with these arguments
        State state = State::received;
        std::optional<std::string> block_reason = {};  // set if before_tool_call blocked the call
        std::optional<JudgedFile> judged_file = {};
        Json hitl_trace = {};
        std::optional<std::size_t> max_chars = {};  // of the result, set by a hook
        std::optional<ToolContext> context = {};
        std::stop_source stop = {};                 // the tool's own token
        std::stop_source kill{std::nostopstate};    // cancels its coroutine
        bool suspended = false;                     // its wait for the user was cancelled
        std::unique_ptr<PausableTimer> limit = {};  // while it runs
        std::string time_out = {};                  // set when its time limit expired
        AgentToolResult result = {};
    };
    struct AbortWatch {
        ToolBatch* batch;
        void operator()() const { batch->pass_abort_on(); }
    };

    void find_tool(Call& call) const;
    bool is_sequential() const;
    bool was_interrupted(const Call& call, const JsonObject& arguments) const noexcept;
    void add_open_calls(const std::vector<const ToolCall*>& calls);
    Task<void> prepare_calls(std::size_t first, std::size_t end);
    Task<void> prepare_with_questions(TaskScope& scope, std::size_t first, std::size_t end);
    void suspend_waiting();
    void on_question_change();
    bool may_repeat(std::string_view tool_call_id) const;
    /// Records that the bodies of the calls from `first` on are about to run, and that their answers are used (D62).
    Task<void> mark_started(std::size_t first, std::size_t end);
    Task<void> run_sequential();
    Task<void> run_parallel();
    Task<void> run_others(TaskScope& scope, std::size_t first, Task<void> first_call);

    Task<void> prepare(Call& call);
    Task<void> prepare_and_note_change(Call& call);
    Task<void> prepare_resolved(Call& call);
    Task<bool> resolve(Call& call);
    bool check(Call& call);
    static const Json* unread_arguments(const Call& call);
    bool validate(Call& call, JsonObject args);
    Task<void> ask_before(Call& call);

    Task<void> announce(Call& call);
    Task<void> announce_in_batch(Call& call);
    std::string key_of(const Call& call) const;
    /// Starts a call that was announced. A pending result belongs to a running call, and goes to await_result().
    MaybeTask<AgentToolResult> start(Call& call);
    Task<void> await_result(Call& call, Task<AgentToolResult> task);
    AgentToolResult result_of(const Call& call, Outcome<AgentToolResult> outcome) const;
    Task<void> conclude(Call& call, AgentToolResult result);
    Task<void> ask_after(Call& call);
    Task<void> update(Call& call, Json partial_result);
    Task<void> commit(Call& call);

    /// Delivers an event; the exception of a listener is stored until the batch has ended.
    template <class E>
    Task<void> emit(E event) {
        try {
            MaybeTask<> delivery = core_.deliver(std::move(event));
            if (delivery.is_pending()) co_await std::move(delivery).task();
        } catch (...) {
            keep_failure();
        }
    }
    void keep_failure() noexcept {
        if (!listener_failure_) listener_failure_ = std::current_exception();
    }

    std::unique_ptr<PausableTimer> time_limit(Call& call);
    /// Thread-safe: stops the tools' tokens immediately, the rest happens on the executor.
    void pass_abort_on();
    void on_stop();
    void kill_running();
    void refuse(Call& call, std::string text);
    void refuse_incomplete(Call& call);
    bool ended_so_before() const;
    void refuse_aborted(Call& call);
    void refuse_unannounced(Call& call);
    template <class T>
    Task<T> call_hook(Call& call, Task<T> hook);
    /// Refuses a call whose hook failed.
    void refuse_after(Call& call, const std::exception_ptr& failure);

    RunCore& core_;
    Message message_;
    const AssistantMessage& assistant_;
    ToolList tools_;
    const std::optional<OpenCalls> open_;
    std::vector<Call> calls_;  // must not move
    MessageList results_;
    std::exception_ptr listener_failure_;
    Executor executor_ = {};
    std::shared_ptr<ToolBatch*> self_;  // created by an abort; expires with the batch
    std::unique_ptr<ClockTimer> grace_;
    AsyncEvent slot_;
    std::size_t running_ = 0;
    bool bodies_begun_ = false;
};

}  // namespace cubepi::detail
