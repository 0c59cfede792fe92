#include "delivery_worker.hpp"

#include <signal.h>

#include <utility>
#include <vector>

#include <bub/channel/channel_manager.hpp>
#include <bub/framework.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/run.hpp>

#include "directory_channel.hpp"
#include "worker_process.hpp"

namespace cubepi::crash_tests {

namespace {

bub::Plugin plugin(bub::Framework& framework, const std::filesystem::path& directory,
                   const std::shared_ptr<AsyncEvent>& brought, const std::string& deadly) {
    bub::Plugin plugin;
    plugin.name = "worker";
    plugin.run_model = [deadly](bub::RunModelCall& call) {
        if (call.prompt.text() == deadly) (void)raise(SIGKILL);
        return "re: " + call.prompt.text();
    };
    plugin.dispatch_outbound = [&framework](bub::DispatchOutboundCall& call) -> Task<bool> {
        bub::TurnOutput output = call.output();
        const auto router = framework.router();
        const bool taken = co_await router->dispatch_output(std::move(output));
        co_return taken;
    };
    plugin.provide_channels = [directory, brought](bub::ProvideChannelsCall& call) {
        std::vector<std::shared_ptr<bub::Channel>> channels;
        channels.push_back(directory_channel(directory, call.handler, brought));
        return channels;
    };
    return plugin;
}

}  // namespace

int run_delivery_worker(std::shared_ptr<bub::DeliveryLog> log,
                        const std::filesystem::path& directory, std::size_t kill_at,
                        const std::string& deadly) {
    bub::ChannelManagerOptions options;
    options.deliveries = std::move(log);
    bub::Framework framework;
    const auto brought = std::make_shared<AsyncEvent>();
    framework.add(plugin(framework, directory, brought, deadly));
    bub::ChannelManager manager(framework, std::move(options));
    arm(kill_at);
    try {
        run(serve_until_idle(manager, brought));
    } catch (const Error& error) {
        if (error.code() == ErrorCode::storage_locked) return found_locked;
        throw;
    }
    disarm();
    return 0;
}

}  // namespace cubepi::crash_tests
