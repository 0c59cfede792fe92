#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include <cubepi/core/json.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/shared_string.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi {

class HitlChannel;
class RunAccount;
class StreamOptions;
struct RunInfo;
struct Usage;

namespace detail {
class ToolProgress;
}

/// The file by which a policy has decided about a call. Links may lead to another file by the time the tool runs.
struct JudgedFile {
    std::string path = {};    ///< the argument `path` of the call
    std::string target = {};  ///< where it led: a path in the workspace without symbolic links
};

/// The second argument of a tool's callback. Valid until the call has ended.
class ToolContext {
public:
    using UpdateSink = std::function<Task<void>(Json)>;
    ToolContext(SharedString tool_call_id, SharedString tool_name, std::stop_token stop,
                std::shared_ptr<const Runtime> runtime, UpdateSink update,
                std::shared_ptr<HitlChannel> channel = {}, std::shared_ptr<RunAccount> run = {},
                std::string call_key = {}, bool repeated = false,
                std::optional<JudgedFile> judged_file = {})
        : tool_call_id_(std::move(tool_call_id)),
          tool_name_(std::move(tool_name)),
          stop_(std::move(stop)),
          runtime_(std::move(runtime)),
          update_(std::move(update)),
          channel_(std::move(channel)),
          run_(std::move(run)),
          call_key_(std::move(call_key)),
          repeated_(repeated),
          judged_file_(std::move(judged_file)) {}
    /// A copy may request the token later, so copying counts as requesting it.
    ToolContext(const ToolContext& other)
        : tool_call_id_(other.tool_call_id_),
          tool_name_(other.tool_name_),
          stop_(other.stop_token()),
          runtime_(other.runtime_),
          update_(other.update_),
          channel_(other.channel_),
          run_(other.run_),
          call_key_(other.call_key_),
          repeated_(other.repeated_),
          judged_file_(other.judged_file_),
          progress_(other.progress_) {}
    ToolContext& operator=(const ToolContext&) = delete;

    const SharedString& tool_call_id() const noexcept { return tool_call_id_; }
    const SharedString& tool_name() const noexcept { return tool_name_; }
    /// Returns a token that is stopped when the run is aborted or the tool's time limit expires. A tool that has
    /// requested the token is given `limits.abort_grace` (2 s) to end by itself and is then cancelled; any other tool
    /// is cancelled immediately (D7).
    const std::stop_token& stop_token() const noexcept {
        stop_token_taken_.store(true, std::memory_order_relaxed);
        return stop_;
    }
    /// Returns true if the tool has requested the token.
    bool stop_token_taken() const noexcept {
        return stop_token_taken_.load(std::memory_order_relaxed);
    }
    const Runtime& runtime() const noexcept { return *runtime_; }
    const std::shared_ptr<const Runtime>& shared_runtime() const noexcept { return runtime_; }

    /// Reports progress: listeners receive a tool_execution_update before the task completes. Calls after the tool has
    /// returned are ignored.
    Task<void> update(Json partial_result) { return update_(std::move(partial_result)); }

    /// Reports progress from the body of a blocking_tool(), on any thread and without waiting: listeners receive the same
    /// event. If they are slower than the tool, some reports are dropped. Reports after the end of the call are ignored. In
    /// other tools throws Error(unsupported): use update().
    void report(Json partial_result) const;

    /// Returns the channel of the agent for questions in the body of this call. Throws Error(no_channel) if the agent has
    /// none (AgentOptions::channel).
    std::shared_ptr<HitlChannel> channel() const;

    /// Identifies the call within its thread, also after a restart: the id of the message that contains the call, and its
    /// position there. The id of the call does not, because the endpoint chooses it, and may repeat it (D83). Empty if
    /// the tool is not executed by a run.
    const std::string& call_key() const noexcept { return call_key_; }
    /// Returns true if the body of this call may have begun before, in a process that was killed or before its run was
    /// suspended (ReplayPolicy::idempotent).
    bool is_repeated() const noexcept { return repeated_; }

    /// Returns the file by which a policy has decided about the call; a tool that opens the argument `path` opens that one
    /// (Workspace::without_links()). Empty: no policy has recorded a file.
    const std::optional<JudgedFile>& judged_file() const noexcept { return judged_file_; }

    /// Returns the identity of the run; its ids are empty if the tool is not executed by a run.
    const RunInfo& run() const noexcept;
    /// Returns the account of the run, which may outlive it; null if the tool is not executed by a run.
    const std::shared_ptr<RunAccount>& account() const noexcept { return run_; }
    /// Adds model calls that this tool made to the usage and cost of the run (D67). An absent cost makes the cost of the run
    /// unknown. Thread-safe.
    void charge(const Usage& usage, std::optional<double> cost) const;
    /// Returns the options for a model call of this tool, so that observers know which run and call it belongs to. `purpose`
    /// is a short name. A nested agent gets them with PromptOptions::parent().
    StreamOptions call_options(std::string_view purpose) const;

private:
    friend class detail::ToolProgress;

    SharedString tool_call_id_;
    SharedString tool_name_;
    std::stop_token stop_;
    std::shared_ptr<const Runtime> runtime_;
    UpdateSink update_;
    std::shared_ptr<HitlChannel> channel_;  // the agent's; may be null
    std::shared_ptr<RunAccount> run_;       // null: not executed by a run
    std::string call_key_;
    bool repeated_ = false;
    std::optional<JudgedFile> judged_file_;
    std::shared_ptr<detail::ToolProgress> progress_;  // null: the tool does not block
    mutable std::atomic<bool> stop_token_taken_{false};
};

}  // namespace cubepi
