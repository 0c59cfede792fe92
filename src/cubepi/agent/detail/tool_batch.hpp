#pragma once

#include <cstddef>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <cubepi/agent/detail/run_core.hpp>
#include <cubepi/agent/tool_list.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/task_scope.hpp>

namespace cubepi::detail {

/// Runs the tool calls of one assistant message and puts their results into the history, in the order of the calls.
///
/// All calls are prepared first (resolved, validated, asked about), so that no tool starts before every gate of the batch
/// was passed; then they start in order and run side by side. A sequential batch prepares and runs call by call.
/// One call's failure is its own error result. After an abort no further call starts; the ones that run get their stop
/// token, and cancellation when the grace is over (D7).
class ToolBatch {
public:
    ToolBatch(RunCore& core, const Message& message, ToolList tools);

    /// Runs everything and commits the results. Throws ListenerFailed when a listener did, after all results are
    /// committed.
    Task<void> run();

    const MessageList& results() const noexcept { return results_; }
    /// Every result asks to end the run.
    bool terminates() const noexcept;

private:
    struct Call {
        explicit Call(ToolCall c) : call(std::move(c)) {}
        ToolCall call;  // as resolved
        const AgentTool* tool = nullptr;
        JsonObject args = {};                           // validated
        bool resolved = false;                          // a hook rewrote the call
        std::optional<AgentToolResult> immediate = {};  // decided without running the tool
        bool after_hook = true;                         // after_tool_call is asked
        bool blocked = false;
        std::string block_reason = {};
        Json hitl_trace = {};
        std::unique_ptr<ToolContext> context = {};
        std::stop_source stop = {};               // the tool's own token
        std::stop_source kill{std::nostopstate};  // cancels its coroutine
        std::string time_out = {};                // set when its time was up
        bool running = false;
        bool finished = false;
        AgentToolResult result = {};
        bool is_error = false;
    };

    bool is_sequential() const;
    Task<void> run_sequential();
    Task<void> run_parallel(TaskScope& scope);
    Task<void> run_one(Call& call);

    Task<void> prepare(Call& call);
    Task<bool> resolve(Call& call);
    bool validate(Call& call, JsonObject args);
    Task<void> ask_before(Call& call);

    /// Announces the call and starts it. Empty when it is over already.
    Task<std::optional<Task<void>>> start(Call& call);
    Task<void> await_outcome(Call& call, Task<AgentToolResult> task);
    Task<void> conclude(Call& call, AgentToolResult result);
    Task<void> ask_after(Call& call);
    Task<void> limit_size(Call& call);
    Task<void> update(Call& call, Json partial_result);
    Task<void> commit(Call& call);
    std::unique_ptr<ClockTimer> time_limit(Call& call);
    void on_stop();
    void kill_running();
    void refuse(Call& call, std::string text);

    RunCore& core_;
    Message message_;
    const AssistantMessage& assistant_;
    ToolList tools_;
    std::deque<Call> calls_;
    MessageList results_;
    std::exception_ptr listener_failure_;
    Executor executor_ = {};
    std::unique_ptr<ClockTimer> grace_;
    AsyncEvent slot_;
    std::size_t running_ = 0;
};

}  // namespace cubepi::detail
