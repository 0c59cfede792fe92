#include <bub/framework.hpp>

#include <algorithm>
#include <filesystem>
#include <utility>

#include <bub/kernel/framework_impl.hpp>
#include <cubepi/core/outcome.hpp>

namespace bub {

using detail::all_results;
using detail::first_result;

namespace {

std::filesystem::path resolved(const std::filesystem::path& workspace) {
    std::error_code error;
    const std::filesystem::path given =
        workspace.empty() ? std::filesystem::current_path(error) : workspace;
    std::filesystem::path made = std::filesystem::weakly_canonical(given, error);
    return error ? std::filesystem::absolute(given, error) : made;
}

/// Throws only errors caused by `plugin`.
void check_name(const std::string& name, const std::vector<PluginStatus>& known) {
    if (name.empty()) {
        throw cubepi::Error(cubepi::ErrorCode::invalid_argument,
                            "a plugin needs a name: Plugin{.name = \"mine\", ...}");
    }
    const bool taken = std::any_of(known.begin(), known.end(), [&name](const PluginStatus& other) {
        return other.ok && other.name == name;
    });
    if (taken) {
        throw cubepi::Error(cubepi::ErrorCode::invalid_argument,
                            "a plugin named " + name + " is registered already");
    }
}

/// Applies a JSON merge patch (RFC 7396). Unchanged members keep their order.
void merge(JsonObject& into, JsonObject patch) {
    for (auto& [key, value] : patch) {
        if (value.is_null()) {
            into.stable_erase(key);
        } else if (value.is_object()) {
            Json& place = into[key];
            if (!place.is_object()) place.emplace_object();
            merge(place.get_object(), std::move(value.get_object()));
        } else {
            into[key] = std::move(value);
        }
    }
}

}  // namespace

// The plugins.

Framework::Impl::Impl(FrameworkOptions given) : options(std::move(given)) {
    if (!options.runtime) options.runtime = cubepi::Runtime::standard();
    options.workspace = resolved(options.workspace);
    workspace = options.workspace.string();
    list = std::make_shared<const std::vector<std::shared_ptr<const Plugin>>>();
}

detail::PluginList Framework::Impl::plugins() const {
    const std::lock_guard lock(mutex);
    return list;
}

void Framework::Impl::insert(Plugin plugin) {
    check_name(plugin.name, status);
    PluginStatus made;
    made.name = plugin.name;
    made.ok = true;
    made.hooks = implemented_hooks(plugin);
    has_store = has_store || plugin.provide_tape_store;
    registered.push_back(std::make_shared<const Plugin>(std::move(plugin)));
    status.push_back(std::move(made));
    std::vector<std::shared_ptr<const Plugin>> order;
    for (const auto& each : registered) {
        const auto place = std::find_if(order.begin(), order.end(), [&each](const auto& other) {
            return other->priority <= each->priority;
        });
        order.insert(place, each);
    }
    const std::lock_guard lock(mutex);
    list = std::make_shared<const std::vector<std::shared_ptr<const Plugin>>>(std::move(order));
}

void Framework::Impl::warn(std::string_view event, std::initializer_list<cubepi::LogField> fields,
                           std::string text) const {
    options.runtime->log.write(cubepi::LogLevel::warning, event, fields);
    if (options.on_warning) options.on_warning(std::move(text));
}

Framework::Framework(FrameworkOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}

Framework::~Framework() = default;

void Framework::add(Plugin plugin) { impl_->insert(std::move(plugin)); }

bool Framework::load(std::string name, std::function<Plugin(Framework&)> factory) {
    std::exception_ptr failure;
    try {
        Plugin plugin = factory(*this);
        if (plugin.name.empty()) plugin.name = name;
        impl_->insert(std::move(plugin));
        return true;
    } catch (...) {
        failure = std::current_exception();
    }
    note_broken(std::move(name), describe(failure));
    return false;
}

void Framework::note_broken(std::string name, std::string reason) {
    impl_->warn("plugin.load_failed", {{"plugin", name}},
                "plugin " + name + " is broken: " + reason);
    PluginStatus status;
    status.name = std::move(name);
    status.reason = std::move(reason);
    impl_->status.push_back(std::move(status));
}

const std::vector<PluginStatus>& Framework::plugin_status() const noexcept { return impl_->status; }

std::vector<HookUse> Framework::hook_report() const {
    const detail::PluginList plugins = impl_->plugins();
    std::vector<HookUse> report;
    for (const std::string_view hook : all_hook_names()) {
        HookUse use;
        use.hook = hook;
        for (const auto& plugin : *plugins) {
            const std::vector<std::string_view> has = implemented_hooks(*plugin);
            if (std::find(has.begin(), has.end(), hook) != has.end()) {
                use.plugins.push_back(plugin->name);
            }
        }
        if (!use.plugins.empty()) report.push_back(std::move(use));
    }
    return report;
}

std::vector<std::shared_ptr<const Plugin>> Framework::plugins() const { return *impl_->plugins(); }

void Framework::bind_router(std::shared_ptr<OutboundChannelRouter> router) {
    const std::lock_guard lock(impl_->mutex);
    impl_->router = std::move(router);
}

std::shared_ptr<OutboundChannelRouter> Framework::router() const {
    const std::lock_guard lock(impl_->mutex);
    return impl_->router;
}

const std::filesystem::path& Framework::workspace() const noexcept {
    return impl_->options.workspace;
}

const std::shared_ptr<const cubepi::Runtime>& Framework::runtime() const noexcept {
    return impl_->options.runtime;
}

const FrameworkOptions& Framework::options() const noexcept { return impl_->options; }

// The hooks outside of turns.

Task<> Framework::notify_error(std::string stage, std::exception_ptr error,
                               std::shared_ptr<Envelope> message) {
    impl_->options.runtime->log.write(cubepi::LogLevel::warning, "pipeline.error",
                                      {{"stage", stage}, {"error", cubepi::logged_error(error)}});
    OnErrorCall call{stage, error, message.get()};
    const detail::PluginList plugins = impl_->plugins();
    for (const auto& plugin : *plugins) {
        if (!plugin->on_error) continue;
        Task<Done> notifying = plugin->on_error(call);
        const auto notified = co_await cubepi::outcome_of(std::move(notifying));
        if (notified.cancelled()) notified.rethrow();
        if (notified) continue;
        impl_->warn("pipeline.on_error_failed",
                    {{"plugin", plugin->name},
                     {"stage", stage},
                     {"error", cubepi::logged_error(notified.failure())}},
                    "on_error of plugin " + plugin->name + " failed at stage " + stage + ": " +
                        describe(notified.failure()));
    }
}

Task<std::string> Framework::system_prompt(const Prompt& prompt, TurnState& state) {
    std::vector<std::string> blocks;
    SystemPromptCall call{prompt, state};
    auto take = [&blocks](const Plugin&, std::optional<std::string> block) {
        if (block && !block->empty()) blocks.push_back(std::move(*block));
    };
    co_await all_results(impl_->plugins(), &Plugin::system_prompt, call, take);
    std::string joined;
    for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
        if (!joined.empty()) joined += "\n\n";
        joined += *block;
    }
    co_return joined;
}

