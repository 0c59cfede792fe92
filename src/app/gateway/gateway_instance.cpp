#include "gateway_instance.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include <bub/builtin/builtin.hpp>
#include <bub/tape/file_tape_store.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/net/http_client.hpp>

#include "../config/config_file.hpp"
#include "../config/model_sources.hpp"
#include "../config/paths.hpp"
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

}  // namespace

Task<std::unique_ptr<GatewayInstance>> GatewayInstance::create(ModelFlags flags, Parts parts) {
    const ConfigFile config = read_config(config_path());
    GatewaySettings settings = gateway_settings(config_values(config_path()));
    ModelSources sources = model_sources(flags, config, false);
    const std::shared_ptr<const Runtime> runtime = Runtime::standard();
    ModelChoice model = co_await choose_model(sources, transport_of(*runtime), ChooseModel());
    co_return std::unique_ptr<GatewayInstance>(new GatewayInstance(
        config, std::move(settings), std::move(sources), std::move(model), std::move(parts)));
}

GatewayInstance::GatewayInstance(const ConfigFile& config, GatewaySettings settings,
                                 ModelSources sources, ModelChoice model, Parts parts)
    : settings_(std::move(settings)),
      model_(std::move(model)),
      tapes_(std::make_shared<bub::FileTapeStore>(bub::default_tape_directory())),
      framework_(std::make_unique<bub::Framework>(framework_options(settings_, parts))) {
    framework_->add(bub::builtin_plugin(*framework_, builtin_options(config, sources)));
    if (!settings_.shared_workspace) framework_->add(session_workspaces(framework_->workspace()));
    add_plugins(*framework_, parts.plugins);
    manager_ = std::make_unique<bub::ChannelManager>(*framework_,
                                                     manager_options(settings_, sources, parts));
}

GatewayInstance::~GatewayInstance() = default;

bub::BuiltinOptions GatewayInstance::builtin_options(const ConfigFile& config,
                                                     const ModelSources& sources) const {
    bub::BuiltinOptions options;
    options.model = model_.model;
    options.other_models = model_.fallbacks;
    options.find_model = [sources, primary = model_.endpoint](const std::string& id) {
        return choice_of(sources, endpoint_for_model(sources, primary, id)).model;
    };
    options.tape_store = tapes_;
    options.environment = command_environment(config, sources.flags);
    options.questions = sender_policy(settings_);
    const TurnSettings turns = turn_settings(sources);
    if (turns.max_turns.value) options.max_steps = *turns.max_turns.value;
    options.channels = [settings = settings_](bub::ProvideChannelsCall& call) {
        return gateway_channels(settings, call);
    };
    return options;
}

}  // namespace cubepi::app
