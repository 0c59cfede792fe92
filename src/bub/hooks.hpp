#pragma once

#include <chrono>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/agent/middleware.hpp>
#include <cubepi/agent/tool.hpp>
#include <cubepi/provider/provider.hpp>

#include <bub/channel.hpp>
#include <bub/envelope.hpp>
#include <bub/event_stream.hpp>
#include <bub/hook.hpp>
#include <bub/onboarding_ui.hpp>
#include <bub/prompt.hpp>
#include <bub/tape/tape_context.hpp>
#include <bub/tape/tape_sidecar.hpp>
#include <bub/turn_state.hpp>

namespace bub {

class Framework;
class TapeStore;

// The arguments of the hooks; each type is named after its hook. The referenced objects outlive the call, even if the
// hook is a coroutine.

struct ResolveSessionCall {
    Envelope& message;
};
struct LoadStateCall {
    Envelope& message;
    const std::string& session_id;
    /// Holds the workspace; use it for services and at_end(). Values are returned instead, so that precedence applies
    /// to them.
    TurnState& state;
};
struct BuildPromptCall {
    Envelope& message;
    const std::string& session_id;
    TurnState& state;
};
struct RunModelCall {
    const Prompt& prompt;
    const std::string& session_id;
    TurnState& state;
    Envelope& message;
};
struct ContinuePromptCall {
    const Prompt& prompt;  ///< the prompt of the step that has ended
    const std::string& session_id;
    TurnState& state;
};
struct SaveStateCall {
    const std::string& session_id;
    TurnState& state;
    Envelope& message;
    const std::string& model_output;  ///< on failure: the partial output (B5)
    const Prompt& prompt;
    const std::exception_ptr& error;  ///< the failure so far (or the cancellation); null: none
};
struct RenderOutboundCall {
    Envelope& message;
    const std::string& session_id;
    TurnState& state;
    const std::string& model_output;
};
struct DispatchOutboundCall {
    Envelope& message;      ///< the outbound one
    std::size_t index = 0;  ///< among the outputs of the turn, from 0
    std::size_t count = 0;  ///< number of these outputs; 0: `message` is not an output of a turn

    /// Returns the argument of OutboundChannelRouter::dispatch_output.
    TurnOutput output() const { return TurnOutput(message, index, count); }
};
struct OnErrorCall {
    std::string_view stage;  ///< run_model, save_state, turn, resolve_session, admit_message
    const std::exception_ptr& error;
    Envelope* message;  ///< the inbound one; null: none
};
struct SystemPromptCall {
    const Prompt& prompt;
    TurnState& state;
};
struct BeforeLlmCall {
    cubepi::ModelRequest& request;  ///< may be changed; the next plugin sees the change
    const std::string& session_id;
    TurnState& state;
};
struct AfterLlmCall {
    const cubepi::ModelRequest& request;
    const cubepi::AssistantMessage& result;  ///< `error` is set on failure
    std::chrono::nanoseconds duration;
    const std::string& session_id;
    TurnState& state;
};
struct BeforeToolCall {
    cubepi::BeforeToolCallContext& call;  ///< `args` include the edits of plugins that ran before
    const std::string& session_id;
    TurnState& state;
};
struct AfterToolCall {
    cubepi::AfterToolCallContext& call;  ///< `result` as changed by plugins that ran before
    const std::string& session_id;
    TurnState& state;
};
struct ProvideChannelsCall {
    const MessageHandler& handler;  ///< receives the channels' messages
    Framework& framework;
};
struct AdmitMessageCall {
    const std::string& session_id;
    const Envelope& message;
    const TurnSnapshot& turn;
};
struct ProvideCall {
    Framework& framework;
};
struct BuildTapeContextCall {
    const std::string& session_id;
    TurnState& state;
};

/// A model offered to the user.
struct ModelChoice {
    std::string id = {};
    std::string name = {};
    std::string description = {};
};
/// The models that a plugin offers for a session. The lists of all plugins are joined; the first non-empty current
/// model is used.
struct ModelOptions {
    std::vector<ModelChoice> models = {};
    std::string current_model = {};
};
struct ModelOptionsCall {
    const std::string& session_id;
    const std::filesystem::path& workspace;
};
/// The result is merged into the configuration, objects member by member; null removes a member.
struct OnboardCall {
    const JsonObject& config;  ///< the configuration so far, with the results of earlier plugins
    OnboardingUi* ui;          ///< asks the user; null: non-interactive, use defaults
};
/// Environment variables for the commands of tools, by name.
using EnvironmentVariables = std::map<std::string, std::string>;

/// A command that a plugin adds to the program.
struct CliCommand {
    std::string name = {};
    std::string description = {};
    /// Returns the exit status. An exception is reported like any failure of the program.
    std::function<Task<int>(std::vector<std::string> arguments)> run = {};
    std::string plugin = {};  ///< the plugin's name; set by the framework
};

/// An extension of the pipeline: a name and the hooks it implements. A hook is any callable that accepts the call; it
/// returns the value, nothing (no result), or a Task.
///
///     Plugin echo{.name = "echo",
///                 .run_model = [](RunModelCall& call) { return "You wrote: " + call.prompt.text(); }};
///
/// Plugins are asked by decreasing precedence: higher `priority` first; among equals, the one registered later. "First"
/// hooks stop at the first plugin that returns a value, even an empty text; "all" hooks ask every plugin. Unless stated
/// otherwise, an exception ends the hook's stage and fails the turn.
struct Plugin {
    std::string name = {};
    int priority = 0;
    std::string version = {};  ///< informational

