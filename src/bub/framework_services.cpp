#include <algorithm>
#include <utility>

#include <bub/framework.hpp>
#include <bub/kernel/framework_impl.hpp>

namespace bub {

using detail::all_results;
using detail::first_result;

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

Task<std::optional<AdmitDecision>> Framework::admit_message(std::string session_id,
                                                            const Envelope& message,
                                                            TurnSnapshot turn) {
    AdmitMessageCall call{session_id, message, turn};
    std::optional<AdmitDecision> decision =
        co_await first_result(impl_->plugins(), &Plugin::admit_message, call);
    co_return decision;
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

namespace {

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
    {
        const std::lock_guard lock(impl_->mutex);
        if (impl_->store) co_return *impl_->store;
    }
    ProvideCall call{*this};
    std::shared_ptr<TapeStore> store =
        co_await first_result(impl_->plugins(), &Plugin::provide_tape_store, call);
    const std::lock_guard lock(impl_->mutex);
    if (!impl_->store) impl_->store = std::move(store);
    co_return *impl_->store;
}

Task<std::shared_ptr<SteeringInbox>> Framework::steering_inbox() {
    {
        const std::lock_guard lock(impl_->mutex);
        if (impl_->inbox) co_return *impl_->inbox;
    }
    ProvideCall call{*this};
    std::shared_ptr<SteeringInbox> inbox =
        co_await first_result(impl_->plugins(), &Plugin::provide_steering_inbox, call);
    const std::lock_guard lock(impl_->mutex);
    if (!impl_->inbox) impl_->inbox = std::move(inbox);
    co_return *impl_->inbox;
}

Task<std::vector<std::string>> Framework::tape_sidecars() {
    {
        const std::lock_guard lock(impl_->mutex);
        if (impl_->sidecars) co_return *impl_->sidecars;
    }
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
    const std::lock_guard lock(impl_->mutex);
    if (!impl_->sidecars) impl_->sidecars = std::move(names);
    co_return *impl_->sidecars;
}

Task<EnvironmentVariables> Framework::environment() {
    {
        const std::lock_guard lock(impl_->mutex);
        if (impl_->environment) co_return *impl_->environment;
    }
    EnvironmentVariables variables;
    ProvideCall call{*this};
    // The first asked has the highest precedence.
    auto take = [&variables](const Plugin&, std::optional<EnvironmentVariables> given) {
        if (given) variables.merge(*given);
    };
    co_await all_results(impl_->plugins(), &Plugin::provide_environment, call, take);
    const std::lock_guard lock(impl_->mutex);
    if (!impl_->environment) impl_->environment = std::move(variables);
    co_return *impl_->environment;
}

Task<TapeContext> Framework::tape_context(std::string session_id, TurnState& state) {
    BuildTapeContextCall call{session_id, state};
    std::optional<TapeContext> context =
        co_await first_result(impl_->plugins(), &Plugin::build_tape_context, call);
    co_return std::move(context).value_or(TapeContext());
}

}  // namespace bub
