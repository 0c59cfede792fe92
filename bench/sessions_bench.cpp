#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include <bub/builtin/builtin.hpp>
#include <bub/channel/channel_manager.hpp>
#include <bub/tape/file_tape_store.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/provider/faux.hpp>

#include "allocation_count.hpp"

// Memory of idle sessions in a gateway: channel, manager, builtin plugin, tapes in files.

namespace cubepi::bench {
namespace {

/// A chat service without messages of its own, which discards outbound messages.
class QuietChannel final : public bub::Channel {
public:
    const std::string& name() const noexcept override { return name_; }
    Task<> start(std::stop_token) override {
        started.set();
        co_return;
    }
    Task<> stop() override { co_return; }
    Task<> send(bub::Envelope) override {
        ++sent;
        co_return;
    }

    AsyncEvent started;
    std::size_t sent = 0;

private:
    std::string name_ = "chat";
};

class Gateway {
public:
    Gateway() {
        std::filesystem::remove_all(root_);
        std::filesystem::create_directories(root_ / "work");
        bub::FrameworkOptions options;
        options.workspace = root_ / "work";
        framework_ = std::make_unique<bub::Framework>(std::move(options));
        bub::FileTapeOptions tapes;
        tapes.directory = root_ / "tapes";
        tapes.sync = bub::TapeSync::never;
        bub::BuiltinOptions builtin;
        builtin.model = faux_.model("m");
        builtin.home = root_ / "home";
        builtin.with_user_skills = false;
        builtin.tape_store = std::make_shared<bub::FileTapeStore>(std::move(tapes));
        builtin.channels = [this](bub::ProvideChannelsCall&) {
            return std::vector<std::shared_ptr<bub::Channel>>{channel_};
        };
        framework_->add(bub::builtin_plugin(*framework_, std::move(builtin)));
        manager_ = std::make_unique<bub::ChannelManager>(*framework_);
    }
    ~Gateway() {
        manager_.reset();
        framework_.reset();
        std::filesystem::remove_all(root_);
    }

    /// Runs a turn in each of `count` sessions; returns the remaining bytes per session.
    Task<double> bytes_left(std::size_t count) {
        std::stop_source stop;
        TaskScope scope(co_await this_executor);
        scope.spawn(manager_->run(stop.get_token()));
        co_await channel_->started.wait();
        for (std::size_t i = 0; i < warm_up; ++i) co_await one_turn("first" + std::to_string(i));
        const LiveBytes live;
        const std::ptrdiff_t before = live.now();
        for (std::size_t i = 0; i < count; ++i) co_await one_turn("chat" + std::to_string(i));
        const std::ptrdiff_t left = live.now() - before;
        stop.request_stop();
        co_await scope.join();
        co_return static_cast<double>(left) / static_cast<double>(count);
    }

    std::size_t answers() const { return channel_->sent; }
    static constexpr std::size_t warm_up = 10;

private:
    Task<> one_turn(std::string chat) {
        std::vector<FauxStep> steps;
        steps.emplace_back(faux_assistant_message("hello to you"));
        faux_.set_responses(std::move(steps));
        bub::Envelope inbound = bub::Envelope("hello").on("chat", std::move(chat));
        inbound.is_active = true;
        co_await manager_->receive(std::move(inbound));
        co_await manager_->idle();
    }

    std::filesystem::path root_ = std::filesystem::temp_directory_path() / "cubepi-bench-sessions";
    FauxProvider faux_;
    std::shared_ptr<QuietChannel> channel_ = std::make_shared<QuietChannel>();
    std::unique_ptr<bub::Framework> framework_;
    std::unique_ptr<bub::ChannelManager> manager_;
};

void idle_gateway_sessions(benchmark::State& state) {
    constexpr std::size_t sessions = 10'000;
    for (auto _ : state) {
        Gateway gateway;
        state.counters["bytes_per_session"] = run(gateway.bytes_left(sessions));
        if (gateway.answers() != sessions + Gateway::warm_up) state.SkipWithError("no answer");
    }
}
BENCHMARK(idle_gateway_sessions)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace cubepi::bench
