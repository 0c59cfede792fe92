#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/agent/middleware.hpp>
#include <cubepi/agent/tool.hpp>
#include <cubepi/core/message_list.hpp>
#include <cubepi/core/run_info.hpp>
#include <cubepi/core/usage.hpp>
#include <cubepi/provider/provider.hpp>

namespace cubepi {

class StructuredOptions;

namespace detail {
struct AnswerRequest;
struct PromptAccess;
struct PromptSettings;
}  // namespace detail

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

/// Options of a prompt: `PromptOptions().run_id("...")`. Those that replace a setting of the agent apply to this run only.
class PromptOptions {
public:
    PromptOptions() {}
    /// Sets the run's id; generated if absent.
    PromptOptions&& run_id(std::string value) && {
        run_id_ = std::move(value);
        return std::move(*this);
    }

    /// Replaces the agent's model. AgentState::model is this one until the run ends; a set_model() during the run replaces
    /// both.
    PromptOptions&& model(BoundModel value) &&;
    /// Sets the temperature of the model.
    PromptOptions&& temperature(double value) &&;
    PromptOptions&& reasoning(ReasoningControl value) &&;
    /// Replaces the agent's system prompt. A provider's prompt cache begins from scratch for the run.
    PromptOptions&& system_prompt(std::string value) &&;
    /// Replaces the agent's tools.
    PromptOptions&& tools(ToolList value) &&;
    /// Sets the tool choice. One that requires a call applies to the first model call of the run, because a run whose every
    /// answer calls a tool would not end; `none` applies to all.
    PromptOptions&& tool_choice(ToolChoice value) &&;
    /// Replaces AgentLimits::max_duration. Reaching it is the outcome `limited`.
    PromptOptions&& max_duration(std::chrono::milliseconds value) &&;
    /// Ends the run as `limited` at this time of the runtime's clock, unless max_duration ends it earlier. The time during
    /// which the run waits for the user does not count (D64).
    PromptOptions&& deadline(std::chrono::steady_clock::time_point value) &&;
    /// Aborts the run when the token is stopped, by any thread: that of a ToolContext for a sub-agent, for example.
    PromptOptions&& stop_token(std::stop_token value) &&;
    /// Sets name, description, schema, mode and retries of the typed answer of Agent::prompt<T>(). Its system prompt and call
    /// options are not used.
    PromptOptions&& answer(StructuredOptions value) &&;

    /// Sets earlier spending, which counts toward the limits `max_turns` and `max_spend` of the run, and is included in
    /// the usage and cost of its result.
    PromptOptions&& prior_spending(PriorSpending value) && {
        prior_spending_ = std::move(value);
        return std::move(*this);
    }
    /// Lets the run spend at most what `account` has left, which may be shared by runs on any thread, and charges the run to it
    /// when it ends. Its limit is RunAccount::set_max_spend(). parent() sets the account of the calling run.
    PromptOptions&& budget(std::shared_ptr<RunAccount> account) && {
        budget_ = std::move(account);
        return std::move(*this);
    }
    /// Closes a suspended run of the thread before the prompt, as abort_pending() does. Without it the prompt throws
    /// PendingRequestsError (D60).
    PromptOptions&& abandon_pending(bool value = true) && {
        abandon_pending_ = value;
        return std::move(*this);
    }
    /// Sets tags, metadata and span of the caller at once. TraceContext::nested() combines those of several callers.
    PromptOptions&& tracing_context(TraceContext value) && {
        trace() = std::move(value);
        return std::move(*this);
    }
    /// Sets the span of the caller as the parent of the run's span: a `traceparent` of W3C Trace Context.
    PromptOptions&& traceparent(std::string value) && {
        trace().traceparent = std::move(value);
        return std::move(*this);
    }
    /// Sets tags for the traces of the run.
    PromptOptions&& tags(std::vector<std::string> value) && {
        trace().tags = std::move(value);
        return std::move(*this);
    }
    /// Sets metadata for the traces of the run.
    PromptOptions&& metadata(JsonObject value) && {
        trace().metadata = std::move(value);
        return std::move(*this);
    }
    /// Names the tool call that starts this run, which is that of a sub-agent, and whose budget it shares. The run inherits tags and
    /// metadata of the parent's traces; its own are nested in them. When it ends, the parent is charged for it.
    PromptOptions&& parent(const ToolContext& tool) && {
        budget_ = tool.account();
        return std::move(*this).parent(tool.run(), tool.tool_call_id());
    }
    /// Names the run of the hook that starts this run, whose budget it shares.
    PromptOptions&& parent(const HookContext& hook) && {
        budget_ = hook.account;
        return std::move(*this).parent(hook.run(), {});
    }
    /// Returns where the run comes from, as set by the members above.
    RunOrigin origin() const;
    const std::string& run_id() const noexcept { return run_id_; }
    bool abandon_pending() const noexcept { return abandon_pending_; }
    const PriorSpending& prior_spending() const noexcept { return prior_spending_; }
    const std::shared_ptr<RunAccount>& budget() const noexcept { return budget_; }

private:
    friend struct detail::PromptAccess;
    PromptOptions&& parent(const RunInfo& run, SharedString tool_call_id) && {
        parent_run_id_ = run.run_id;
        parent_tool_call_id_ = std::move(tool_call_id);
        parent_trace_ = run.origin.trace;
        return std::move(*this);
    }
    TraceContext& trace();
    detail::PromptSettings& settings();

    std::string run_id_;
    PriorSpending prior_spending_;
    SharedString parent_run_id_;
    SharedString parent_tool_call_id_;
    std::shared_ptr<const TraceContext> parent_trace_;
    std::shared_ptr<RunAccount> budget_;
    std::shared_ptr<TraceContext> trace_;
    // Settings that few prompts have. Copies share them, so a setter copies them first.
    std::shared_ptr<const detail::PromptSettings> settings_;
    bool abandon_pending_ = false;
};

namespace detail {
/// The access of the library to the settings.
struct PromptAccess {
    /// Null if none is set.
    static const std::shared_ptr<const PromptSettings>& settings(const PromptOptions& options) {
        return options.settings_;
    }
    /// Requests a typed answer.
    static void request_answer(PromptOptions& options, AnswerRequest request);
};
}  // namespace detail

}  // namespace cubepi
