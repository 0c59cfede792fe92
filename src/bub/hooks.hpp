#pragma once

#include <chrono>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/agent/middleware.hpp>
#include <cubepi/agent/tool.hpp>
#include <cubepi/provider/provider.hpp>

#include <bub/admission.hpp>
#include <bub/channel.hpp>
#include <bub/envelope.hpp>
#include <bub/event_stream.hpp>
#include <bub/hook.hpp>
#include <bub/interview.hpp>
#include <bub/prompt.hpp>
#include <bub/tape/tape_context.hpp>
#include <bub/tape/tape_sidecar.hpp>
#include <bub/turn_state.hpp>

namespace bub {

class Framework;
class TapeStore;

// What hooks are given; each is named for its hook. Everything here outlives the call, also that of a hook that is a
// coroutine.

struct ResolveSessionCall {
    Envelope& message;
};
struct LoadStateCall {
    Envelope& message;
    const std::string& session_id;
    /// Holds the workspace; for services and at_end(). Values are returned, so that precedence decides about them.
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
    const Prompt& prompt;  ///< the one of the step that has ended
    const std::string& session_id;
    TurnState& state;
};
struct SaveStateCall {
    const std::string& session_id;
    TurnState& state;
    Envelope& message;
    const std::string& model_output;  ///< on failure: what had arrived (B5)
    const Prompt& prompt;
    const std::exception_ptr& error;  ///< of the turn so far; a cancellation too; null: none
};
struct RenderOutboundCall {
    Envelope& message;
    const std::string& session_id;
    TurnState& state;
    const std::string& model_output;
};
struct DispatchOutboundCall {
    Envelope& message;  ///< the outbound one
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
    const cubepi::AssistantMessage& result;  ///< its `error` tells a failure
    std::chrono::nanoseconds duration;
    const std::string& session_id;
    TurnState& state;
};
struct BeforeToolCall {
    cubepi::BeforeToolCallContext& call;  ///< `args` hold the edits of plugins asked before
    const std::string& session_id;
    TurnState& state;
};
struct AfterToolCall {
    cubepi::AfterToolCallContext& call;  ///< `result` is what plugins asked before made of it
    const std::string& session_id;
    TurnState& state;
};
struct ProvideChannelsCall {
    const MessageHandler& handler;  ///< what the channels give their messages to
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

/// A model that a user may choose.
struct ModelChoice {
    std::string id = {};
    std::string name = {};
    std::string description = {};
};
/// What a plugin offers for a session. Those of several plugins are joined; the first current model that is set stays.
struct ModelOptions {
    std::vector<ModelChoice> models = {};
    std::string current_model = {};
};
struct ModelOptionsCall {
    const std::string& session_id;
    const std::filesystem::path& workspace;
};
/// What is given back is merged into the configuration, objects member by member; a null takes away what was there.
struct OnboardCall {
    const JsonObject& config;  ///< what is configured so far, with what plugins asked before gave
    Interview* interview;      ///< who answers questions; null: nobody does, take what is usual
};
/// A command that a plugin adds to the program.
struct CliCommand {
    std::string name = {};
    std::string description = {};
    /// Gives the exit status. What it throws is told as any failure of the program.
    std::function<Task<int>(std::vector<std::string> arguments)> run = {};
    std::string plugin = {};  ///< whose it is; set by the framework
};

/// One extension of the pipeline: a name and the hooks it wants. A hook is any callable that takes the call; it
/// returns the value, nothing (which gives nothing), or a Task.
///
///     Plugin echo{.name = "echo",
///                 .run_model = [](RunModelCall& call) { return "You said: " + call.prompt.text(); }};
///
/// Plugins are asked from the highest precedence on: higher `priority` first, among equals the one that was
/// registered later. "First" hooks stop at the first that gives something, empty texts included; "all" hooks ask
/// everybody. Unless it says otherwise, what a hook throws ends its stage and fails the turn.
struct Plugin {
    std::string name = {};
    int priority = 0;
    std::string version = {};  ///< for people

    // The stages of a turn, in its order. docs/guides/bub/hooks.md says of each hook when it is asked and what it gives.
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

    // Around the model and the tools of the builtin agent. One of the last four that throws is reported and passed over.
    Hook<std::optional<std::string>(SystemPromptCall)> system_prompt = {};  ///< all; joined
    Hook<std::optional<std::string>(BeforeLlmCall)> before_llm_call =
        {};                                        ///< all; a text answers in the model's place
    Hook<Done(AfterLlmCall)> after_llm_call = {};  ///< all, isolated
    Hook<std::optional<cubepi::BeforeToolCallResult>(BeforeToolCall)> before_tool_call = {};
    Hook<std::optional<cubepi::AfterToolCallResult>(AfterToolCall)> after_tool_call = {};

    // Outside of turns, or once for all of them.
    Hook<std::optional<AdmitDecision>(AdmitMessageCall)> admit_message = {};        ///< first
    Hook<std::shared_ptr<SteeringInbox>(ProvideCall)> provide_steering_inbox = {};  ///< first
    Hook<std::shared_ptr<TapeStore>(ProvideCall)> provide_tape_store = {};          ///< first
    Hook<std::optional<TapeSidecar>(ProvideCall)> provide_tape_sidecar = {};  ///< all; by name
    Hook<std::optional<TapeContext>(BuildTapeContextCall)> build_tape_context = {};  ///< first
    Hook<std::vector<std::shared_ptr<Channel>>(ProvideChannelsCall)> provide_channels =
        {};  ///< all; by name
    Hook<std::optional<ModelOptions>(ModelOptionsCall)> provide_model_options = {};  ///< all
    Hook<std::optional<JsonObject>(OnboardCall)> onboard_config =
        {};  ///< all, oldest first; merged
    Hook<std::vector<CliCommand>(ProvideCall)> register_cli_commands = {};  ///< all

    /// For the builtin agent, and comma commands of their names. Hidden ones are commands only.
    std::vector<cubepi::AgentTool> tools = {};
};

/// The names of all hooks, in the order in which a turn asks them; the others follow.
std::span<const std::string_view> all_hook_names() noexcept;
/// The hooks that a plugin has, in that order.
std::vector<std::string_view> implemented_hooks(const Plugin& plugin);

/// Whether a plugin was loaded (B16).
struct PluginStatus {
    std::string name = {};
    bool ok = false;
    std::string reason = {};  ///< why it was not; empty when it was
    std::vector<std::string_view> hooks = {};
};

/// Who implements a hook, in the order in which they are asked.
struct HookUse {
    std::string_view hook = {};
    std::vector<std::string> plugins = {};
};

}  // namespace bub
