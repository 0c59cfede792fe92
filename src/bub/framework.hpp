#pragma once

#include <chrono>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/agent/middleware.hpp>
#include <cubepi/core/runtime.hpp>

#include <bub/channel.hpp>
#include <bub/envelope.hpp>
#include <bub/hooks.hpp>
#include <bub/prompt.hpp>
#include <bub/turn_error.hpp>
#include <bub/turn_state.hpp>

namespace cubepi {
class Meter;
class Tracer;
}  // namespace cubepi

namespace bub {

struct FrameworkOptions {
    std::filesystem::path workspace = {};                 ///< empty: the current directory
    std::shared_ptr<const cubepi::Runtime> runtime = {};  ///< null: Runtime::standard()
    /// Time limit for a hook's cleanup after the turn was cancelled; when it expires, the cleanup is cancelled too.
    std::chrono::milliseconds close_grace = std::chrono::seconds(2);
    /// Receives problems that do not fail the turn (an observer that throws, a channel whose name is taken). Never
    /// receives message bodies (B13). May be empty.
    WarningHandler on_warning = {};
    /// Records turns, their stages, and the agents of the builtin plugin, sub-agents included. Null: nothing is recorded.
    std::shared_ptr<cubepi::Tracer> tracer = {};
    /// Measures the agents of the builtin plugin. Null: none are measured.
    std::shared_ptr<cubepi::Meter> meter = {};
};

/// The result of a turn.
struct TurnResult {
    TurnResult() {}
    std::string session_id;
    Prompt prompt;
    std::string model_output;
    std::vector<Envelope> outbounds;
    TurnState state;
};

/// A channel and the plugin that provides it.
struct ProvidedChannel {
    std::shared_ptr<Channel> channel;
    std::string plugin;
};

/// The turn pipeline: the registered plugins and the turns that call their hooks (docs/guides/bub/turn.md).
///
/// Plugins are added before the first turn. Turns of different sessions may run concurrently, even on several executors
/// if the plugins support it. The channel manager (B8), not the framework, keeps the turns of one session in order. The
/// framework must outlive its turns.
class Framework {
public:
    explicit Framework(FrameworkOptions options = {});
    ~Framework();
    Framework(const Framework&) = delete;
    Framework& operator=(const Framework&) = delete;

    /// Registers a plugin. Throws Error(invalid_argument) if its name is empty or taken.
    void add(Plugin plugin);
    /// Creates and registers a plugin. If the factory throws, only this plugin is marked as failed (B16): returns false
    /// and records the reason in plugin_status().
    bool load(std::string name, std::function<Plugin(Framework&)> factory);
    /// Records a plugin that could not be found.
    void note_broken(std::string name, std::string reason);

    /// Returns the status of all plugins in order of registration, including the failed ones.
    const std::vector<PluginStatus>& plugin_status() const noexcept;
    /// Returns the hooks that at least one plugin implements, in the order of the turn.
    std::vector<HookUse> hook_report() const;
    /// Returns the plugins by decreasing precedence.
    std::vector<std::shared_ptr<const Plugin>> plugins() const;

    /// Runs one turn. `inbound` receives the session id (B2); hooks see and may change it. If `stream_output` is set,
    /// the model hooks are asked for a stream, which the router may wrap. Rethrows the exception of a stage after
    /// notifying the observers; a cancellation is rethrown without notifying them.
    Task<TurnResult> process_inbound(std::shared_ptr<Envelope> inbound, bool stream_output = false);
    /// Runs the turn of a message that has come through no channel manager: note_answer() first.
    Task<TurnResult> process_inbound(Envelope inbound, bool stream_output = false);

    // Parts of a turn that channels, commands and the builtin agent use as well.

    /// Returns the session id chosen by the hooks, or `channel:chat_id` (B2).
    Task<std::string> resolve_session(std::shared_ptr<Envelope> inbound);
    /// Returns the prompt built by the hooks, or the content.
    Task<Prompt> build_prompt(std::shared_ptr<Envelope> message, std::string session_id,
                              TurnState& state);
    /// Dispatches a message that is not an output of a turn.
    Task<> dispatch_outbound(std::shared_ptr<Envelope> message);
    /// Dispatches an output of a turn, the position of which it keeps.
    Task<> dispatch_outbound(TurnOutput output);
    /// Notifies all observers; their exceptions are reported to on_warning. Throws only a cancellation.
    Task<> notify_error(std::string stage, std::exception_ptr error,
                        std::shared_ptr<Envelope> message);
    /// Returns the blocks of all plugins, oldest first, separated by an empty line.
    Task<std::string> system_prompt(const Prompt& prompt, TurnState& state);
    /// Returns the prompt of the next step; empty if the turn is complete.
    Task<std::string> continue_prompt(const Prompt& prompt, std::string session_id,
                                      TurnState& state);
    /// Returns the first decision of a hook. Rethrows a hook's exception; the caller then rejects the message (B8).
    Task<std::optional<AdmitDecision>> admit_message(std::string session_id,
                                                     const Envelope& message, TurnSnapshot turn);
    Task<std::vector<ProvidedChannel>> collect_channels(MessageHandler handler);
    Task<ModelOptions> model_options(std::string session_id);
    /// Returns the commands of all plugins, those of the highest precedence first.
    Task<std::vector<CliCommand>> cli_commands();
    /// Returns `config` as extended by the plugins (OnboardCall). `ui` must outlive the task; null:
    /// non-interactive. Rethrows a plugin's exception.
    Task<JsonObject> onboard(JsonObject config, OnboardingUi* ui = nullptr);
    /// Returns the tape store of the first plugin that provides one; null if none does. The plugins are asked once, at
    /// first use.
    Task<std::shared_ptr<TapeStore>> tape_store();
    Task<std::shared_ptr<SteeringInbox>> steering_inbox();
    /// Returns the names of the sidecars of each session's tape. The plugins are asked once. Of two sidecars with the
    /// same name, the one of the plugin with higher precedence is used.
    Task<std::vector<std::string>> tape_sidecars();
    /// Returns the environment variables of all plugins for the commands of tools; those of the highest precedence win. The plugins are
    /// asked once, at first use.
    Task<EnvironmentVariables> environment();
    /// Runs `work` while the lifespans of all plugins (provide_lifespan) are open. They are opened oldest plugin first and closed in
    /// reverse order on every path, with the failure of `work`; if one does not open, those before it are closed and its exception is
    /// thrown. A failure to close is reported to on_warning.
    Task<> running(Task<> work);
    /// Returns the source of the builtin agent's memory in this turn: the result of the first hook that returns one,
    /// else the entries from the last anchor on.
    Task<TapeContext> tape_context(std::string session_id, TurnState& state);
    /// Returns the interception hooks of all plugins as a middleware of the agent that answers this turn; empty if no
    /// plugin has any. `state` must outlive it.
    std::vector<cubepi::Middleware> interception(std::string session_id, TurnState& state) const;

    /// Replaces the router; null unbinds it.
    void bind_router(std::shared_ptr<OutboundChannelRouter> router);
    std::shared_ptr<OutboundChannelRouter> router() const;

    const std::filesystem::path& workspace() const noexcept;
    const std::shared_ptr<const cubepi::Runtime>& runtime() const noexcept;
    const FrameworkOptions& options() const noexcept;

    struct Impl;

private:
    std::unique_ptr<Impl> impl_;
};

}  // namespace bub
