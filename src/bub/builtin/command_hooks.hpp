#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/agent/middleware.hpp>

namespace cubepi::detail {
class RegularExpression;
}

namespace bub {

using cubepi::Task;

/// The points of a turn at which commands of the user run. Their names are those that codex and Claude Code use.
enum class HookPoint : std::uint8_t {
    pre_tool_use,        ///< before a call of a tool, and before its approval
    post_tool_use,       ///< after the call
    user_prompt_submit,  ///< before a message of the user is sent to the model
    stop,                ///< when the turn would end by itself
    notification,        ///< when a question waits for the user
};

/// Returns the name of a point: "PreToolUse".
std::string_view to_string(HookPoint point) noexcept;
/// Returns nothing for a name of no point.
std::optional<HookPoint> hook_point(std::string_view name) noexcept;

/// A command of the user that runs at a point of each turn, in the turn's workspace. It reads one JSON object from standard input:
/// `hook_event_name`, `session_id`, `cwd`, and by point `tool_name`, `tool_input`, `tool_use_id`, `tool_response`, `prompt`,
/// `stop_hook_active` or `message`. Its exit status decides:
///
/// - 2: blocks. The call does not run, the message is not sent, the turn continues, or the result has an objection; standard
///   error is the reason. At `notification` it means nothing.
/// - 0: continues. A JSON object on standard output may say more: `decision: block` with `reason`; `hookSpecificOutput` with
///   `permissionDecision` (`deny` blocks, and so does `ask`), `permissionDecisionReason`, `updatedInput` (new arguments) or
///   `additionalContext` (for the model). Other output of `user_prompt_submit` is context for the model. Before a call and for a
///   prompt, output that begins with `{` blocks if it is not one JSON object, has a key twice, or has an unknown decision.
/// - Any other: the command has failed, which is recorded in the result of the call, and nothing is blocked. But a call is blocked
///   by a command before it that cannot be run (126, 127), does not end in time, or is killed (128 and more).
///
/// No command can allow what needs an approval.
struct CommandHook {
    HookPoint point = HookPoint::pre_tool_use;
    std::string matcher =
        {};  ///< ECMAScript expression for the whole name of a tool; empty or "*": every tool
    std::string command = {};  ///< for /bin/sh
    /// At `notification` five seconds at most.
    std::chrono::milliseconds timeout = std::chrono::seconds(60);
    std::string note = {};  ///< for the user, where the hooks are listed: why it misses tools
};

/// Throws Error(invalid_argument) for a hook without a command, or with an invalid matcher.
void check_command_hook(const CommandHook& hook);

namespace detail {

/// The hooks of a configuration. Immutable, shared by all turns.
class CommandHookTable {
public:
    struct Entry {
        CommandHook hook;
        std::shared_ptr<const cubepi::detail::RegularExpression> matcher;  ///< null: every tool

        bool matches(HookPoint point, const std::string& tool) const;
    };

    /// Throws like check_command_hook().
    explicit CommandHookTable(std::vector<CommandHook> hooks);

    const std::vector<Entry>& entries() const noexcept { return entries_; }
    bool has(HookPoint point) const noexcept;
    /// Returns true if a hook of `point` runs for calls of `tool`.
    bool has(HookPoint point, const std::string& tool) const;

private:
    std::vector<Entry> entries_;
};

/// The turn in which hooks run.
struct HookTurn {
    std::string session_id = {};
    std::filesystem::path directory = {};
    std::vector<std::string> environment = {};
    std::shared_ptr<const cubepi::Runtime> runtime = {};
    bool is_subagent = false;
};

/// The decision of all hooks of a point.
struct HookReply {
    bool blocks = false;
    std::string reason = {};                       ///< why it blocks
    std::string context = {};                      ///< for the model
    std::optional<cubepi::JsonObject> input = {};  ///< new arguments
    std::string failure = {};  ///< of the last command that failed without a decision
};

/// Middleware that runs the commands of the user in one turn.
class CommandHooks {
public:
    CommandHooks(std::shared_ptr<const CommandHookTable> table, HookTurn turn)
        : table_(std::move(table)), turn_(std::move(turn)) {}

    Task<std::optional<cubepi::BeforeToolCallResult>> before_tool_call(
        cubepi::BeforeToolCallContext& context);
    Task<std::optional<cubepi::AfterToolCallResult>> after_tool_call(
        cubepi::AfterToolCallContext& context);
    Task<cubepi::MessageList> on_run_end(cubepi::HookContext& context);

    Task<HookReply> submit_prompt(std::string text);
    Task<HookReply> notify(std::string message);

private:
    Task<HookReply> run(HookPoint point, std::string tool, cubepi::JsonObject input) const;

    std::shared_ptr<const CommandHookTable> table_;
    HookTurn turn_;
    std::map<std::string, std::string> notes_;  ///< of hooks before a call, for its result
    bool is_stop_active_ = false;
};

}  // namespace detail

}  // namespace bub