Task<std::string> Framework::continue_prompt(const Prompt& prompt, std::string session_id,
                                             TurnState& state) {
    ContinuePromptCall call{prompt, session_id, state};
    std::optional<std::string> text =
        co_await first_result(impl_->plugins(), &Plugin::continue_prompt, call);
    co_return std::move(text).value_or(std::string());
}

Task<std::vector<ProvidedChannel>> Framework::collect_channels(MessageHandler handler) {
    std::vector<ProvidedChannel> found;
    ProvideChannelsCall call{handler, *this};
    auto take = [this, &found](const Plugin& plugin,
                               std::vector<std::shared_ptr<Channel>> channels) {
        for (std::shared_ptr<Channel>& channel : channels) {
            if (!channel) continue;
            const auto same = std::find_if(found.begin(), found.end(), [&channel](const auto& one) {
                return one.channel->name() == channel->name();
            });
            if (same != found.end()) {
                impl_->warn("plugin.channel_ignored",
                            {{"plugin", plugin.name}, {"channel", channel->name()}},
                            "channel " + channel->name() + " of plugin " + plugin.name +
                                " yields to that of plugin " + same->plugin);
                continue;
            }
            found.push_back(ProvidedChannel{std::move(channel), plugin.name});
        }
    };
    co_await all_results(impl_->plugins(), &Plugin::provide_channels, call, take);
    co_return found;
}

Task<ModelOptions> Framework::model_options(std::string session_id) {
    ModelOptions all;
    ModelOptionsCall call{session_id, workspace()};
    auto take = [&all](const Plugin&, std::optional<ModelOptions> options) {
        if (!options) return;
        for (ModelChoice& choice : options->models) all.models.push_back(std::move(choice));
        if (all.current_model.empty()) all.current_model = std::move(options->current_model);
    };
    co_await all_results(impl_->plugins(), &Plugin::provide_model_options, call, take);
    co_return all;
}

Task<std::vector<CliCommand>> Framework::cli_commands() {
    std::vector<CliCommand> all;
    ProvideCall call{*this};
    auto take = [&all](const Plugin& plugin, std::vector<CliCommand> commands) {
        for (CliCommand& command : commands) {
            command.plugin = plugin.name;
            all.push_back(std::move(command));
        }
    };
    co_await all_results(impl_->plugins(), &Plugin::register_cli_commands, call, take);
    co_return all;
}