    // The stages of a turn, in order. docs/guides/bub/hooks.md documents the time and the result of each hook.
    Hook<std::optional<std::string>(ResolveSessionCall)> resolve_session = {};  ///< first
    Hook<std::optional<JsonObject>(LoadStateCall)> load_state = {};             ///< all; merged
    Hook<std::optional<Prompt>(BuildPromptCall)> build_prompt = {};             ///< first
    Hook<std::optional<std::string>(RunModelCall)> run_model = {};              ///< first
    Hook<EventStream(RunModelCall)> run_model_stream = {};                      ///< first
    Hook<std::optional<std::string>(ContinuePromptCall)> continue_prompt = {};  ///< first
    Hook<Done(SaveStateCall)> save_state = {};                               ///< all, isolated (B5)
    Hook<EnvelopeBatch(RenderOutboundCall)> render_outbound = {};            ///< all; flattened
    Hook<std::optional<bool>(DispatchOutboundCall)> dispatch_outbound = {};  ///< all
    Hook<Done(OnErrorCall)> on_error = {};                                   ///< all, isolated

    // Around the model and the tools of the builtin agent. If one of the last four throws, the exception is reported
    // and the hook is skipped.
    Hook<std::optional<std::string>(SystemPromptCall)> system_prompt = {};  ///< all; joined
    Hook<std::optional<std::string>(BeforeLlmCall)> before_llm_call =
        {};                                        ///< all; a text replaces the model's answer
    Hook<Done(AfterLlmCall)> after_llm_call = {};  ///< all, isolated
    Hook<std::optional<cubepi::BeforeToolCallResult>(BeforeToolCall)> before_tool_call = {};
    Hook<std::optional<cubepi::AfterToolCallResult>(AfterToolCall)> after_tool_call = {};

    // Outside of turns, or once for all turns.
    Hook<std::optional<AdmitDecision>(AdmitMessageCall)> admit_message = {};        ///< first
    Hook<std::shared_ptr<SteeringInbox>(ProvideCall)> provide_steering_inbox = {};  ///< first
    Hook<std::shared_ptr<TapeStore>(ProvideCall)> provide_tape_store = {};          ///< first
    Hook<std::optional<TapeSidecar>(ProvideCall)> provide_tape_sidecar = {};  ///< all; by name
    /// Resources of the running pipeline (Framework::running).
    Hook<std::shared_ptr<Lifespan>(ProvideCall)> provide_lifespan = {};  ///< all, oldest first
    Hook<std::optional<EnvironmentVariables>(ProvideCall)> provide_environment =
        {};  ///< all; merged
    Hook<std::optional<TapeContext>(BuildTapeContextCall)> build_tape_context = {};  ///< first
    Hook<std::vector<std::shared_ptr<Channel>>(ProvideChannelsCall)> provide_channels =
        {};  ///< all; by name
    Hook<std::optional<ModelOptions>(ModelOptionsCall)> provide_model_options = {};  ///< all
    Hook<std::optional<JsonObject>(OnboardCall)> onboard_config =
        {};  ///< all, oldest first; merged
    Hook<std::vector<CliCommand>(ProvideCall)> register_cli_commands = {};  ///< all

    /// Tools for the builtin agent, also available as comma commands. Hidden tools are commands only.
    std::vector<cubepi::AgentTool> tools = {};
};

/// Returns the names of all hooks: those of a turn in order, then the others.
std::span<const std::string_view> all_hook_names() noexcept;
/// Returns the hooks that a plugin implements, in that order.
std::vector<std::string_view> implemented_hooks(const Plugin& plugin);

/// The result of loading a plugin (B16).
struct PluginStatus {
    std::string name = {};
    bool ok = false;
    std::string reason = {};  ///< the reason of the failure; empty if `ok`
    std::vector<std::string_view> hooks = {};
};

/// The plugins that implement a hook, in the order in which they are asked.
struct HookUse {
    std::string_view hook = {};
    std::vector<std::string> plugins = {};
};

}  // namespace bub
