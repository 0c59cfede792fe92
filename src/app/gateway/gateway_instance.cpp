#include "gateway_instance.hpp"

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>

#include <bub/builtin/builtin.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/net/http_client.hpp>

#include "../config/config_file.hpp"
#include "../config/model_sources.hpp"
#include "../config/paths.hpp"
#include "../config/tape_place.hpp"
#include "../config/turn_settings.hpp"
#include "../program.hpp"
#include "gateway_channels.hpp"
#include "sender_policy.hpp"
#include "session_workspaces.hpp"

namespace cubepi::app {

namespace {

std::filesystem::path make_root(const GatewaySettings& settings) {
    std::filesystem::path root = settings.root.empty() ? gateway_root() : settings.root;
    std::error_code failed;
    std::filesystem::create_directories(root, failed);
    if (failed) {
        throw Error(ErrorCode::storage, "cannot create " + root.string() + ": " + failed.message() +
                                            "; check gateway.root in the configuration file");
    }
    return root;
}

bub::FrameworkOptions framework_options(const GatewaySettings& settings,
                                        const GatewayInstance::Parts& parts) {
    bub::FrameworkOptions options;
    options.workspace = make_root(settings);
    options.runtime = Runtime::standard();
    options.on_warning = parts.on_warning;
    if (parts.telemetry) {
        options.tracer = parts.telemetry->tracer();
        options.meter = parts.telemetry->meter();
    }
    if (parts.meter) options.meter = parts.meter;
    return options;
}

bub::ChannelManagerOptions manager_options(const GatewaySettings& settings,
                                           const ModelSources& sources,
                                           const GatewayInstance::Parts& parts) {
    bub::ChannelManagerOptions options;
    options.channels = parts.channels.empty() ? settings.channels : parts.channels;
    options.stream_output = settings.stream;
    options.debounce = sources.bub.debounce_options();
    options.max_waiting = settings.max_waiting;
    options.deliveries = parts.deliveries;
    options.on_warning = parts.on_warning;
    return options;
}

std::size_t thread_count(const GatewaySettings& settings) {
    if (settings.threads > 0) return settings.threads;
    return std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace

Task<std::unique_ptr<GatewayInstance>> GatewayInstance::create(ModelFlags flags, Parts parts) {
    ConfigFile config = read_config(config_path());
    GatewaySettings settings = gateway_settings(config_values(config_path()));
    ModelSources sources = model_sources(flags, config, false);
    const std::shared_ptr<const Runtime> runtime = Runtime::standard();
    ModelChoice model = co_await choose_model(sources, transport_of(*runtime), ChooseModel());
    std::unique_ptr<GatewayInstance> made(
        new GatewayInstance(std::move(config), std::move(settings), std::move(sources),
                            std::move(model), std::move(parts)));
    // A channel without its token is reported now, not when the instance is to run.
    const auto channels = co_await made->manager_->enabled_channels();
    if (channels.empty()) {
        throw Error(ErrorCode::not_found,
                    "no channel is enabled; configure one: 'cubepi onboard telegram', or the key "
                    "gateway.http of " +
                        config_path().string());
    }
    co_return std::move(made);
}

GatewayInstance::GatewayInstance(ConfigFile config, GatewaySettings settings, ModelSources sources,
                                 ModelChoice model, Parts parts)
    : config_(std::move(config)),
      settings_(std::move(settings)),
      sources_(std::move(sources)),
      model_(std::move(model)),
      parts_(std::move(parts)),
      tapes_(configured_tapes()),
      framework_(make_framework(true)) {
    bub::ChannelManagerOptions options = manager_options(settings_, sources_, parts_);
    const std::size_t threads = thread_count(settings_);
    if (threads > 1) {
        shards_ =
            std::make_shared<bub::TurnShards>(threads, [this] { return make_framework(false); });
        options.shards = shards_;
    }
    manager_ = std::make_unique<bub::ChannelManager>(*framework_, std::move(options));
}

GatewayInstance::~GatewayInstance() = default;

std::unique_ptr<bub::Framework> GatewayInstance::make_framework(bool with_channels) const {
    auto framework = std::make_unique<bub::Framework>(framework_options(settings_, parts_));
    bub::BuiltinOptions options = builtin_options();
    // A store on a server belongs to the event loop that uses it.
    options.tape_store = with_channels ? tapes_ : configured_tapes();
    if (with_channels) {
        options.channels = [this](bub::ProvideChannelsCall& call) {
            return gateway_channels(settings_, call);
        };
    }
    framework->add(bub::builtin_plugin(*framework, std::move(options)));
    if (!settings_.shared_workspace) framework->add(session_workspaces(framework->workspace()));
    add_plugins(*framework, parts_.plugins);
    return framework;
}

bub::BuiltinOptions GatewayInstance::builtin_options() const {
    bub::BuiltinOptions options;
    options.model = model_.model;
    options.other_models = model_.fallbacks;
    options.find_model = [sources = sources_, primary = model_.endpoint](const std::string& id) {
        return choice_of(sources, endpoint_for_model(sources, primary, id)).model;
    };
    options.environment = command_environment(config_, sources_.flags);
    options.questions = sender_policy(settings_);
    const TurnSettings turns = turn_settings(sources_);
    if (turns.max_turns.value) options.max_steps = *turns.max_turns.value;
    return options;
}

}  // namespace cubepi::app