Task<JsonObject> Framework::onboard(JsonObject config, OnboardingUi* ui) {
    const detail::PluginList plugins = impl_->plugins();
    for (auto plugin = plugins->rbegin(); plugin != plugins->rend(); ++plugin) {
        if (!(*plugin)->onboard_config) continue;
        OnboardCall call{config, ui};
        std::optional<JsonObject> given = co_await (*plugin)->onboard_config(call);
        if (given) merge(config, std::move(*given));
    }
    co_return config;
}

Task<std::shared_ptr<TapeStore>> Framework::tape_store() {
    if (auto known = impl_->known(impl_->store)) co_return std::move(*known);
    ProvideCall call{*this};
    std::shared_ptr<TapeStore> store =
        co_await first_result(impl_->plugins(), &Plugin::provide_tape_store, call);
    co_return impl_->keep(impl_->store, std::move(store));
}

Task<std::shared_ptr<SteeringInbox>> Framework::steering_inbox() {
    if (auto known = impl_->known(impl_->inbox)) co_return std::move(*known);
    ProvideCall call{*this};
    std::shared_ptr<SteeringInbox> inbox =
        co_await first_result(impl_->plugins(), &Plugin::provide_steering_inbox, call);
    co_return impl_->keep(impl_->inbox, std::move(inbox));
}

Task<std::vector<std::string>> Framework::tape_sidecars() {
    if (auto known = impl_->known(impl_->sidecars)) co_return std::move(*known);
    std::vector<std::string> names;
    ProvideCall call{*this};
    auto take = [this, &names](const Plugin& plugin, std::optional<TapeSidecar> sidecar) {
        if (!sidecar || sidecar->name.empty()) return;
        if (std::find(names.begin(), names.end(), sidecar->name) != names.end()) {
            impl_->warn("plugin.sidecar_ignored", {{"plugin", plugin.name}},
                        "the tape sidecar " + sidecar->name + " of plugin " + plugin.name +
                            " yields to that of a plugin of higher precedence");
            return;
        }
        names.push_back(std::move(sidecar->name));
    };
    co_await all_results(impl_->plugins(), &Plugin::provide_tape_sidecar, call, take);
    co_return impl_->keep(impl_->sidecars, std::move(names));
}

Task<EnvironmentVariables> Framework::environment() {
    if (auto known = impl_->known(impl_->environment)) co_return std::move(*known);
    EnvironmentVariables variables;
    ProvideCall call{*this};
    // The first asked has the highest precedence.
    auto take = [&variables](const Plugin&, std::optional<EnvironmentVariables> given) {
        if (given) variables.merge(*given);
    };
    co_await all_results(impl_->plugins(), &Plugin::provide_environment, call, take);
    co_return impl_->keep(impl_->environment, std::move(variables));
}

Task<TapeContext> Framework::tape_context(std::string session_id, TurnState& state) {
    BuildTapeContextCall call{session_id, state};
    std::optional<TapeContext> context =
        co_await first_result(impl_->plugins(), &Plugin::build_tape_context, call);
    co_return std::move(context).value_or(TapeContext());
}

// The lifespans of the plugins.

Task<> detail::open_lifespans(Framework& framework, Lifespans& open) {
    const std::vector<std::shared_ptr<const Plugin>> plugins = framework.plugins();
    for (auto plugin = plugins.rbegin(); plugin != plugins.rend(); ++plugin) {
        const auto& provide = (*plugin)->provide_lifespan;
        if (!provide) continue;
        ProvideCall call{framework};
        std::shared_ptr<Lifespan> lifespan = co_await provide(call);
        if (!lifespan) continue;
        co_await lifespan->open();
        open.push_back(std::move(lifespan));
    }
}

Task<> detail::close_lifespans(Framework& framework, Lifespans open, std::exception_ptr failure) {
    for (auto lifespan = open.rbegin(); lifespan != open.rend(); ++lifespan) {
        Task<> closing = (*lifespan)->close(failure);
        const cubepi::Outcome<> closed = co_await cubepi::outcome_of(std::move(closing));
        const WarningHandler& warn = framework.options().on_warning;
        if (!closed && warn)
            warn("a plugin's lifespan did not close: " + describe(closed.failure()));
    }
}

namespace {

Task<> open_and_run(Framework& framework, detail::Lifespans& open, Task<> work) {
    co_await detail::open_lifespans(framework, open);
    co_await std::move(work);
}

}  // namespace

Task<> Framework::running(Task<> work) {
    detail::Lifespans open;
    Task<> running = open_and_run(*this, open, std::move(work));
    const cubepi::Outcome<> ran = co_await cubepi::outcome_of(std::move(running));
    co_await cubepi::shield();
    Task<> closing = detail::close_lifespans(*this, std::move(open), ran.failure());
    co_await std::move(closing);
    co_await cubepi::unshield();
    ran.rethrow();
}

}  // namespace bub
