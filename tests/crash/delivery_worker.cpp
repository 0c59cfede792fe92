#include "delivery_worker.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <utility>

#include <bub/channel/channel_manager.hpp>
#include <bub/channel/file_delivery_log.hpp>
#include <bub/framework.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>

#include "kill_at_write.hpp"

namespace cubepi::crash_tests {

namespace {

void add_line(const std::filesystem::path& file, std::string line) {
    line += '\n';
    const int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    step();
    write_without_step(fd, line);
    step();
    close(fd);
}

/// A platform in a folder: it brings updates until they are confirmed, and shows what is sent.
class FolderChannel final : public bub::Channel, public bub::SettlesDeliveries {
public:
    FolderChannel(std::filesystem::path folder, bub::MessageHandler handler,
                  std::shared_ptr<AsyncEvent> brought)
        : folder_(std::move(folder)), handler_(std::move(handler)), brought_(std::move(brought)) {}

    const std::string& name() const noexcept override { return name_; }
    Task<> start(std::stop_token) override {
        const Executor executor = co_await this_executor;
        work_ = std::make_unique<BackgroundScope>(executor);
        work_->spawn(poll());
    }
    Task<> stop() override { return work_->close(); }
    Task<> send(bub::Envelope message) override {
        std::string line = message.content_text();
        if (message.context.contains("resent")) line += " (again)";
        add_line(sent_file(folder_), std::move(line));
        co_return;
    }
    bub::UnsettledPolicy unsettled_policy() const noexcept override {
        return bub::UnsettledPolicy::resend;
    }

private:
    Task<> poll() {
        const std::vector<std::string> confirmed = lines_of(confirmed_file(folder_));
        for (const std::string& text : updates) {
            if (std::find(confirmed.begin(), confirmed.end(), text) != confirmed.end()) continue;
            bub::Envelope message(text);
            message.channel = name_;
            message.chat_id = text.size() > 3 ? "long" : "short";
            message.inbound_id = text;
            co_await handler_(std::move(message));
            add_line(confirmed_file(folder_), text);
        }
        brought_->set();
    }

    const std::string name_ = "platform";
    const std::filesystem::path folder_;
    const bub::MessageHandler handler_;
    const std::shared_ptr<AsyncEvent> brought_;
    std::unique_ptr<BackgroundScope> work_;
};

bub::Plugin plugin(bub::Framework& framework, const std::filesystem::path& folder,
                   const std::shared_ptr<AsyncEvent>& brought, const std::string& deadly) {
    bub::Plugin plugin;
    plugin.name = "worker";
    plugin.run_model = [deadly](bub::RunModelCall& call) {
        if (call.prompt.text() == deadly) (void)raise(SIGKILL);
        return "re: " + call.prompt.text();
    };
    plugin.dispatch_outbound = [&framework](bub::DispatchOutboundCall& call) -> Task<bool> {
        bub::Envelope message = call.message;
        const auto router = framework.router();
        const bool taken = co_await router->dispatch_output(std::move(message));
        co_return taken;
    };
    plugin.provide_channels = [folder, brought](bub::ProvideChannelsCall& call) {
        std::vector<std::shared_ptr<bub::Channel>> channels;
        channels.push_back(std::make_shared<FolderChannel>(folder, call.handler, brought));
        return channels;
    };
    return plugin;
}

Task<> end_when_idle(bub::ChannelManager& manager, std::shared_ptr<AsyncEvent> brought) {
    co_await brought->wait();
    co_await manager.idle();
    manager.request_stop();
}

Task<> serve(bub::ChannelManager& manager, std::shared_ptr<AsyncEvent> brought) {
    const Executor executor = co_await this_executor;
    TaskScope scope(executor);
    scope.spawn(manager.run());
    scope.spawn(end_when_idle(manager, std::move(brought)));
    co_await scope.join();
}

}  // namespace

std::vector<std::string> lines_of(const std::filesystem::path& file) {
    std::vector<std::string> lines;
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

int run_delivery_worker(const std::filesystem::path& folder, std::size_t kill_at,
                        const std::string& deadly) {
    bub::FileDeliveryLogOptions log;
    log.folder = delivery_folder(folder);
    log.sync = bub::DeliverySync::never;
    log.compact_bytes = 1000;
    bub::ChannelManagerOptions options;
    options.deliveries = std::make_shared<bub::FileDeliveryLog>(std::move(log));
    bub::Framework framework;
    const auto brought = std::make_shared<AsyncEvent>();
    framework.add(plugin(framework, folder, brought, deadly));
    bub::ChannelManager manager(framework, std::move(options));
    arm(kill_at);
    try {
        run(serve(manager, brought));
    } catch (const Error& error) {
        if (error.code() == ErrorCode::storage_locked) return found_locked;
        throw;
    }
    disarm();
    return 0;
}

}  // namespace cubepi::crash_tests
