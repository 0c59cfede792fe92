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
#include <bub/warning_handler.hpp>

namespace bub {

struct FrameworkOptions {
    std::filesystem::path workspace = {};                 ///< empty: the current directory
    std::shared_ptr<const cubepi::Runtime> runtime = {};  ///< null: Runtime::standard()
    /// How long a hook may take to put things away after the turn was cancelled; it is then cancelled itself.
    std::chrono::milliseconds close_grace = std::chrono::seconds(2);
    /// Told of what is not an error of the turn (an observer that throws, a channel whose name is taken). Never of
    /// message bodies (B13). May be absent.
    WarningHandler on_warning = {};
};

/// What a turn gave.
struct TurnResult {
    TurnResult() {}
    std::string session_id;
    Prompt prompt;
    std::string model_output;
    std::vector<Envelope> outbounds;
    TurnState state;
};

/// A channel, and the plugin that it was taken from.
struct ProvidedChannel {
    std::shared_ptr<Channel> channel;
    std::string plugin;
};

/// The pipeline: plugins, and the turn that asks them (docs/guides/bub/turn.md).
///
/// Plugins are added before the first turn. Turns of different sessions may run side by side, also on several
/// executors when the plugins can stand it; turns of one session are kept in order by the channel manager (B8), not
/// here. The framework outlives its turns.
class Framework {
public:
    explicit Framework(FrameworkOptions options = {});
    ~Framework();
    Framework(const Framework&) = delete;
    Framework& operator=(const Framework&) = delete;

    /// Registers a plugin. Throws Error(invalid_argument) when its name is empty or taken.
    void add(Plugin plugin);
    /// Makes and registers a plugin; when that throws, it is broken, and the others are not (B16). False: broken; the
    /// status says why.
    bool load(std::string name, std::function<Plugin(Framework&)> factory);
    /// Notes a plugin that could not even be found.
    void note_broken(std::string name, std::string reason);

    /// In order of registration, the broken ones too.
    const std::vector<PluginStatus>& plugin_status() const noexcept;
    /// Hooks that somebody implements, in the order of the turn.
    std::vector<HookUse> hook_report() const;
    /// From the highest precedence on.
    std::vector<std::shared_ptr<const Plugin>> plugins() const;

    /// One turn. `inbound` gets the session id (B2) and is what hooks see and may change. A streaming caller
    /// asks the model hooks for a stream and has it wrapped by the router. Throws what a stage threw, after the
    /// observers were told; a cancellation is rethrown and not observed.
    Task<TurnResult> process_inbound(std::shared_ptr<Envelope> inbound, bool stream_output = false);
    Task<TurnResult> process_inbound(Envelope inbound, bool stream_output = false);

    // Parts of a turn that channels, commands and the builtin agent use as well.

    /// The session id by hooks, or `channel:chat_id` (B2).
    Task<std::string> resolve_session(std::shared_ptr<Envelope> inbound);
    /// The prompt by hooks, or the content.
    Task<Prompt> build_prompt(std::shared_ptr<Envelope> message, std::string session_id,
                              TurnState& state);
    Task<> dispatch_outbound(std::shared_ptr<Envelope> outbound);
    /// Tells all observers; what they throw is reported to on_warning. Throws only a cancellation.
    Task<> notify_error(std::string stage, std::exception_ptr error,
                        std::shared_ptr<Envelope> message);
    /// The blocks of all plugins, oldest first, with an empty line between them.
    Task<std::string> system_prompt(const Prompt& prompt, TurnState& state);
    /// What to go on with after a step; empty: nothing.
    Task<std::string> continue_prompt(const Prompt& prompt, std::string session_id,
                                      TurnState& state);
    /// The first opinion. Throws what a hook throws: the caller rejects the message then (B8).
    Task<std::optional<AdmitDecision>> admit_message(std::string session_id,
                                                     const Envelope& message, TurnSnapshot turn);
    Task<std::vector<ProvidedChannel>> collect_channels(MessageHandler handler);
    Task<ModelOptions> model_options(std::string session_id);
    /// The commands of all plugins, those of the highest precedence first.
    Task<std::vector<CliCommand>> cli_commands();
    /// `config` with what the plugins make of it (OnboardCall). `interview` outlives the task; null: nobody is asked.
    /// Throws what a plugin throws.
    Task<JsonObject> onboard(JsonObject config, Interview* interview = nullptr);
    /// Asked for once, at first use; null when nobody has one.
    Task<std::shared_ptr<TapeStore>> tape_store();
    Task<std::shared_ptr<SteeringInbox>> steering_inbox();
    /// The names of the sidecars that each session's tape has, asked for once. Of two with one name the one of the
    /// plugin of higher precedence stays.
    Task<std::vector<std::string>> tape_sidecars();
    /// What the builtin agent's memory is made of in this turn: the first hook's answer, or the last anchor and what
    /// follows it.
    Task<TapeContext> tape_context(std::string session_id, TurnState& state);
    /// The interception hooks of all plugins as a middleware of the agent that answers this turn. `state` outlives it.
    /// Empty when no plugin has one.
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
