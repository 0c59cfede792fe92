#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include <bub/channel/channel_manager.hpp>
#include <bub/channel/file_delivery_log.hpp>
#include <bub/channel/turn_shards.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>

// Turns through channel manager and delivery log, with a constant model: on the manager's thread, and on one and two threads of their own.

namespace cubepi::bench {
namespace {

constexpr std::size_t sessions = 1'000;

/// A chat service that counts outbound messages.
class CountingChannel final : public bub::Channel {
public:
    const std::string& name() const noexcept override { return name_; }
    Task<> start(std::stop_token) override { co_return; }
    Task<> stop() override { co_return; }
    Task<> send(bub::Envelope) override {
        ++sent;
        co_return;
    }
    std::size_t sent = 0;

private:
    const std::string name_ = "chat";
};

std::filesystem::path directory() {
    return std::filesystem::temp_directory_path() / "cubepi-bench-gateway";
}

Task<bool> dispatch(std::shared_ptr<bub::OutboundChannelRouter> router, bub::TurnOutput output) {
    co_return co_await router->dispatch_output(std::move(output));
}

std::unique_ptr<bub::Framework> make_framework(std::shared_ptr<CountingChannel> channel) {
    auto framework = std::make_unique<bub::Framework>();
    bub::Plugin plugin;
    plugin.name = "constant";
    plugin.run_model = [](bub::RunModelCall&) { return std::string("hello to you"); };
    plugin.provide_channels = [channel](bub::ProvideChannelsCall&) {
        return std::vector<std::shared_ptr<bub::Channel>>{channel};
    };
    plugin.dispatch_outbound = [at = framework.get()](bub::DispatchOutboundCall& call) {
        return dispatch(at->router(), call.output());
    };
    framework->add(std::move(plugin));
    return framework;
}

std::shared_ptr<bub::FileDeliveryLog> make_log() {
    bub::FileDeliveryLogOptions options;
    options.directory = directory();
    return std::make_shared<bub::FileDeliveryLog>(std::move(options));
}

bub::Envelope message(std::size_t chat) {
    bub::Envelope made = bub::Envelope("hello").on("chat", std::to_string(chat));
    made.is_active = true;
    return made;
}

/// One message in each session, all at once.
Task<> one_round(bub::ChannelManager& manager) {
    TaskScope scope(co_await this_executor);
    for (std::size_t i = 0; i < sessions; ++i) scope.spawn(manager.receive(message(i)));
    co_await scope.join();
    co_await manager.idle();
}

Task<> serve(bub::ChannelManager& manager, benchmark::State& state) {
    std::stop_source stop;
    TaskScope scope(co_await this_executor);
    scope.spawn(manager.run(stop.get_token()));
    co_await manager.started();
    for (auto _ : state) co_await one_round(manager);
    stop.request_stop();
    co_await scope.join();
}

void run_gateway(benchmark::State& state, std::size_t threads, bool records = true) {
    std::filesystem::remove_all(directory());
    std::filesystem::create_directories(directory());
    const auto channel = std::make_shared<CountingChannel>();
    const std::unique_ptr<bub::Framework> framework = make_framework(channel);
    bub::ChannelManagerOptions options;
    if (records) options.deliveries = make_log();
    if (threads > 0) {
        options.shards = std::make_shared<bub::TurnShards>(
            threads, [channel] { return make_framework(channel); });
    }
    {
        bub::ChannelManager manager(*framework, std::move(options));
        run(serve(manager, state));
    }
    if (channel->sent != sessions * static_cast<std::size_t>(state.iterations()))
        state.SkipWithError("an answer is missing");
    std::filesystem::remove_all(directory());
}

void gateway_turns(benchmark::State& state) { run_gateway(state, 0); }
BENCHMARK(gateway_turns)->Unit(benchmark::kMillisecond)->UseRealTime();

/// Without a delivery log: the cost of the manager itself.
void gateway_turns_unrecorded(benchmark::State& state) { run_gateway(state, 0, false); }
BENCHMARK(gateway_turns_unrecorded)->Unit(benchmark::kMillisecond);

void gateway_turns_on_one_thread(benchmark::State& state) { run_gateway(state, 1); }
BENCHMARK(gateway_turns_on_one_thread)->Unit(benchmark::kMillisecond)->UseRealTime();

void gateway_turns_on_two_threads(benchmark::State& state) { run_gateway(state, 2); }
BENCHMARK(gateway_turns_on_two_threads)->Unit(benchmark::kMillisecond)->UseRealTime();

/// The steps of the delivery log for a message and its answer.
Task<> record(bub::DeliveryLog& log, std::size_t chat) {
    std::optional<std::string> id = co_await log.receive(message(chat));
    std::vector<std::string> ids(1, *id);
    co_await log.begin(ids);
    std::string answer = co_await log.intend(message(chat), ids);
    co_await log.sent(std::move(answer));
    co_await log.finish(std::move(ids));
}

Task<> record_all(bub::DeliveryLog& log, benchmark::State& state) {
    for (auto _ : state) {
        TaskScope scope(co_await this_executor);
        for (std::size_t i = 0; i < sessions; ++i) scope.spawn(record(log, i));
        co_await scope.join();
    }
}

void bare_deliveries(benchmark::State& state) {
    std::filesystem::remove_all(directory());
    std::filesystem::create_directories(directory());
    const auto log = make_log();
    run(record_all(*log, state));
    std::filesystem::remove_all(directory());
}
BENCHMARK(bare_deliveries)->Unit(benchmark::kMillisecond)->UseRealTime();

/// A message that arrives alone, until its answer is sent.
Task<> lone_messages(bub::ChannelManager& manager, benchmark::State& state) {
    std::stop_source stop;
    TaskScope scope(co_await this_executor);
    scope.spawn(manager.run(stop.get_token()));
    co_await manager.started();
    for (auto _ : state) {
        co_await manager.receive(message(1));
        co_await manager.idle();
    }
    stop.request_stop();
    co_await scope.join();
}

/// The delay that manager and thread change add to a turn, without a delivery log.
void lone_message(benchmark::State& state) {
    const auto channel = std::make_shared<CountingChannel>();
    const std::unique_ptr<bub::Framework> framework = make_framework(channel);
    bub::ChannelManagerOptions options;
    options.shards =
        std::make_shared<bub::TurnShards>(1, [channel] { return make_framework(channel); });
    bub::ChannelManager manager(*framework, std::move(options));
    run(lone_messages(manager, state));
}
BENCHMARK(lone_message)->UseRealTime();

}  // namespace
}  // namespace cubepi::bench
